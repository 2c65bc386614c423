"""A policy of a qualitative problem that surely ends in the goal, found by search with what runs for ever as learned clauses.

Z3 proposes whole policies: every node that is reached has a choice. The choices are put together one by one, those of the
last proposal that stay are kept, and after each Sieve looks at the component of its node (`incremental`). Where the choices
so far run for ever, a smallest set of them that does is learned: no policy may hold all of it. A policy that gives every
reached node outside the goal a choice, and ends, ends in the goal: it stops nowhere else.

Where Z3 proposes nothing more, that is not believed: `_Exhaustion` goes through all choices itself, with the clauses learned
so far. Where every option of a node is ruled out, the reasons, together with the choices that lead to the node, are
learned in turn, and the search goes back to the latest of them.

Source   Srivastava et al., AAAI 2011 (generate and test with Sieve); conflict-directed backjumping with learned nogoods:
         Prosser 1993, Dechter 1990
Cost     exponential in the worst case: such problems are EXPTIME-complete (Bonet & Geffner 2020)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from polvet.budget import UNLIMITED, Budget
from polvet.errors import LimitReached
from polvet.solvers.smt import Question, Term, either, implies, negated, truth
from polvet.termination.arena import Arena, Choice, Node
from polvet.termination.incremental import endless_through, smallest_core

Clause = frozenset[Choice]


@dataclass(frozen=True, slots=True)
class Synthesis:
    """What a search found: the choice of each node that the policy reaches, or None if there is no policy; and what it did."""

    chosen: dict[Node, Choice] | None
    tested: int  # choices, or whole policies, that were put through Sieve
    cores: int = 0  # smallest sets of choices that run for ever: the clauses that were learned
    proposals: int = 0


@dataclass(slots=True)
class _Frame:
    """A node whose choice is to be made: options left, and why the others are ruled out."""

    node: Node
    options: list[Choice]
    blame: set[Choice] = field(default_factory=set)
    reached: int = 0  # how many nodes were reached before its choice


def synthesize(arena: Arena, budget: Budget = UNLIMITED) -> Synthesis:
    """Return a policy that surely ends in the goal, or that there is none with this memory."""
    question = Question(budget, logic="QF_FD")
    take = [truth(f"choice {number}") for number in range(len(arena.options))]
    _demand_policy(arena, question, take)
    kept: dict[Node, Choice] = {}
    clauses: list[Clause] = []
    proposals = tested = 0
    while True:
        budget.check()
        answer = question.ask()
        if answer == "unknown":
            budget.check()
            raise LimitReached("Z3 proposes nothing more, and does not say why")
        if answer == "unsat":
            break
        proposals += 1
        values = question.values()
        proposed = _reached(arena, lambda choice: values.holds(take[choice]))  # noqa: B023 (called at once)
        kept = {node: choice for node, choice in kept.items() if proposed.get(node) == choice}
        new = []
        for node, choice in proposed.items():
            if node in kept:
                continue
            kept[node] = choice
            tested += 1
            if left := endless_through(arena, kept, node):
                new.append(smallest_core(arena, left))
                del kept[node]
        if not new:
            return Synthesis(proposed, tested, len(clauses), proposals)
        clauses += new
        question.add(*(either(negated(take[choice]) for choice in clause) for clause in new))
    exhausted = _Exhaustion(arena, clauses, budget)
    chosen = exhausted.run()
    return Synthesis(chosen, tested + exhausted.tested, len(clauses) + exhausted.cores, proposals)


def _demand_policy(arena: Arena, question: Question, take: list[Term]) -> None:
    """Demand that every node that is reached outside the goal has a choice, and that its outcomes are reached."""
    reach = {node: truth(f"node {node}") for node in range(len(arena.nodes)) if node not in arena.goals}
    question.add(*(reach[node] for node in arena.starts if node in reach))
    for node, reached in reach.items():
        question.add(implies(reached, either(take[choice] for choice in arena.choices[node])))
        for choice in arena.choices[node]:
            question.add(
                *(implies(take[choice], reach[one]) for one in set(arena.options[choice].outcomes) if one in reach)
            )


def _reached(arena: Arena, is_taken: Callable[[Choice], bool]) -> dict[Node, Choice]:
    """Return the first choice that is taken in each node that these choices reach."""
    chosen: dict[Node, Choice] = {}
    agenda = [node for node in dict.fromkeys(arena.starts) if node not in arena.goals]
    seen = {*agenda, *arena.goals}
    for node in agenda:
        chosen[node] = next(choice for choice in arena.choices[node] if is_taken(choice))
        new = [one for one in dict.fromkeys(arena.options[chosen[node]].outcomes) if one not in seen]
        seen.update(new)
        agenda += new
    return chosen


class _Exhaustion:
    """Every policy, node by node, unless a clause rules it out."""

    def __init__(self, arena: Arena, clauses: Iterable[Clause], budget: Budget) -> None:
        self.arena, self._budget = arena, budget
        self.chosen: dict[Node, Choice] = {}
        self.frames: list[_Frame] = []
        self.reached: list[Node] = []
        self.because: dict[Node, Choice | None] = {}
        self.clauses: dict[Choice, list[Clause]] = {}
        self.tested = self.cores = 0
        for clause in clauses:
            self._learn(clause)

    def run(self) -> dict[Node, Choice] | None:
        """Return a policy that ends in the goal, or None if there is none."""
        self._reach(self.arena.starts, None)
        while len(self.frames) < len(self.reached):
            node = self.reached[len(self.frames)]
            self.frames.append(_Frame(node, list(reversed(self.arena.choices[node]))))
            while not self._choose():
                if not self._go_back():
                    return None
        return dict(self.chosen)

    def _choose(self) -> bool:
        """Give the last node its next option that is not ruled out; return whether there was one."""
        frame = self.frames[-1]
        frame.reached = len(self.reached)
        while frame.options:
            self._budget.check()
            choice = frame.options.pop()
            if (clause := self._violated(choice)) is not None:
                frame.blame |= clause - {choice}
                continue
            self.chosen[frame.node] = choice
            self.tested += 1
            if left := endless_through(self.arena, self.chosen, frame.node):
                core = smallest_core(self.arena, left)
                self.cores += 1
                self._learn(core)
                frame.blame |= core - {choice}
                del self.chosen[frame.node]
                continue
            self._reach(self.arena.options[choice].outcomes, choice)
            return True
        return False

    def _go_back(self) -> bool:
        """Return to the latest choice that is to blame for the last node's having no option; False: none is."""
        frame = self.frames.pop()
        blame = frame.blame | self._way_to(frame.node)
        self._learn(frozenset(blame))
        while self.frames:
            last = self.frames[-1]
            choice = self.chosen.pop(last.node)
            for node in self.reached[last.reached :]:
                del self.because[node]
            del self.reached[last.reached :]
            if choice in blame:
                last.blame |= blame - {choice}
                return True
            self.frames.pop()
        return False

    def _way_to(self, node: Node) -> set[Choice]:
        """Return choices that together make the policy reach the node."""
        way: set[Choice] = set()
        while (choice := self.because[node]) is not None:
            way.add(choice)
            node = self.arena.options[choice].node
        return way

    def _reach(self, nodes: tuple[Node, ...], because: Choice | None) -> None:
        for node in nodes:
            if node not in self.because and node not in self.arena.goals:
                self.because[node] = because
                self.reached.append(node)

    def _learn(self, clause: Clause) -> None:
        """No policy may hold all of these choices."""
        for choice in clause:
            self.clauses.setdefault(choice, []).append(clause)

    def _violated(self, choice: Choice) -> Clause | None:
        """Return a clause all of whose other choices are made."""
        options, chosen = self.arena.options, self.chosen
        for clause in self.clauses.get(choice, ()):
            if all(chosen.get(options[other].node) == other for other in clause if other != choice):
                return clause
        return None
