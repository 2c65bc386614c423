"""Mutex groups: sets of atoms of which at most one is true in every reachable state. They become variables with several values.

Source   Helmert, Concise finite-domain representations for PDDL planning tasks, AIJ 2009: section 5 (invariant synthesis: `Candidate`,
         `_refined` where an action is not balanced), section 7 (`cover`: the largest group first)
Differs  several arguments may be counted; a candidate is judged on the ground actions and for each value of its parameters by
         itself, outcome by outcome, with the conditions of effects (`judge`); what holds for some values of the parameters is
         kept where it fails for others. Outcomes that change their atoms without conditions are judged by counting (`counted_groups`)
Cost     one look at each outcome that touches a candidate's predicates; MOST_LOOKS in all, then no further candidates are made
SOUND    a group rests on `judge` and on the initial state alone: at most one atom is true at first, and whichever one was true
         before an outcome (or none), at most one is true after it. Candidates and their order decide only which groups there are.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations

from polvet.pddl.ground import Grounding, Outcome, atoms_in, conjoined, folded, literals
from polvet.pddl.syntax import FALSE, TRUE, Atom, Condition, negated

MOST_LOOKS = 2_000_000
MOST_CANDIDATES = 1_000
MOST_PARTS = 6
FEW_ARGUMENTS = 4
"""Up to so many arguments of a predicate, every choice of those that are counted is tried."""

Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """A predicate, and at which of its arguments the parameters stand; the others are counted."""

    predicate: str
    places: tuple[int, ...]
    arity: int

    def key(self, atom: Atom) -> Key:
        """Return the parameters of one of its atoms."""
        return tuple([atom.terms[place] for place in self.places])

    def shown(self, key: Key) -> str:
        """Return its atoms with these parameters as one text: `at(r1,*)`."""
        terms = ["*"] * self.arity
        for place, term in zip(self.places, key, strict=True):
            terms[place] = term
        return str(Atom(self.predicate, tuple(terms)))


Candidate = tuple[Part, ...]
"""Atoms that may exclude each other: for fixed parameters, those of all parts, whatever the counted arguments are."""


@dataclass(frozen=True, slots=True)
class Group:
    """Atoms of which at most one is true, exactly one where `exact`; its name says what they have in common."""

    name: str
    atoms: tuple[Atom, ...]
    exact: bool

    @property
    def lowest(self) -> int:
        """Return the value of the first atom: 0 is left for none of them, where that may be."""
        return 0 if self.exact else 1

    @property
    def highest(self) -> int:
        """Return the value of the last atom."""
        return len(self.atoms) - 1 + self.lowest

    @property
    def pays(self) -> bool:
        """Return whether one variable takes fewer bits than the atoms one by one."""
        return self.highest.bit_length() < len(self.atoms)


def find_groups(grounding: Grounding, outcomes: Sequence[tuple[Outcome, ...]]) -> tuple[Group, ...]:
    """Return mutex groups that share no atom and pay, in the order of their first atoms; `outcomes` are those of each action."""
    order = {atom: k for k, atom in enumerate(grounding.atoms)}
    chosen = cover(_Search(grounding, outcomes).run(), order)
    return tuple(sorted(chosen, key=lambda group: order[group.atoms[0]]))


@dataclass(frozen=True, slots=True)
class _Instance:
    """A candidate with values for its parameters, and the atoms that are mutually exclusive for them."""

    candidate: Candidate
    key: Key
    atoms: tuple[Atom, ...]
    exact: bool

    def group(self, atoms: Sequence[Atom]) -> Group:
        """Return the group of these of its atoms."""
        predicates = {atom.predicate for atom in atoms}
        name = "|".join(part.shown(self.key) for part in self.candidate if part.predicate in predicates)
        return Group(name, tuple(atoms), self.exact and len(atoms) == len(self.atoms))


def cover(instances: Sequence[_Instance], order: dict[Atom, int]) -> list[Group]:
    """Return groups that share no atom: again and again the one that holds most atoms that no other has."""
    covered: set[Atom] = set()
    queue = [(-len(one.atoms), number) for number, one in enumerate(instances)]
    heapq.heapify(queue)
    chosen = []
    while queue:
        size, number = heapq.heappop(queue)
        free = [atom for atom in instances[number].atoms if atom not in covered]
        if len(free) < -size:
            if len(free) > 1:
                heapq.heappush(queue, (-len(free), number))
            continue
        group = instances[number].group(sorted(free, key=order.__getitem__))
        if group.pays:
            chosen.append(group)
            covered.update(free)
    return chosen


Values = Mapping[str, Sequence[tuple[Atom, bool]]]
"""Atoms by predicate, each with its value."""


@dataclass(frozen=True, slots=True)
class Move:
    """An outcome with what the guard of its action tells; both by predicate, but for predicates whose values have conditions."""

    known: dict[Atom, bool]
    outcome: Outcome
    before: Values
    after: Values
    conditional: frozenset[str]


def made_move(known: dict[Atom, bool], outcome: Outcome) -> Move:
    """Return the outcome in states where the literals of the guard hold."""
    before: dict[str, list[tuple[Atom, bool]]] = {}
    after: dict[str, list[tuple[Atom, bool]]] = {}
    conditional: set[str] = set()
    for atom, value in known.items():
        before.setdefault(atom.predicate, []).append((atom, value))
    for atom, condition in outcome.values:
        if condition not in (TRUE, FALSE):
            conditional.add(atom.predicate)
        after.setdefault(atom.predicate, []).append((atom, condition == TRUE))
    return Move(known, outcome, before, after, frozenset(conditional))


class _Search:
    """Candidates, judged and refined one after the other."""

    def __init__(self, grounding: Grounding, outcomes: Sequence[tuple[Outcome, ...]]) -> None:
        self.init = grounding.reach.problem.init
        self.atoms = grounding.atoms
        self.arity = {atom.predicate: len(atom.terms) for atom in grounding.atoms}
        self.touching: dict[str, list[Move]] = defaultdict(list)
        for action, mine in zip(grounding.actions, outcomes, strict=True):
            known = dict(literals(action.guard))
            for outcome in mine:
                move = made_move(known, outcome)
                for predicate in move.after:
                    self.touching[predicate].append(move)
        self.looks = 0

    def run(self) -> list[_Instance]:
        """Return all instances that are proved mutually exclusive, with two atoms or more."""
        pending = deque(self._first())
        seen = set(pending)
        exclusive = []
        while pending:
            candidate = pending.popleft()
            instances, refined = self._judged(candidate)
            exclusive += instances
            for one in refined:
                if one not in seen and len(seen) < MOST_CANDIDATES and self.looks < MOST_LOOKS:
                    seen.add(one)
                    pending.append(one)
        return exclusive

    def _first(self) -> Iterator[Candidate]:
        for predicate, arity in self.arity.items():
            # Those with most parameters first: of equal groups, they have the plainest names.
            for fixed in range(arity, -1, -1) if arity <= FEW_ARGUMENTS else (arity, arity - 1, 0):
                for places in combinations(range(arity), fixed):
                    yield (Part(predicate, places, arity),)

    def _judged(self, candidate: Candidate) -> tuple[list[_Instance], list[Candidate]]:
        parts = {part.predicate: part for part in candidate}
        members: dict[Key, list[Atom]] = defaultdict(list)
        for atom in self.atoms:
            if atom.predicate in parts:
                members[parts[atom.predicate].key(atom)].append(atom)
        inside = {key: frozenset(atoms) for key, atoms in members.items()}
        true_at_first = {key: len(atoms & self.init) for key, atoms in inside.items()}
        good = {key for key, count in true_at_first.items() if count <= 1 < len(inside[key])}
        exact = {key for key in good if true_at_first[key] == 1}
        refined: dict[Candidate, None] = {}
        looked: set[int] = set()  # at moves, by their identity: one may touch several parts
        for predicate in parts:
            for move in self.touching[predicate]:
                if not good or id(move) in looked:
                    continue
                looked.add(id(move))
                self.looks += 1
                for key, kept, stays in sorted(self._verdicts(parts, inside, good, move)):
                    if not kept:
                        good.discard(key)
                        refined.update(dict.fromkeys(self._refined(candidate, key, move)))
                    if not stays:
                        exact.discard(key)
        exclusive = [_Instance(candidate, key, tuple(members[key]), key in exact) for key in members if key in good]
        return exclusive, list(refined) if len(candidate) < MOST_PARTS else []

    @staticmethod
    def _verdicts(
        parts: Mapping[str, Part], inside: Mapping[Key, frozenset[Atom]], good: set[Key], move: Move
    ) -> Iterator[tuple[Key, bool, bool]]:
        """Yield what `judge` says of the move, for each good group that it touches."""
        if move.conditional.isdisjoint(parts):
            for key, count in counted_groups(parts, move.before, move.after).items():
                if key in good:
                    yield key, *count.judged(len(inside[key]))
            return
        touched = {parts[atom.predicate].key(atom) for atom, _ in move.outcome.values if atom.predicate in parts}
        for key in touched & good:
            yield key, *judge(inside[key], move.known, move.outcome)

    def _refined(self, candidate: Candidate, key: Key, move: Move) -> Iterator[Candidate]:
        """Yield the candidate with a further part: of an atom that the outcome makes false and that was true before it."""
        predicates = {part.predicate for part in candidate}
        for atom, after in move.outcome.values:
            arity = len(atom.terms)
            if after != FALSE or move.known.get(atom) is not True or atom.predicate in predicates:
                continue
            for places in permutations(range(arity), len(key)):
                if tuple(atom.terms[place] for place in places) == key:
                    part = Part(atom.predicate, places, arity)
                    yield tuple(sorted((*candidate, part), key=lambda one: (one.predicate, one.places)))


@dataclass(slots=True)
class Count:
    """How many atoms of one group an outcome touches that changes none of them under a condition, by what becomes of them."""

    added: int = 0
    required: int = 0  # true before, as the guard says
    kept: int = 0  # of these, those that the outcome does not name
    open: int = 0  # named by the outcome, and not by the guard
    named: int = 0  # by either

    def judged(self, size: int) -> tuple[bool, bool]:
        """Return what `judge` says of a group of that size."""
        if self.required > 1:
            return True, True
        if self.required == 1:
            after = self.added + self.kept
            return after <= 1, after == 1
        unnamed = size > self.named
        most = self.added <= 1 and not (unnamed and self.added)
        return most, most and (not self.open or self.added == 1) and not (unnamed and self.added)


def counted_groups(parts: Mapping[str, Part], before: Values, after: Values) -> dict[Key, Count]:
    """Return the count of each group of the candidate that the outcome touches."""
    counts: dict[Key, Count] = {}
    known = {atom for predicate in parts for atom, _ in before.get(predicate, ())}
    for predicate, part in parts.items():
        for atom, value in after.get(predicate, ()):
            key = part.key(atom)
            count = counts.get(key)
            if count is None:
                count = counts[key] = Count()
            count.added += value
            count.named += 1
            count.open += atom not in known
    named = {atom for predicate in parts for atom, _ in after.get(predicate, ())}
    for predicate, part in parts.items():
        for atom, value in before.get(predicate, ()):
            count = counts.get(part.key(atom))
            if count is not None:
                count.required += value
                count.kept += value and atom not in named
                count.named += atom not in named
    return counts


def judge(group: frozenset[Atom], known: dict[Atom, bool], outcome: Outcome) -> tuple[bool, bool]:
    """Return whether at most one atom of the group is true after the outcome if that was so before; and likewise of exactly one.

    `known` are literals of the action's guard. Every case of which atom was true before is looked at.
    """
    after = {atom: value for atom, value in outcome.values if atom in group}
    for _, value in outcome.values:
        for atom in atoms_in(value):
            if atom in group:
                after.setdefault(atom, atom)  # it keeps its value
    required = [atom for atom in group if known.get(atom) is True]
    if len(required) > 1:
        return True, True  # the action is never applicable
    # SOUND: atoms that the outcome does not name keep their values, and are alike: one of them stands for all.
    unnamed = next((atom for atom in group if atom not in after and atom not in known), None)
    cases: list[Atom | None] = [*required] or [
        None,
        *(atom for atom in after if atom not in known),
        *([] if unnamed is None else [unnamed]),
    ]
    most = stays = True
    for case in cases:
        left = [value for value in (_value(one, case, group, known) for one in after.values()) if value != FALSE]
        if case is not None and case not in after:
            left.append(TRUE)
        most = most and all(_exclude(one, other) for k, one in enumerate(left) for other in left[:k])
        if case is not None:
            stays = stays and (left == [TRUE] or (len(left) == 2 and negated(left[0]) == left[1]))
    return most, most and stays


def _value(condition: Condition, true: Atom | None, group: frozenset[Atom], known: dict[Atom, bool]) -> Condition:
    """Return the condition where this atom of the group (or none) is true."""
    return folded(condition, lambda atom: atom == true if atom in group else known.get(atom))


def _exclude(one: Condition, other: Condition) -> bool:
    return negated(one) == other or conjoined([one, other]) == FALSE
