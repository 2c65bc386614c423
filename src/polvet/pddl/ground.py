"""A problem made of ground actions: conditions and effects without variables, what never changes folded away.

Semantics of an action in a state where its precondition holds
    conditions   of `when` and of quantifiers are read in the state before
    choices      one outcome of each `oneof` and `probabilistic`, independently of each other; under a `when` whose
                 condition does not hold, whatever is chosen changes nothing
    changes      of the chosen outcome happen at once; an atom that is both deleted and added is true afterwards; numbers are
                 computed in the state before (`numeric`)
An atom is folded where it is true at first and no ground action deletes it, or false at first and none adds it. Folding
may show that an action is never applicable, and then further atoms to be constant: this is repeated until nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import count
from typing import TypeVar

from polvet.errors import InputError, Where
from polvet.pddl.facts import Values
from polvet.pddl.numeric import Known, Undefined, folded_comparison, folded_number, ground_number, unknown, value_after
from polvet.pddl.reachable import Reach
from polvet.pddl.syntax import (
    FALSE,
    NOTHING,
    TRUE,
    Action,
    And,
    Atom,
    Change,
    Choice,
    Compare,
    Condition,
    Domain,
    Effect,
    Equal,
    Every,
    Exists,
    Fluent,
    ForAll,
    Not,
    Number,
    Or,
    Problem,
    Shift,
    Together,
    Variable,
    When,
    all_changes,
    negated,
    normal,
    shifts,
)

MAX_OUTCOMES = 4096
ONE = Fraction(1)
Key = TypeVar("Key")
Truth = Callable[[Atom], bool | None]
"""The value of a ground atom in every state, or None where it may change."""
Way = frozenset[tuple[Condition, Change | Shift]]
"""What happens together: each change under its condition."""


@dataclass(frozen=True, slots=True)
class GroundAction:
    """An action with objects for its parameters; its guard and effect hold what may change, and nothing else."""

    label: str
    guard: Condition
    effect: Effect
    where: Where = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One outcome: its probability, and the value of each atom and fluent afterwards, told by the state before."""

    probability: Fraction
    values: tuple[tuple[Atom, Condition], ...]
    numbers: tuple[tuple[Fluent, Number], ...] = ()


@dataclass(frozen=True, slots=True)
class Grounding:
    """A ground problem. `atoms` and `fluents` are those that may change; `truth` and `number` tell what all others are."""

    reach: Reach = field(compare=False, repr=False)
    atoms: tuple[Atom, ...]
    actions: tuple[GroundAction, ...]
    truth: Truth = field(compare=False, repr=False)
    fluents: tuple[Fluent, ...] = ()
    number: Known = field(default=unknown, compare=False, repr=False)

    def condition(self, condition: Condition) -> Condition:
        """Return a condition over the problem's objects as one over the atoms and fluents that may change."""
        return folded(ground_condition(normal(condition), {}, self.reach), self.truth, self.number)


def ground(domain: Domain, problem: Problem) -> Grounding:
    """Return the ground problem."""
    reach = Reach(domain, problem)
    schemas = [
        replace(one, precondition=normal(one.precondition), effect=_normal_effect(one.effect)) for one in domain.actions
    ]
    actions = []
    for place, schema in enumerate(schemas):
        numeric = any(True for _ in shifts(schema.effect))
        actions += [_instance(schema, row, reach, numeric) for row in reach.rows_of(place)]
    before: tuple[set[Atom], set[Fluent]] | None = None
    while True:
        added, deleted, moving = _touched(actions)
        changing = {atom for atom in added if atom not in problem.init} | (deleted & problem.init)

        def truth(atom: Atom, changing: set[Atom] = changing) -> bool | None:
            return None if atom in changing else atom in problem.init

        def number(fluent: Fluent, moving: Mapping[Fluent, Shift] = moving) -> int | None:
            if fluent not in moving and fluent not in problem.numbers:
                raise Undefined(fluent)
            return None if fluent in moving else problem.numbers[fluent]

        if before == (changing, set(moving)):
            break  # all is folded by what is known now
        before = changing, set(moving)
        actions = [
            folded_one for action in actions if (folded_one := _folded_action(action, truth, number)) is not None
        ]
    for fluent, shift in moving.items():
        if fluent not in problem.numbers:
            what = f"'{fluent}' is changed here, but has no value in :init."
            raise InputError(what, shift.where, f"Write (= ({' '.join((fluent.function, *fluent.terms))}) 0) in :init.")
    order = _order(domain, problem)
    fluents = tuple(sorted(moving, key=order))
    return Grounding(reach, tuple(sorted(changing, key=order)), tuple(actions), truth, fluents, number)


