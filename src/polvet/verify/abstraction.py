"""Policy predicate abstraction: the abstract states the policy reaches, built forward by Algorithm 1.

Source   Vinzent, Steinmetz, Hoffmann: Neural network action policy verification via predicate abstraction, ICAPS 2022.
         Algorithm 1 is `Expansion.expand` and `enumerate_states`, its tests in batches; Table 1 is `PAPER_CONFIGURATIONS`; tests of
         section 6.1 are `Options`, those of appendix E `TEST_CONFIGURATIONS`; abstract start states are enumerated alike (section 7).
         Predicates are given, as in the paper; where none are, `verify.lazy_abstraction` finds its own.
Differs  sums that the model conserves are known in every abstract state; predicates are linear inequalities;
         entailment (lines 8, 19, 22) is bounds reasoning on the cell, not precomputed;
         ties and near ties count as chosen; silent operators move whatever is chosen
Cost     at most 2^|predicates| abstract states; one question per abstract state, transition and candidate successor
Limits   linear models over bounded integers. With Z3 or Marabou a closed abstraction is their word: the verdict stays unknown,
         `figures["abstract_verdict"]` tells it. Only our own engine's answers make it `safe`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

from polvet.budget import UNLIMITED, Budget, stopwatch
from polvet.choices import one_of
from polvet.files import Figures
from polvet.model.expressions import Expression
from polvet.model.semantics import Semantics
from polvet.policy.compiled import Bound
from polvet.policy.runs import End, Run
from polvet.symbolic.cells import Cell, Region, Row, cell_with, entailed, meet
from polvet.symbolic.conserved import conserved_rows
from polvet.symbolic.linear import NotLinear
from polvet.symbolic.operators import SILENT, LinearTask, Transition, state_of
from polvet.verify.box_tester import BoxTester
from polvet.verify.complement import rows_and_unreached
from polvet.verify.engine import outside
from polvet.verify.invariant_file import invariant_certificate
from polvet.verify.lazy_abstraction import abstract_lazily
from polvet.verify.method import (
    ONLY_FAIL,
    PLAIN_INPUTS,
    READ_OVER_BOXES,
    READABLE_BOUNDS,
    Method,
    Request,
    read_linear,
)
from polvet.verify.methods import BOXES, CONFIGURATIONS, PAPER_CONFIGURATIONS, TEST_CONFIGURATIONS, Tests
from polvet.verify.policy_smt import NotEncodable
from polvet.verify.predicates import (
    AbstractState,
    Predicate,
    abstraction_of,
    cell_of_state,
    predicates_of,
    read_predicates,
)
from polvet.verify.questions import (
    MarabouTester,
    No,
    Open,
    Patience,
    Relaxed,
    Reply,
    Tester,
    Yes,
    Z3Tester,
    answer_one_by_one,
    branch_and_bound,
)
from polvet.verify.verdicts import Safe, SafetyResult, Unknown, Unsafe

METHOD = "abstraction"
MOST_AT_ONCE = 256
"""Candidates that are asked about together."""


@dataclass(frozen=True, slots=True)
class Options:
    """How Algorithm 1 is run; the optional tests are off by default, as in the paper.

    Our engine knows no relaxation: it makes relaxed tests exactly.
    """

    configuration: str = BOXES
    selection: Tests = "off"  # lines 2 and 3
    applicability: Tests = "off"  # lines 6 and 7
    seconds_per_question: float | None = None


def options_of(configuration: str) -> Options:
    """Return how Algorithm 1 is run in a configuration of Table 1, or of appendix E.

    >>> options_of("No-Sel-Rel-App")
    Options(configuration='BnB(Mar)', selection='off', applicability='relaxed', seconds_per_question=None)
    """
    if configuration in TEST_CONFIGURATIONS:
        selection, applicability = TEST_CONFIGURATIONS[configuration]
        return Options("BnB(Mar)", selection, applicability)
    return Options(one_of(configuration, CONFIGURATIONS, "--configuration"))


class Stopped(Exception):
    """A question was not answered; the text names the limit."""


class PaperTests:
    """The tests of Algorithm 1 as one of the paper's configurations makes them."""

    def __init__(self, bound: Bound, task: LinearTask, options: Options, patience: Patience) -> None:
        self.bound, self.configuration = bound, options.configuration
        self.z3 = Z3Tester(bound, task.system, patience, megabytes=patience.budget.megabytes)
        self.marabou = None
        if "Mar" in options.configuration:
            self.marabou = MarabouTester(bound, task.system, patience, megabytes=patience.budget.megabytes)
        self.questions = {"plain": 0, "relaxed": 0, "exact": 0}

    def close(self) -> None:
        """End the solvers."""
        self.z3.close()
        if self.marabou is not None:
            self.marabou.close()

    def answer_all(self, questions: Sequence[tuple[Cell, int]]) -> list[Reply]:
        """Return for each cell whether the policy may choose the label in it; SILENT: whether it has a state."""
        return answer_one_by_one(self, questions)

    def has_state(self, cell: Cell) -> Reply:
        """Return whether the cell has a state: tests without the network (lines 5 and 12)."""
        self.questions["plain"] += 1
        return self.z3.has_state(cell)

    def may_choose_in(self, cell: Cell, label: int) -> Reply:
        """Return whether the relaxation to the reals lets the policy choose the label in the cell: lines 2 and 6."""
        return self._of_relaxation(self._relaxed(cell, label))

    def _relaxed(self, cell: Cell, label: int) -> Relaxed:
        if self.marabou is None:
            return Relaxed(True)
        self.questions["relaxed"] += 1
        return self.marabou.relaxed(cell, label)

    @staticmethod
    def _of_relaxation(relaxed: Relaxed) -> Reply:
        if relaxed.satisfiable is None:
            return Open("Marabou was stopped at the limit")
        return Yes(None, False) if relaxed.satisfiable else No()

    def chooses_in(self, cell: Cell, label: int) -> Reply:
        """Return whether the policy may choose the label in the cell: lines 13 and 14 as Table 1 combines them."""
        relaxed = self._relaxed(cell, label)
        reply = self._of_relaxation(relaxed)
        if not isinstance(reply, Yes) or self.configuration == "Mar":
            return reply
        self.questions["exact"] += 1
        if self.configuration == "BnB(Mar)":
            assert self.marabou is not None
            return branch_and_bound(self.bound, self.marabou, cell, label, relaxed)
        activations = relaxed.activations if self.configuration == "Mar+Z3(Mar)" else ()
        return self.z3.chooses_in(cell, label, activations)


