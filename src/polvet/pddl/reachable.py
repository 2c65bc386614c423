"""Which atoms may ever become true and which ground actions may ever be applicable: relaxed reachability.

Source   Helmert, Concise finite-domain representations for PDDL planning tasks, AIJ 2009, section 6 (Datalog rules)
Differs  joins are ordered while they run, by the number of matches; rules are not split into binary ones
Cost     one look at an index for each partial match; at most MAX_GROUND_ACTIONS ground actions

Deletes are ignored, so an atom once true stays so; a negative condition may hold unless its atom is true at first and no
effect deletes its predicate. All outcomes happen. `forall` conditions may hold. What is left is therefore more than
what is reachable, never less.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass

from polvet.errors import LimitReached
from polvet.pddl.facts import Facts, Join, Query, Terms, Values
from polvet.pddl.syntax import (
    FALSE,
    TRUE,
    Action,
    And,
    Arithmetic,
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
    Together,
    Variable,
    When,
    changes,
    normal,
)

MAX_GROUND_ACTIONS = 2_000_000
MAX_ALTERNATIVES = 64


@dataclass(frozen=True, slots=True)
class Rule:
    """If the query has an answer, the head is a fact. Heads of schemas are called `@0`, `@1`, ... by number."""

    head: Atom
    query: Query


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way for a condition to hold: atoms, tests, and the variables of its existential quantifiers."""

    atoms: tuple[Atom, ...] = ()
    tests: tuple[tuple[Atom | Equal, bool], ...] = ()
    variables: tuple[Variable, ...] = ()

    def joined(self, other: Alternative) -> Alternative:
        """Return the way in which both hold."""
        return Alternative(
            (*self.atoms, *other.atoms), (*self.tests, *other.tests), (*self.variables, *other.variables)
        )


class Reach:
    """What may become true in a problem, and what may become applicable."""

    def __init__(self, domain: Domain, problem: Problem) -> None:
        self.domain, self.problem = domain, problem
        all_changes = [change for action in domain.actions for change in changes(action.effect)]
        self.added = {change.atom.predicate for change in all_changes if change.value}
        self.deleted = {change.atom.predicate for change in all_changes if not change.value}
        self.facts = Facts()
        self.join = Join(self.facts, self.may_be_false)
        self._objects: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._order = {name: k for k, name in enumerate(problem.words.objects)}
        self.written_out: dict[tuple[Condition, tuple[str | None, ...]], Condition] = {}
        """Quantified conditions as ground ones, by the values of the variables in them: kept for `ground`."""
        self._variables: dict[Condition, tuple[str, ...]] = {}
        self._settled: dict[tuple[str, Terms], Condition] = {}
        self._queries: dict[tuple[tuple[Variable, ...], Condition], list[Query]] = {}
        self._explore()

    def may_be_false(self, atom: Atom) -> bool:
        """Return whether the atom may be false in some reachable state."""
        return atom not in self.problem.init or atom.predicate in self.deleted

    def variables_in(self, condition: Condition) -> tuple[str, ...]:
        """Return the variables that the condition names; kept."""
        names = self._variables.get(condition)
        if names is None:
            names = self._variables[condition] = tuple(dict.fromkeys(_variables_in(condition)))
        return names

    def settled(self, predicate: str, terms: Terms) -> Condition:
        """Return the ground atom, or what it is in every reachable state where that is known; the same object each time."""
        value = self._settled.get((predicate, terms))
        if value is None:
            atom = Atom(predicate, terms)
            value = FALSE if atom not in self.facts else atom if self.may_be_false(atom) else TRUE
            self._settled[atom] = value
        return value

    def objects_of(self, types: tuple[str, ...]) -> tuple[str, ...]:
        """Return the objects of the types."""
        if types not in self._objects:
            self._objects[types] = self.problem.words.objects_of(types)
        return self._objects[types]

    def rows_of(self, number: int) -> list[Terms]:
        """Return the arguments with which the schema of that number may become applicable, in the objects' order."""
        return sorted(self.facts.rows.get(f"@{number}", ()), key=self._place)

    def _place(self, row: Terms) -> list[int]:
        return [self._order[name] for name in row]

    def bindings(self, variables: tuple[Variable, ...], condition: Condition, values: Values) -> list[Values]:
        """Return, each once, the values of the variables with which the (normal) condition may hold in some state."""
        names = [variable.name for variable in variables]
        by_row: dict[Terms, Values] = {}
        question = variables, condition
        if question not in self._queries:
            self._queries[question] = [self.query(one, variables) for one in alternatives(condition)]
        for query in self._queries[question]:
            for answer in self.join.answers(query, values):
                row = tuple([answer[name] for name in names])
                by_row.setdefault(row, {**values, **dict(zip(names, row, strict=True))})
        return [by_row[row] for row in sorted(by_row, key=self._place)]

    def query(self, alternative: Alternative, variables: tuple[Variable, ...]) -> Query:
        """Return the query for the values of these variables and of the alternative's own."""
        domains = {one.name: self.objects_of(one.types) for one in (*variables, *alternative.variables)}
        return Query(alternative.atoms, alternative.tests, domains)

    def _rules(self) -> Iterator[Rule]:
        for number, action in enumerate(self.domain.actions):
            applicable = Atom(f"@{number}", tuple(one.name for one in action.parameters))
            for alternative in alternatives(normal(action.precondition)):
                yield Rule(applicable, self.query(alternative, action.parameters))
            for condition, variables, atom in _additions(action.effect):
                for alternative in alternatives(condition):
                    whole = Alternative((applicable,)).joined(alternative)
                    yield Rule(atom, self.query(whole, (*action.parameters, *variables)))

    def _explore(self) -> None:
        rules = list(self._rules())
        watching: dict[str, list[tuple[Rule, int]]] = defaultdict(list)
        for rule in rules:
            for k, atom in enumerate(rule.query.atoms):
                if atom.predicate.startswith("@") or atom.predicate in self.added:
                    watching[atom.predicate].append((rule, k))
        pending: deque[Atom] = deque()
        for atom in sorted(self.problem.init, key=str):
            self.facts.add(atom.predicate, atom.terms)
            if atom.predicate in watching:
                pending.append(atom)
        applicable = 0
        for rule in rules:  # those that wait for nothing that can change
            if not any(atom.predicate in watching for atom in rule.query.atoms):
                for answer in self.join.answers(rule.query, {}):
                    applicable += self._conclude(rule, answer, pending)
                    self._check_size(applicable, rule)
        while pending:
            fact = pending.popleft()
            for rule, k in watching.get(fact.predicate, ()):
                atom = rule.query.atoms[k]
                values = self.join.unified(atom, fact.terms, {}, rule.query)
                if values is None:
                    continue
                for answer in self.join.answers(rule.query, values):
                    applicable += self._conclude(rule, answer, pending)
                    self._check_size(applicable, rule)

    def _conclude(self, rule: Rule, answer: Values, pending: deque[Atom]) -> bool:
        """Keep the head; return whether it is a new ground action."""
        row = tuple([answer.get(term, term) for term in rule.head.terms])
        if not self.facts.add(rule.head.predicate, row):
            return False
        pending.append(Atom(rule.head.predicate, row))
        return rule.head.predicate.startswith("@")

    def _check_size(self, applicable: int, rule: Rule) -> None:
        if applicable > MAX_GROUND_ACTIONS:
            name = self._schema(rule).name
            raise LimitReached(f"more than {MAX_GROUND_ACTIONS:,} ground actions, the last of the schema '{name}'")

    def _schema(self, rule: Rule) -> Action:
        return self.domain.actions[int(rule.head.predicate.removeprefix("@"))]