def _touched(actions: Iterable[GroundAction]) -> tuple[set[Atom], set[Atom], dict[Fluent, Shift]]:
    """Return the atoms that are added, those that are deleted, and the fluents that change, each with one of its changes."""
    added: set[Atom] = set()
    deleted: set[Atom] = set()
    moving: dict[Fluent, Shift] = {}
    for action in actions:
        for change in all_changes(action.effect):
            if isinstance(change, Shift):
                moving[change.fluent] = change
            else:
                (added if change.value else deleted).add(change.atom)
    return added, deleted, moving


def _rebuilt(effect: Effect, change: Callable[[Effect], Effect]) -> Effect:
    """Return the effect with `change` applied to its direct parts."""
    match effect:
        case Together(parts):
            return Together(tuple(map(change, parts)))
        case When(condition, inner):
            return When(condition, change(inner))
        case Every(variables, inner):
            return Every(variables, change(inner))
        case Choice(outcomes):
            return Choice(tuple((chance, change(inner)) for chance, inner in outcomes))
        case _:
            return effect


def _normal_effect(effect: Effect) -> Effect:
    """Return the effect with normal conditions."""
    if isinstance(effect, When):
        effect = When(normal(effect.condition), effect.effect)
    return _rebuilt(effect, _normal_effect)


def _folded_action(action: GroundAction, truth: Truth, number: Known) -> GroundAction | None:
    """Return the action without what never changes; None where it is never applicable."""
    guard = folded(action.guard, truth, number)
    if guard == FALSE:
        return None
    try:
        return GroundAction(action.label, guard, folded_effect(action.effect, truth, number), action.where)
    except Undefined:
        return None


def _order(domain: Domain, problem: Problem) -> Callable[[Atom | Fluent], tuple[int, ...]]:
    names = {name: k for k, name in enumerate((*domain.words.predicates, *domain.words.functions))}
    objects = {name: k for k, name in enumerate(problem.words.objects)}

    def place(one: Atom | Fluent) -> tuple[int, ...]:
        name = one.predicate if isinstance(one, Atom) else one.function
        return names[name], *(objects[term] for term in one.terms)

    return place


def _instance(action: Action, row: tuple[str, ...], reach: Reach, numeric: bool) -> GroundAction:
    values = dict(zip((one.name for one in action.parameters), row, strict=True))
    guard = ground_condition(action.precondition, values, reach)
    effect = _ground_effect(action.effect, values, reach)
    if numeric:
        effect = _numbered(effect, count())
    return GroundAction(str(Atom(action.name, row)), guard, effect, action.where)


def ground_condition(condition: Condition, values: Values, reach: Reach) -> Condition:
    """Return the (normal) condition with values for its variables, and with quantifiers written out."""
    match condition:
        case Atom(predicate, terms):
            return reach.settled(predicate, tuple([values.get(term, term) for term in terms]))
        case Equal(left, right):
            return TRUE if values.get(left, left) == values.get(right, right) else FALSE
        case Compare(operator, one, other):
            return Compare(operator, ground_number(one, values), ground_number(other, values))
        case Not(part):
            return negated(ground_condition(part, values, reach))
        case And(parts):
            return conjoined(ground_condition(part, values, reach) for part in parts)
        case Or(parts):
            return disjoined(ground_condition(part, values, reach) for part in parts)
        case Exists() | ForAll():
            instance = condition, tuple([values.get(name) for name in reach.variables_in(condition)])
            if instance not in reach.written_out:
                reach.written_out[instance] = _written_out(condition, values, reach)
            return reach.written_out[instance]


def _written_out(condition: Exists | ForAll, values: Values, reach: Reach) -> Condition:
    variables, body = condition.variables, condition.body
    if isinstance(condition, Exists):
        return disjoined(ground_condition(body, one, reach) for one in reach.bindings(variables, body, values))
    # SOUND: with other values the opposite of the body never holds, so the body always does.
    return conjoined(ground_condition(body, one, reach) for one in reach.bindings(variables, negated(body), values))


def instances(variables: tuple[Variable, ...], condition: Condition, reach: Reach) -> list[Condition]:
    """Return the condition for each value of the variables with which it may hold in some state."""
    body = normal(condition)
    return [ground_condition(body, values, reach) for values in reach.bindings(variables, body, {})]


