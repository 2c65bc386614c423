"""Checking `general-policy` and `general-counterexample`: what the rules of a sketch do in problems of PDDL.

Both hold copies of the sketch, the domain and the problems. What a policy's steps are is said in `polvet/general/follow.py`, and
written here once more: a rule without actions is followed by every action all of whose outcomes change the features as it says,
one with actions by every applicable action of these names, which then must do what it claims.

`general-policy` lists for each problem `states`: [{"true": ["at(a,b)"], "memory": "", "rank": 2}]. The initial state is among
them. A state outside the goal offers a step, every step does what its rule claims, and each of its outcomes is listed with a
smaller rank: so every run ends, and it ends in the goal. With `ends`, a ranking as in `lex-rank`, the sketch also ends from
every valuation of its features. `general-counterexample` gives a run from the initial state: `states`, `actions`, and a `failure`.
`stuck`: the last state, outside the goal, offers no step. `claim`: the last action follows a rule by its name, and no rule says
what it changes. `cycle`: the last state is the one numbered `back_to`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from polvet.check.checker import Accepted, CheckResult, Rejected, Subjects, find_other_file
from polvet.check.counters import Malformed, integer, mapping, sequence
from polvet.check.lex_rank import check_ranking
from polvet.errors import InputError, Where
from polvet.features.denote import View
from polvet.features.structure import Structure, structure_of
from polvet.features.terms import Term, check_words, parse_term
from polvet.files import read_text
from polvet.pddl.ground import ground
from polvet.pddl.parse import parse_domain, parse_problem
from polvet.pddl.syntax import And, Atom, Change, Choice, Condition, Effect, Not, Or, Together, When
from polvet.policy.finite_memory.features import Rule
from polvet.policy.finite_memory.sketch import Sketch, expand, read_sketch

Atoms = frozenset[str]
"""The atoms, of those that may change, that hold: `at(a,b)`."""
Place = tuple[str, Atoms]
"""A memory state and a state of the problem."""


def check_general_policy(certificate: Mapping[str, Any], subjects: Subjects) -> CheckResult:
    """Return whether the certificate proves that every run of the policy ends in the goal, on each of its problems."""
    try:
        sketch, domain = _subject(certificate, subjects)
        instances = sequence(certificate.get("instances"), "instances")
        names = []
        for number, entry in enumerate(instances):
            here = f"instances[{number}]"
            world = _World(sketch, domain, _text(mapping(entry, here), "problem", here), here)
            _check_holds(world, entry, subjects, here)
            names.append(str(entry.get("name", number)))
        if not names:
            raise Malformed("there are no instances")
        claim = f"every run of {sketch.name} ends in the goal, on {len(names)} instances: {', '.join(names)}"
        if certificate.get("ends") is not None:
            wrong = check_ranking(
                expand(sketch, subjects.budget), mapping(certificate["ends"], "ends"), subjects.budget
            )
            if wrong is not None:
                return Rejected(f"ends: {wrong}")
            claim += "; and its rules end from every valuation of their features"
    except _Other as other:
        return other.rejected
    except (Malformed, InputError) as error:
        return Rejected(str(error))
    return Accepted(claim)


def check_general_counterexample(certificate: Mapping[str, Any], subjects: Subjects) -> CheckResult:
    """Return whether the certificate proves that the policy fails on its problem."""
    try:
        sketch, domain = _subject(certificate, subjects)
        world = _World(sketch, domain, _text(certificate, "problem", "certificate"), "problem")
        places = [
            world.place(one, f"states[{k}]") for k, one in enumerate(sequence(certificate.get("states"), "states"))
        ]
        actions = sequence(certificate.get("actions"), "actions")
        failure = certificate.get("failure")
        if not places or len(places) != len(actions) + 1:
            raise Malformed("a run has one state more than actions")
        if places[0] != world.initial:
            raise Malformed("the run does not begin in the initial state")
        last = len(actions) - (failure == "claim")
        for k in range(last):
            subjects.budget.check()
            if world.is_goal(places[k]) or (actions[k], places[k + 1]) not in set(world.steps(places[k])):
                raise Malformed(f"actions[{k}]: the policy does not take {actions[k]} there, or it leads elsewhere")
        _check_failure(world, failure, places, actions, certificate)
    except _Other as other:
        return other.rejected
    except (Malformed, InputError) as error:
        return Rejected(str(error))
    ends = {"stuck": "gets stuck", "claim": "does not do what a rule claims", "cycle": "runs for ever"}[str(failure)]
    return Accepted(f"{sketch.name} {ends} on {certificate.get('name', 'its problem')}, after {len(actions)} steps")


def _check_failure(
    world: _World, failure: Any, places: list[Place], actions: list[Any], certificate: Mapping[str, Any]
) -> None:
    match failure:
        case "stuck":
            if world.is_goal(places[-1]) or any(True for _ in world.steps(places[-1])):
                raise Malformed("the last state is a goal state, or offers a step")
        case "claim":
            broken = {} if not actions or world.is_goal(places[-2]) else world.broken(places[-2])
            if not actions or places[-1][1] not in broken.get(str(actions[-1]), ()):
                raise Malformed(
                    "the last action follows no rule by its name, does what a rule says, or leads elsewhere"
                )
        case "cycle":
            back_to = integer(certificate.get("back_to"), "back_to")
            if not 0 <= back_to < len(places) - 1 or places[back_to] != places[-1]:
                raise Malformed("the run does not come back to where 'back_to' says")
        case _:
            raise Malformed("'failure' is none of stuck, claim, cycle")


def _check_holds(world: _World, entry: Mapping[str, Any], subjects: Subjects, here: str) -> None:
    ranks: dict[Place, int] = {}
    for k, one in enumerate(sequence(entry.get("states"), f"{here}.states")):
        place = world.place(one, f"{here}.states[{k}]")
        ranks[place] = integer(one.get("rank"), f"{here}.states[{k}].rank")
        if ranks[place] < 0:
            raise Malformed(f"{here}.states[{k}].rank is below 0")
    if world.initial not in ranks:
        raise Malformed(f"{here}: the initial state is not listed")
    for place, rank in ranks.items():
        subjects.budget.check()
        if world.is_goal(place):
            continue
        if (broken := next(iter(world.broken(place)), None)) is not None:
            raise Malformed(f"{here}: {broken} does not do what its rule claims in {_shown(place)}")
        steps = list(world.steps(place))
        if not steps:
            raise Malformed(f"{here}: no step is offered in {_shown(place)}, outside the goal")
        for action, outcome in steps:
            if outcome not in ranks or ranks[outcome] >= rank:
                raise Malformed(
                    f"{here}: {action} in {_shown(place)} leads to a state that is not listed with a smaller rank"
                )


class _Other(Exception):
    """The files are not those of the certificate."""

    def __init__(self, rejected: Rejected) -> None:
        self.rejected = rejected


def _subject(certificate: Mapping[str, Any], subjects: Subjects) -> tuple[Sketch, str]:
    """Return the sketch and the domain's text: the copies, which must be what the given files hold."""
    sketch, domain = _text(certificate, "sketch", "certificate"), _text(certificate, "domain", "certificate")
    name = "the sketch in the certificate"
    if subjects.task is not None:
        if (other := find_other_file(certificate, subjects)) is not None:
            raise _Other(other)
        name = str(subjects.task)
        if read_text(subjects.task) != sketch:
            raise Malformed(f"the sketch is not the one in {subjects.task}")
    if subjects.domain is not None and read_text(subjects.domain) != domain:
        raise Malformed(f"the domain is not the one in {subjects.domain}")
    return read_sketch(sketch, Where(name)), domain