@dataclass(slots=True)
class Edge:
    """An abstract transition with the state that shows it, where one is known."""

    source: AbstractState
    transition: Transition
    target: AbstractState
    witness: tuple[int, ...] | None
    sure: bool


@dataclass(slots=True)
class Space:
    """The reachable fragment: abstract states with how each was first reached; those that overlap `fail`."""

    starts: list[AbstractState] = field(default_factory=list)
    reached: dict[AbstractState, Edge | None] = field(default_factory=dict)
    unsafe: dict[AbstractState, tuple[int, ...] | None] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)


class Expansion:
    """Abstract state expansion over fixed predicates."""

    def __init__(
        self,
        task: LinearTask,
        predicates: Sequence[Predicate],
        tester: Tester,
        options: Options,
        facts: Sequence[Row] = (),
        budget: Budget = UNLIMITED,
    ) -> None:
        self.task, self.predicates, self.tester, self.options, self.facts = task, predicates, tester, options, facts
        self.budget = budget
        self.bounds = task.system.bounds
        self._rows = [(p.row(False), p.row(True)) for p in predicates]
        self._before: dict[int, list[tuple[Row, Row]]] = {}
        self.by_label: dict[int, list[tuple[int, Transition]]] = {}
        for number, transition in enumerate(task.system.transitions):
            self.by_label.setdefault(transition.label, []).append((number, transition))

    def build(self) -> Space:
        """Return everything reachable; abstract unsafe states do not end it, so that other starts can still be proved."""
        space = Space()
        for start in self._overlapping(self.task.start):
            if start not in space.reached:
                space.starts.append(start)
                space.reached[start] = None
        pending = list(space.reached)
        for state in pending:
            cell = cell_of_state(self.predicates, state, self.bounds, self.facts)
            if cell is None:
                continue
            failing = self._meets(cell, self.task.fail)
            if failing is not None:
                space.unsafe[state] = failing.state
            for edge in self.expand(state, cell):
                space.edges.append(edge)
                if edge.target not in space.reached:
                    space.reached[edge.target] = edge
                    pending.append(edge.target)
        return space

    def expand(self, state: AbstractState, cell: Cell) -> Iterator[Edge]:
        """Yield the abstract transitions that leave the state: Algorithm 1."""
        moves = []
        # Runs end in fail and goal: no transition leaves those states.
        for going in outside(cell, (*self.task.fail, *self.task.goal)):
            self._check_bounds(going)
            for label, members in self.by_label.items():
                if not self._may_choose(going, label, self.options.selection):
                    continue
                moves += [
                    (number, transition, here)
                    for number, transition in members
                    if (here := meet(going, transition.cell)) is not None
                ]
        replies = self.tester.answer_all([(here, SILENT) for _, _, here in moves])
        moves = [move for move, reply in zip(moves, replies, strict=True) if not isinstance(reply, No)]
        moves = [move for move in moves if self._may_choose(move[2], move[1].label, self.options.applicability)]
        leaves = [
            (transition, part, chosen)
            for number, transition, here in moves
            for part, chosen in self.enumerate_states(here, self._rows_before(number, transition))
        ]
        tested = self._transition_tests([(part, transition.label) for transition, part, _ in leaves])
        for (transition, _, chosen), reply in zip(leaves, tested, strict=True):
            if isinstance(reply, Yes):
                yield Edge(state, transition, chosen, reply.state, reply.sure)

    def _check_bounds(self, going: Cell) -> None:
        # SOUND: a step out of a variable's bounds has no abstract successor, so it must not be possible, chosen or not:
        # an enabled operator that leaves the bounds is an error of the model.
        leaving = [
            (both, SILENT)
            for _, region in self.task.system.leaving
            for cell in region
            if (both := meet(going, cell)) is not None
        ]
        for reply in map(self._answered, self.tester.answer_all(leaving)):
            if isinstance(reply, Yes):
                shown = "" if reply.state is None else f" in state {self._show(reply.state)}"
                raise Stopped(f"an assignment may leave its variable's bounds{shown}, as far as the predicates tell")

    def _show(self, state: Sequence[int]) -> str:
        return Semantics(self.task.task.network).show(state_of(self.task.task.network, state))

    def enumerate_states(self, cell: Cell, rows: Sequence[tuple[Row, Row]]) -> Iterator[tuple[Cell, AbstractState]]:
        """Yield the truth values that rows (if false, if true) may have in the cell, with where they come true.

        Bounds reasoning stands for entailment: a truth value without states is not tried any further.
        """
        truths: list[bool | None] = [entailed(cell, true) for _, true in rows]
        yield from self._split(cell, rows, truths, [k for k, truth in enumerate(truths) if truth is None])

    def _split(
        self, cell: Cell, rows: Sequence[tuple[Row, Row]], truths: Sequence[bool | None], undecided: Sequence[int]
    ) -> Iterator[tuple[Cell, AbstractState]]:
        self._check_time()
        if not undecided:
            yield cell, tuple(truth is True for truth in truths)
            return
        which, *others = undecided
        for truth in (True, False):
            narrowed = cell_with(cell, rows[which][truth])
            if narrowed is None:
                continue
            told = list(truths)
            told[which] = truth
            for k in others:
                told[k] = entailed(narrowed, rows[k][True])
            yield from self._split(narrowed, rows, told, [k for k in others if told[k] is None])

    def _transition_tests(self, questions: Sequence[tuple[Cell, int]]) -> list[Reply]:
        """Return for each cell whether it has a state and the policy may choose the label there: lines 12 to 14."""
        replies = [self._answered(one) for one in self.tester.answer_all([(cell, SILENT) for cell, _ in questions])]
        open_ = [k for k, reply in enumerate(replies) if isinstance(reply, Yes) and questions[k][1] != SILENT]
        for k, reply in zip(open_, self.tester.answer_all([questions[k] for k in open_]), strict=True):
            replies[k] = self._answered(reply)
        return replies

    def _may_choose(self, cell: Cell, label: int, tests: Tests) -> bool:
        if label == SILENT or tests == "off":
            return True
        ask = self.tester.chooses_in if tests == "exact" else self.tester.may_choose_in
        return not isinstance(self._answered(ask(cell, label)), No)

    def _answered(self, reply: Reply) -> Reply:
        if isinstance(reply, Open):
            raise Stopped(reply.reason)
        return reply

    def _rows_before(self, number: int, transition: Transition) -> list[tuple[Row, Row]]:
        if number not in self._before:
            self._before[number] = [
                (p.row_before(transition, False), p.row_before(transition, True)) for p in self.predicates
            ]
        return self._before[number]

    def _meets(self, cell: Cell, region: Region) -> Yes | None:
        for one in region:
            both = meet(cell, one)
            if both is not None and isinstance(reply := self._answered(self.tester.has_state(both)), Yes):
                return reply
        return None

    def _overlapping(self, region: Region) -> Iterator[AbstractState]:
        """Yield the abstract states that share a state with the region."""
        for cell in region:
            leaves = self.enumerate_states(cell, self._rows)
            while batch := list(islice(leaves, MOST_AT_ONCE)):
                replies = map(self._answered, self.tester.answer_all([(part, SILENT) for part, _ in batch]))
                yield from (state for (_, state), reply in zip(batch, replies, strict=True) if isinstance(reply, Yes))

    def _check_time(self) -> None:
        if self.budget.is_over():
            raise Stopped(str(self.budget.reached("time")))