def _ground_effect(effect: Effect, values: Values, reach: Reach) -> Effect:
    match effect:
        case Change(Atom(predicate, terms), value):
            return Change(Atom(predicate, tuple([values.get(term, term) for term in terms])), value)
        case Shift(Fluent(function, terms), amount, absolute, where):
            fluent = Fluent(function, tuple([values.get(term, term) for term in terms]))
            return Shift(fluent, ground_number(amount, values), absolute, where)
        case When(condition, inner):
            held = ground_condition(condition, values, reach)
            return NOTHING if held == FALSE else When(held, _ground_effect(inner, values, reach))
        case Every(variables, Together(parts)):
            return Together(tuple(_ground_effect(Every(variables, part), values, reach) for part in parts))
        case Every(variables, inner):
            condition = inner.condition if isinstance(inner, When) else TRUE
            bindings = reach.bindings(variables, condition, values)
            return Together(tuple(_ground_effect(inner, one, reach) for one in bindings))
        case Together() | Choice():
            return _rebuilt(effect, lambda part: _ground_effect(part, values, reach))


def _numbered(effect: Effect, numbers: Iterator[int]) -> Effect:
    """Return the effect with a number for each of its shifts: two that are written alike are two."""
    if isinstance(effect, Shift):
        return replace(effect, number=next(numbers))
    return _rebuilt(effect, lambda part: _numbered(part, numbers))


def folded(condition: Condition, truth: Truth, number: Known = unknown) -> Condition:
    """Return the ground condition without atoms and fluents whose value is known."""
    match condition:
        case Atom():
            value = truth(condition)
            return condition if value is None else TRUE if value else FALSE
        case Compare():
            return folded_comparison(condition, number)
        case Not(part):
            return negated(folded(part, truth, number))
        case And(parts):
            return conjoined(folded(part, truth, number) for part in parts)
        case Or(parts):
            return disjoined(folded(part, truth, number) for part in parts)
        case _:
            return condition


def folded_effect(effect: Effect, truth: Truth, number: Known = unknown) -> Effect:
    """Return the ground effect without changes to atoms whose value is known, and without idle parts."""
    match effect:
        case Shift(_, amount, absolute):
            by = folded_number(amount, number)
            return NOTHING if by == 0 and not absolute else replace(effect, amount=by)
        case Change(atom, _):
            # SOUND: an atom that is known keeps its value, so a change of it says what it is already.
            return effect if truth(atom) is None else NOTHING
        case Together(parts):
            flat: list[Effect] = []
            for part in parts:
                inner = folded_effect(part, truth, number)
                flat += inner.parts if isinstance(inner, Together) else (inner,)
            return flat[0] if len(flat) == 1 else Together(tuple(flat))
        case When(condition, inner):
            held = folded(condition, truth, number)
            if held == FALSE or (inner := folded_effect(inner, truth, number)) == NOTHING:
                return NOTHING
            return inner if held == TRUE else When(held, inner)
        case Choice(outcomes):
            choices = tuple((chance, folded_effect(inner, truth, number)) for chance, inner in outcomes)
            return NOTHING if all(inner == NOTHING for _, inner in choices) else Choice(choices)
        case _:
            return effect


def outcomes_of(action: GroundAction) -> tuple[Outcome, ...]:
    """Return the outcomes of the action in states of its guard; those that change the same are one."""
    known = dict(literals(action.guard))

    def truth(atom: Atom) -> bool | None:
        return known.get(atom)

    chances: dict[tuple[tuple[tuple[Atom, Condition], ...], tuple[tuple[Fluent, Number], ...]], Fraction] = {}
    for way, probability in _ways(action.effect, TRUE, action).items():
        key = _values_after(way, truth), _numbers_after(way, truth, action)
        add(chances, key, probability)
    return tuple(Outcome(probability, *key) for key, probability in chances.items())


def add(chances: dict[Key, Fraction], key: Key, probability: Fraction) -> None:
    """Add the probability to that of the key."""
    known = chances.get(key)
    chances[key] = probability if known is None else known + probability


def _values_after(way: Way, truth: Truth) -> tuple[tuple[Atom, Condition], ...]:
    added: dict[Atom, list[Condition]] = {}
    deleted: dict[Atom, list[Condition]] = {}
    for condition, change in sorted(((one, other) for one, other in way if isinstance(other, Change)), key=_rank):
        (added if change.value else deleted).setdefault(change.atom, []).append(folded(condition, truth))
    values: list[tuple[Atom, Condition]] = []
    for atom in sorted({*added, *deleted}, key=str):
        before = TRUE if (value := truth(atom)) is True else FALSE if value is False else atom
        if added.get(atom) == [TRUE] or (atom not in added and deleted[atom] == [TRUE]):  # whatever it was before
            if value is not (atom in added):
                values.append((atom, TRUE if atom in added else FALSE))
            continue
        kept = conjoined([before, *(negated(condition) for condition in deleted.get(atom, ()))])
        after = disjoined([*added.get(atom, ()), kept])
        if after != before:
            values.append((atom, after))
    return tuple(values)