def alternatives(condition: Condition) -> list[Alternative]:
    """Return ways such that the (normal) condition holds only if one of them does.

    What would take more than MAX_ALTERNATIVES ways, and `forall`, is left out: it may hold.
    """
    match condition:
        case Atom():
            return [Alternative((condition,))]
        case Equal():
            return [Alternative(tests=((condition, True),))]
        case Not(Atom() | Equal() as part):
            return [Alternative(tests=((part, False),))]
        case And(parts):
            both = [Alternative()]
            for conjunct in parts:
                ways = alternatives(conjunct)
                if len(both) * len(ways) <= MAX_ALTERNATIVES:
                    both = [one.joined(other) for one in both for other in ways]
            return both
        case Or(parts):
            ways = [way for disjunct in parts for way in alternatives(disjunct)]
            return ways if len(ways) <= MAX_ALTERNATIVES else [Alternative()]
        case Exists(variables, body):
            return [Alternative((), (), variables).joined(way) for way in alternatives(body)]
        case _:
            return [Alternative()]


def _variables_in(part: Condition | Number) -> Iterator[str]:
    match part:
        case Atom(_, terms) | Fluent(_, terms):
            yield from (term for term in terms if term[0] == "?")
        case Equal(left, right):
            yield from (term for term in (left, right) if term[0] == "?")
        case Not(inner) | Exists(_, inner) | ForAll(_, inner):
            yield from _variables_in(inner)
        case And(parts) | Or(parts):
            for one in parts:
                yield from _variables_in(one)
        case Compare(_, one, other) | Arithmetic(_, one, other):
            yield from _variables_in(one)
            yield from _variables_in(other)


def _additions(effect: Effect) -> Iterator[tuple[Condition, tuple[Variable, ...], Atom]]:
    """Yield every atom that the effect may add: under which condition, and over which variables of `forall`."""
    pending: list[tuple[Effect, tuple[Condition, ...], tuple[Variable, ...]]] = [(effect, (), ())]
    while pending:
        part, conditions, variables = pending.pop()
        match part:
            case Change(atom, True):
                yield And(conditions), variables, atom
            case Together(parts):
                pending += ((one, conditions, variables) for one in parts)
            case When(condition, inner):
                pending.append((inner, (*conditions, normal(condition)), variables))
            case Every(more, inner):
                pending.append((inner, conditions, (*variables, *more)))
            case Choice(outcomes):
                pending += ((inner, conditions, variables) for _, inner in outcomes)