def abstraction(predicates: Sequence[Expression] | None = None, options: Options | None = None) -> Method:
    """Return the method with the given predicates alone; with none, lazy abstraction, or a paper's configuration over start and fail."""
    options = options or Options()
    one_of(options.configuration, (BOXES, *PAPER_CONFIGURATIONS), "--configuration")
    # Z3 and Marabou are also asked about tables.
    others = (READ_OVER_BOXES,) if options.configuration == BOXES else ()
    return Method(
        METHOD,
        "policy predicate abstraction (Vinzent, Steinmetz, Hoffmann 2022), lazily refined by spurious runs",
        partial(_verify, predicates=predicates, options=options),
        (ONLY_FAIL, READABLE_BOUNDS, *others, PLAIN_INPUTS),
        linear=True,
    )


def _verify(
    bound: Bound, request: Request, *, predicates: Sequence[Expression] | None, options: Options
) -> SafetyResult:
    if predicates is None and options.configuration == BOXES:
        return abstract_lazily(bound, request, METHOD)
    task, budget = read_linear(request), request.budget
    patience = Patience(budget, options.seconds_per_question)
    figures: Figures = {
        "configuration": options.configuration,
        "selection": options.selection,
        "applicability": options.applicability,
    }
    paper: PaperTests | None = None
    try:
        tester: Tester
        if options.configuration == BOXES:
            tester = BoxTester(bound, task, patience, seed=request.seed, parallelism=request.parallelism)
        else:
            tester = paper = PaperTests(bound, task, options, patience)
        if predicates is not None:
            chosen = read_predicates(bound.task.network, predicates, task.system.bounds)
        else:
            chosen = list(dict.fromkeys(predicates_of((*task.fail, *task.start), task.system.bounds)))
        facts = conserved_rows(task)
        conserved = {row.terms for row in facts if not row.marks}
        chosen = [predicate for predicate in chosen if predicate.terms not in conserved]
        expansion = Expansion(task, chosen, tester, options, facts, request.budget)
        return _decide(bound, expansion, figures)
    except Stopped as stop:
        return Unknown(str(stop), METHOD, figures)
    except (NotLinear, NotEncodable) as error:
        return Unknown(f"abstraction does not apply: {error}", METHOD, figures)
    finally:
        if paper is not None:
            figures["questions"] = dict(paper.questions)
            paper.close()