def _numbers_after(way: Way, truth: Truth, action: GroundAction) -> tuple[tuple[Fluent, Number], ...]:
    by_fluent: dict[Fluent, list[tuple[Condition, Shift]]] = {}
    mine = [(condition, one) for condition, one in way if isinstance(one, Shift)]
    if not mine:
        return ()
    for condition, shift in sorted(mine, key=lambda item: item[1].number):
        if (held := folded(condition, truth)) != FALSE:
            by_fluent.setdefault(shift.fluent, []).append((held, shift))
    after = ((fluent, value_after(by_fluent[fluent], action.label, _exclude)) for fluent in sorted(by_fluent, key=str))
    return tuple((fluent, value) for fluent, value in after if value != fluent)


def _exclude(one: Condition, other: Condition) -> bool:
    return conjoined([one, other]) == FALSE


def _ways(effect: Effect, condition: Condition, action: GroundAction) -> dict[Way, Fraction]:
    """The changes, each under its condition, of every combination of choices, with the combination's probability."""
    match effect:
        case Change() | Shift():
            return {frozenset({(condition, effect)}): ONE}
        case When(inner_condition, inner):
            return _ways(inner, conjoined([condition, inner_condition]), action)
        case Choice(outcomes):
            ways: dict[Way, Fraction] = {}
            for chance, inner in outcomes:
                for way, probability in _ways(inner, condition, action).items():
                    add(ways, way, chance if probability is ONE else chance * probability)
            return ways
        case Together(parts):
            ways = {frozenset(): ONE}
            certain: set[tuple[Condition, Change | Shift]] = set()
            for part in parts:
                if isinstance(part, Change | Shift):
                    certain.add((condition, part))
                    continue
                more = _ways(part, condition, action)
                if len(more) == 1:
                    certain.update(*more)
                    continue
                if len(ways) * len(more) > MAX_OUTCOMES:
                    what = f"{action.label} has more than {MAX_OUTCOMES} outcomes: choices side by side multiply."
                    raise InputError(what, action.where, "Split the action into several that follow each other.")
                product: dict[Way, Fraction] = {}
                for one, probability in ways.items():
                    for other, chance in more.items():
                        both = one | other
                        add(product, both, chance if probability is ONE else probability * chance)
                ways = product
            together: dict[Way, Fraction] = {}
            for way, probability in ways.items():
                whole = way | certain
                add(together, whole, probability)
            return together
        case _:
            raise AssertionError("a ground effect has no quantifier")


def _rank(item: tuple[Condition, Change]) -> tuple[str, tuple[str, ...], bool, str]:
    """An order that does not depend on how a set was made: the same files are the same model, term by term."""
    condition, change = item
    return change.atom.predicate, change.atom.terms, change.value, "" if condition == TRUE else repr(condition)


def atoms_in(condition: Condition) -> Iterable[Atom]:
    """Yield the atoms of a ground condition."""
    match condition:
        case Atom():
            yield condition
        case Not(part):
            yield from atoms_in(part)
        case And(parts) | Or(parts):
            for part in parts:
                yield from atoms_in(part)


def literals(condition: Condition) -> Iterable[tuple[Atom, bool]]:
    """Yield the atoms that the condition says to be true or false, as parts of its conjunction."""
    for part in condition.parts if isinstance(condition, And) else (condition,):
        if isinstance(part, Atom):
            yield part, True
        elif isinstance(part, Not) and isinstance(part.part, Atom):
            yield part.part, False


def conjoined(parts: Iterable[Condition]) -> Condition:
    """Return the conjunction: flat, each part once, false where an atom and its opposite stand in it."""
    return _flat(parts, And, FALSE)


def disjoined(parts: Iterable[Condition]) -> Condition:
    """Return the disjunction: flat, each part once, true where an atom and its opposite stand in it."""
    return _flat(parts, Or, TRUE)


def _flat(parts: Iterable[Condition], kind: type[And | Or], absorbing: Condition) -> Condition:
    distinct: dict[Condition, None] = {}
    for part in parts:
        for one in part.parts if isinstance(part, kind) else (part,):
            if one not in distinct:
                if one == absorbing or _opposite(one) in distinct:
                    return absorbing
                distinct[one] = None
    return next(iter(distinct)) if len(distinct) == 1 else kind(tuple(distinct))


def _opposite(condition: Condition) -> Condition:
    return Not(condition) if isinstance(condition, Atom) else negated(condition)