def _text(document: Mapping[str, Any], key: str, what: str) -> str:
    if not isinstance(document.get(key), str):
        raise Malformed(f"{what} has no text '{key}'")
    return str(document[key])


def _shown(place: Place) -> str:
    return " ".join(sorted(place[1])) or "the state in which nothing holds"


@dataclass(frozen=True, slots=True)
class _Option:
    """An applicable action in a state: its outcomes, the memory after each rule that it fits, whether a rule names it."""

    action: str
    outcomes: frozenset[Atoms]
    fits: tuple[str, ...]
    is_named: bool


class _World:
    """A problem, ground, as its actions are written: conditions and effects are read in sets of atoms."""

    def __init__(self, sketch: Sketch, domain: str, problem: str, here: str) -> None:
        known = parse_domain(domain, Where("domain"))
        parsed = parse_problem(problem, Where(here), known)
        grounding = ground(known, parsed)
        self._actions = grounding.actions
        self._goal = grounding.condition(parsed.goal)
        self._atoms = {str(atom): atom for atom in grounding.atoms}
        self._sketch = sketch
        self._structure: Structure = structure_of(parsed.words, parsed.goal)
        self._constant = [atom for atom in parsed.init if str(atom) not in self._atoms]
        self._terms = [_term(sketch, name) for name in sketch.features.names]
        for term in self._terms:
            check_words(term, parsed.words)
        self.initial: Place = (sketch.memory[0], frozenset(str(one) for one in parsed.init if str(one) in self._atoms))
        self._values: dict[Atoms, tuple[int, ...]] = {}
        self._options: dict[Place, tuple[_Option, ...]] = {}

    def place(self, item: Any, what: str) -> Place:
        """Return the place that a certificate's entry names."""
        entry = mapping(item, what)
        names = sequence(entry.get("true"), f"{what}.true")
        memory = entry.get("memory", self._sketch.memory[0])
        for name in names:
            if not isinstance(name, str) or name not in self._atoms:
                raise Malformed(f"{what}: '{name}' is no atom that may change")
        if memory not in self._sketch.memory:
            raise Malformed(f"{what}: no memory state '{memory}'")
        return str(memory), frozenset(names)

    def is_goal(self, place: Place) -> bool:
        """Return whether the goal holds."""
        return _is_true(self._goal, place[1])

    def steps(self, place: Place) -> Iterator[tuple[str, Place]]:
        """Yield the policy's steps: an action, and a place that it may lead to."""
        for option in self._offered(place):
            for memory in option.fits:
                for outcome in option.outcomes:
                    yield option.action, (memory, outcome)

    def broken(self, place: Place) -> dict[str, frozenset[Atoms]]:
        """Return the actions that follow an open rule by their name and do what no open rule says, and where they lead."""
        options = self._offered(place)
        return {one.action: one.outcomes for one in options if one.is_named and not one.fits}

    def _offered(self, place: Place) -> tuple[_Option, ...]:
        if place not in self._options:
            self._options[place] = tuple(self._compute(place))
        return self._options[place]

    def _compute(self, place: Place) -> Iterator[_Option]:
        memory, true = place
        before = self._valued(true)
        rules = [rule for rule in self._sketch.rules if rule.memory in (None, memory) and _holds(rule, before)]
        for action in self._actions:
            if not _is_true(action.guard, true):
                continue
            schema = action.label.partition("(")[0]
            outcomes = frozenset((true - deleted) | added for added, deleted in _changes(action.effect, true))
            mine = [rule for rule in rules if not rule.actions or schema in rule.actions]
            fits = {
                rule.following or memory
                for rule in mine
                if all(_allows(rule, before, self._valued(outcome)) for outcome in outcomes)
            }
            yield _Option(action.label, outcomes, tuple(sorted(fits)), any(rule.actions for rule in mine))

    def _valued(self, true: Atoms) -> tuple[int, ...]:
        if true not in self._values:
            atoms = [*self._constant, *(self._atoms[name] for name in true)]
            view = View(self._structure, self._structure.rows(atoms))
            self._values[true] = tuple(view.number(term) for term in self._terms)
        return self._values[true]