def _decide(bound: Bound, expansion: Expansion, figures: Figures) -> SafetyResult:
    """Return what the reachable fragment tells: closed, or with a run into `fail`, or with the start regions it proves."""
    task, predicates = expansion.task, expansion.predicates
    spent = stopwatch()
    space = expansion.build()
    figures |= {
        "predicates": len(predicates),
        "abstract_states": len(space.reached),
        "abstract_unsafe": len(space.unsafe),
        "abstract_transitions": len(space.edges),
        "build_seconds": round(spent(), 3),
        "abstract_verdict": "unsafe" if space.unsafe else "safe",
    }
    if not space.unsafe:
        if isinstance(expansion.tester, BoxTester):
            return _proved(bound, expansion, space, figures)
        return Unknown("the abstraction closes, on the word of outside solvers alone", METHOD, figures)
    proved = proved_start_regions(task, predicates, space)
    run = _concretize(bound, task, predicates, space)
    if run is not None:
        return Unsafe(run, METHOD, figures, proved)
    reason = f"the predicates do not decide: {len(space.unsafe)} abstract states overlap fail"
    return Unknown(reason, METHOD, figures, proved)


def _proved(bound: Bound, expansion: Expansion, space: Space, figures: Figures) -> SafetyResult:
    """Return the verdict of a closed abstraction: what it does not reach are the blocked boxes of an invariant."""
    invariant = rows_and_unreached(expansion.predicates, space.reached, expansion.bounds)
    if invariant is None:
        reason = "the abstraction closes, but its predicates on several variables make no boxes, so nothing could be certified"
        return Unknown(reason, METHOD, figures)
    rows, blocked = invariant
    figures["blocked"] = len(blocked)
    return Safe(
        invariant_certificate(bound.task, bound.fitted.sha256, [*expansion.facts, *rows], blocked), METHOD, figures
    )


def proved_start_regions(task: LinearTask, predicates: Sequence[Predicate], space: Space) -> tuple[Expression, ...]:
    """Return the abstract start states from which no abstract unsafe state is reached, as conditions."""
    from polvet.verify.regions import condition_of_cell

    leads = set(space.unsafe)
    changed = True
    while changed:
        changed = False
        for edge in space.edges:
            if edge.target in leads and edge.source not in leads:
                leads.add(edge.source)
                changed = True
    regions = []
    for start in space.starts:
        cell = cell_of_state(predicates, start, task.system.bounds)
        if start not in leads and cell is not None:
            regions.append(condition_of_cell(task.task.network, cell, task.system.bounds))
    return tuple(regions)


def _path_to(space: Space, state: AbstractState) -> list[Edge]:
    path: list[Edge] = []
    edge = space.reached[state]
    while edge is not None:
        path.append(edge)
        edge = space.reached[edge.source]
    return path[::-1]


def _concretize(bound: Bound, task: LinearTask, predicates: Sequence[Predicate], space: Space) -> Run | None:
    """Return a run of the policy along a shortest abstract path to fail, where one is found."""
    semantics = Semantics(bound.task.network)
    fails = semantics.compile(bound.task.fail)
    for unsafe in sorted(space.unsafe, key=lambda state: len(_path_to(space, state))):
        path = _path_to(space, unsafe)
        first = path[0].source if path else unsafe
        for begin in _states_in(bound, task, predicates, first, path):
            states, actions = [begin], []
            for edge in path:
                step = _step(bound, semantics, predicates, states[-1], edge.target)
                if step is None:
                    break
                actions.append(step[0])
                states.append(step[1])
            if len(actions) == len(path) and fails(states[-1]):
                return Run(tuple(states), tuple(actions), End.FAIL)
    return None


def _states_in(
    bound: Bound, task: LinearTask, predicates: Sequence[Predicate], first: AbstractState, path: Sequence[Edge]
) -> Iterator[Any]:
    """Yield start states in the abstract state: the path's own witness if it is one, and some drawn ones."""
    import random

    from polvet.kernel.starts import Starts
    from polvet.model.expressions import conjunction
    from polvet.verify.regions import condition_of_cell

    semantics = bound.compiled.semantics
    network = bound.task.network
    cell = cell_of_state(predicates, first, task.system.bounds)
    if cell is None:
        return
    inside = condition_of_cell(network, cell, task.system.bounds)
    if bound.task.start is not None:
        starts = Starts(network, conjunction(bound.task.start, inside))
    else:
        starts = Starts(network, conjunction(network.initial_condition, inside), initial=True)
    if path and path[0].witness is not None and bound.task.start is not None:
        witness = state_of(network, path[0].witness)
        if semantics.compile(bound.task.start)(witness):
            yield witness
    if starts.count:
        yield from starts.sample(min(starts.count, 4), random.Random(0))


def _step(
    bound: Bound, semantics: Semantics, predicates: Sequence[Predicate], state: Any, target: AbstractState
) -> Any:
    """Return (label, successor) of a step of the policy into the abstract state, if there is one."""
    if semantics.compile(bound.task.fail)(state) or semantics.compile(bound.task.goal)(state):
        return None
    for move in bound.fitted.followed(state, semantics.moves(state)):
        for outcome in move.outcomes:
            if abstraction_of(predicates, _integers(outcome.state)) == target:
                return move.label, outcome.state
    return None


def _integers(state: Sequence[Any]) -> tuple[int, ...]:
    return tuple(int(value) for value in state)


ABSTRACTION = abstraction()