def _is_true(condition: Condition, true: Atoms) -> bool:
    match condition:
        case Atom():
            return str(condition) in true
        case Not(part):
            return not _is_true(part, true)
        case And(parts):
            return all(_is_true(part, true) for part in parts)
        case Or(parts):
            return any(_is_true(part, true) for part in parts)
    raise AssertionError("a ground condition has no quantifier")


def _changes(effect: Effect, true: Atoms) -> list[tuple[Atoms, Atoms]]:
    """Return for each combination of choices what becomes true and what becomes false; what is both becomes true."""
    nothing: Atoms = frozenset()
    match effect:
        case Change(atom, value):
            one: Atoms = frozenset({str(atom)})
            return [(one, nothing) if value else (nothing, one)]
        case When(condition, inner):
            return _changes(inner, true) if _is_true(condition, true) else [(nothing, nothing)]
        case Choice(outcomes):
            return [found for _, inner in outcomes for found in _changes(inner, true)]
        case Together(parts):
            found = [(nothing, nothing)]
            for part in parts:
                more = _changes(part, true)
                found = [(added | a, deleted | d) for added, deleted in found for a, d in more]
            return found
    raise AssertionError("a ground effect has no quantifier")


def _term(sketch: Sketch, name: str) -> Term:
    text = sketch.features.meanings.get(name)
    if not text:
        raise Malformed(f"the feature '{name}' has no meaning that is written down")
    return parse_term(text, Where(sketch.name).at(name), sorts="nc" if name in sketch.features.numeric else "b")


def _holds(rule: Rule, values: tuple[int, ...]) -> bool:
    return any(all((values[index] > 0) is wanted for index, wanted in one.items()) for one in rule.conditions)


def _allows(rule: Rule, before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    for index, (old, new) in enumerate(zip(before, after, strict=True)):
        if index in rule.after and (new > 0) is not rule.after[index]:
            return False
        match rule.changes.get(index):
            case None if new != old:
                return False
            case "up" if new <= old:
                return False
            case "down" if new >= old:
                return False
            case "not up" if new > old:
                return False
            case "not down" if new < old:
                return False
            case "true" if new != 1:
                return False
            case "false" if new != 0:
                return False
    return True
