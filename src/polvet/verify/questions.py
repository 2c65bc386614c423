"""Questions about a policy in a cell, and who answers them: Z3, Marabou over the reals, branch and bound around Marabou.

Source   section 6 of policy predicate abstraction: exact tests, continuous relaxation (6.2), fixing activation cases (6.3), branch
         and bound around the relaxation (6.4)
Differs  ties and near ties count as chosen; in filtered mode a relaxation compares only with labels applicable in the whole cell
Every solver runs in a process that is killed at the limit. A `Yes` carries a state that was executed where `sure` says so; a `No`
of Z3 or Marabou is their word, not a proof.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor
from typing import Any, Protocol

import numpy as np

from polvet.budget import UNLIMITED, Budget
from polvet.policy.compiled import Bound
from polvet.policy.networks import Network
from polvet.policy.rounding import possible_choices
from polvet.solvers.smtlib import cell_formula, declare
from polvet.solvers.worker import SolverDied, SolverTimeout, Worker
from polvet.symbolic.cells import Box, Cell, Region, cell_of
from polvet.symbolic.operators import SILENT, LinearNetwork, state_of
from polvet.verify.policy_smt import NotEncodable, chooses, encode_policy

INTEGRAL = 1e-6


@dataclass(frozen=True, slots=True)
class Yes:
    """There is such a state: this one, where it is known; `sure` if interpreter and policy confirm it."""

    state: tuple[int, ...] | None
    sure: bool


@dataclass(frozen=True, slots=True)
class No:
    """There is none; `evidence` is what a checker needs, None where it is only a solver's word."""

    evidence: Any = None


@dataclass(frozen=True, slots=True)
class Open:
    """Not answered; the reason names the limit."""

    reason: str


Reply = Yes | No | Open


class Tester(Protocol):
    """Answers whether a cell has a state, and whether it has one in which the policy may choose a label."""

    def answer_all(self, questions: Sequence[tuple[Cell, int]]) -> list[Reply]:
        """Return for each cell whether the policy may choose the label in it; SILENT: whether it has a state."""
        ...

    def has_state(self, cell: Cell) -> Reply:
        """Return whether the cell has an integer state."""
        ...

    def chooses_in(self, cell: Cell, label: int) -> Reply:
        """Return whether the policy may choose the label in an integer state of the cell."""
        ...

    def may_choose_in(self, cell: Cell, label: int) -> Reply:
        """Return the same over the reals, where that is asked first: a No is a No."""
        ...


def answer_one_by_one(tester: Tester, questions: Sequence[tuple[Cell, int]]) -> list[Reply]:
    """Return the answers of a tester that knows no batches; after one that stays open the others do too."""
    replies: list[Reply] = []
    for cell, label in questions:
        if replies and isinstance(replies[-1], Open):
            replies.append(replies[-1])
        else:
            replies.append(tester.has_state(cell) if label == SILENT else tester.chooses_in(cell, label))
    return replies


@dataclass(frozen=True, slots=True)
class Patience:
    """The budget of all questions together, and the most seconds that one of them may take."""

    budget: Budget = UNLIMITED
    each: float | None = None

    @property
    def left(self) -> float | None:
        """Return the seconds that one more question may take."""
        return self.budget.at_most(self.each).left_or_none()

    @property
    def is_over(self) -> bool:
        """Return whether no time is left."""
        return self.budget.is_over()


def confirmed(bound: Bound, cell: Cell, label: int, state: Sequence[int]) -> Yes | None:
    """Return the state as an answer, sure where the reference order chooses the label; None where no order does."""
    if not cell.holds(state):
        return None
    fitted = bound.fitted
    concrete = state_of(bound.task.network, state)
    applicable = bound.compiled.semantics.applicable(concrete)
    number = {name: k for k, name in enumerate(bound.task.network.labels)}
    chosen = fitted.choose(concrete, applicable)
    if chosen is not None and number[chosen] == label:
        return Yes(tuple(state), True)
    names = [bound.task.network.labels[k] if k >= 0 else None for k in fitted.labels]
    mask = np.array([[name in applicable for name in names]])
    possible = possible_choices(fitted.policy, fitted.row(concrete), mask if fitted.filtered else None)[0]
    may = any(possible[k] and mask[0, k] and fitted.labels[k] == label for k in range(len(names)))
    return Yes(tuple(state), False) if may else None


class Z3Tester:
    """Exact tests over the integers, one incremental solver with the policy in it."""

    def __init__(
        self, bound: Bound, system: LinearNetwork, patience: Patience, *, megabytes: int | None = None
    ) -> None:
        self.bound, self.system, self.patience = bound, system, patience
        self.names = [f"x{place}" for place in range(len(system.bounds.lower))]
        self.encoding = encode_policy(bound.fitted, system.bounds, self.names, "p")
        self.plain = Worker("polvet.solvers.z3_worker", megabytes=megabytes)
        self.worker = Worker(
            "polvet.solvers.z3_worker", {"base": declare(self.names) + self.encoding.text}, megabytes=megabytes
        )

    def close(self) -> None:
        """End the solvers."""
        self.plain.close()
        self.worker.close()

    def has_state(self, cell: Cell) -> Reply:
        """Return whether the cell has an integer state."""
        reply = self._ask(self.plain, f"{declare(self.names)}(assert {cell_formula(cell, self.names)})")
        return reply if not isinstance(reply, tuple) else Yes(reply, True)

    def chooses_in(self, cell: Cell, label: int, activations: Sequence[tuple[float, float]] = ()) -> Reply:
        """Return whether the policy may choose the label in a state of the cell; bounds before ReLUs fix their cases."""
        text = [declare(self.names), declare([*self.encoding.scores, *self.encoding.before_relu], "Real")]
        text.append(f"(assert {cell_formula(cell, self.names)})")
        text.append(f"(assert {chooses(self.bound.fitted, self.system, self.encoding, self.names, label)})")
        for name, (low, high) in zip(self.encoding.before_relu, activations, strict=False):
            if low > 0:
                text.append(f"(assert (> {name} 0.0))")
            elif high < 0:
                text.append(f"(assert (< {name} 0.0))")
        reply = self._ask(self.worker, "\n".join(text))
        if not isinstance(reply, tuple):
            return reply
        return confirmed(self.bound, cell, label, reply) or Yes(None, False)

    def _ask(self, worker: Worker, text: str) -> tuple[int, ...] | No | Open:
        if self.patience.is_over:
            return Open(str(self.patience.budget.reached("time")))
        try:
            answer = worker.ask({"query": text, "values": self.names}, self.patience.left)
        except SolverTimeout:
            return Open("Z3 was stopped: a question took too long")
        except SolverDied as error:
            return Open(f"Z3 failed: {error}")
        if answer["answer"] == "sat":
            return tuple(int(answer["values"][name]) for name in self.names)
        return No() if answer["answer"] == "unsat" else Open("Z3 gave up")


@dataclass(frozen=True, slots=True)
class Relaxed:
    """What the continuous relaxation says: unsatisfiable, or a point and bounds before each ReLU."""

    satisfiable: bool | None  # None: not answered
    point: tuple[float, ...] = ()
    activations: tuple[tuple[float, float], ...] = ()


class MarabouTester:
    """The relaxation of a network's questions to the reals, asked of Marabou."""

    def __init__(
        self, bound: Bound, system: LinearNetwork, patience: Patience, *, megabytes: int | None = None
    ) -> None:
        network = bound.fitted.policy
        if not isinstance(network, Network):
            raise NotEncodable("Marabou is asked about ReLU networks only")
        self.bound, self.system, self.patience = bound, system, patience
        width = len(system.bounds.lower)
        first = np.zeros((len(network.layers[0].bias), width))
        for column, place in enumerate(bound.fitted.variables):
            first[:, place] += network.layers[0].weights[:, column]
        layers = [[first.tolist(), network.layers[0].bias.tolist()]]
        layers += [[layer.weights.tolist(), layer.bias.tolist()] for layer in network.layers[1:]]
        largest = max(abs(end) for end in (*system.bounds.lower, *system.bounds.upper))
        self.margin = 2 * network.kernel.coarse_bound(float(largest))
        self.worker = Worker("polvet.solvers.marabou_worker", {"layers": layers}, megabytes=megabytes)

    def close(self) -> None:
        """End the solver."""
        self.worker.close()

    def relaxed(self, cell: Cell, label: int) -> Relaxed:
        """Return what the relaxation says about the policy choosing the label in the cell.

        SOUND: Where all inputs of the network have one value it is evaluated: of many such questions Marabou 2.0 denies what is so.
        """
        if label not in self.bound.fitted.labels:
            return Relaxed(False)
        labels = self.bound.fitted.labels
        best = labels.index(label)
        others = [
            k
            for k, other in enumerate(labels)
            if k != best
            and (not self.bound.fitted.filtered or (other >= 0 and covers(self.system.applicable[other], cell)))
        ]
        if all(cell.box.lower[place] == cell.box.upper[place] for place in self.bound.fitted.variables):
            row = np.array([[float(cell.box.lower[place]) for place in self.bound.fitted.variables]])
            rated = np.array([[k == best or k in others for k in range(len(labels))]])
            possible = possible_choices(self.bound.fitted.policy, row, rated)[0]
            return Relaxed(bool(possible[best]), tuple(map(float, cell.box.lower)))
        question = {
            "lower": list(cell.box.lower),
            "upper": list(cell.box.upper),
            "best": best,
            "others": others,
            "rows": [[list(row.terms), row.lower, row.upper] for row in cell.rows if not row.marks],
            "margin": self.margin,
            "seconds": self.patience.left,
        }
        if self.patience.is_over:
            return Relaxed(None)
        try:
            answer = self.worker.ask(question, self.patience.left)
        except (SolverTimeout, SolverDied):
            return Relaxed(None)
        if answer["answer"] == "unknown":
            return Relaxed(None)
        activations = tuple((low, high) for low, high in answer["relu_bounds"])
        return Relaxed(answer["answer"] == "sat", tuple(answer.get("inputs", ())), activations)


def branch_and_bound(bound: Bound, marabou: MarabouTester, cell: Cell, label: int, first: Relaxed) -> Reply:
    """Return an integer solution by splitting the relaxation's fractional variables (6.4)."""
    pending: list[tuple[Box, Relaxed]] = [(cell.box, first)]
    while pending:
        box, relaxed = pending.pop()
        if relaxed.satisfiable is None:
            return Open("Marabou was stopped")
        if not relaxed.satisfiable:
            continue
        distance = [abs(value - round(value)) for value in relaxed.point]
        place = int(np.argmax(distance))
        if distance[place] <= INTEGRAL:
            point = tuple(round(value) for value in relaxed.point)
            reply = confirmed(bound, cell, label, point)
            if reply is not None:
                return reply
            # The relaxation left something out (holes, labels applicable in part): cut the box next to the point.
            place = next((k for k in range(len(point)) if box.lower[k] < box.upper[k]), -1)
            if place < 0:
                continue
            halves = _halves(box, place, min(point[place], box.upper[place] - 1))
        else:
            halves = _halves(box, place, floor(relaxed.point[place]))
        for half in halves:
            part = cell_of(half, cell.rows, cell.holes)
            if part is not None:
                pending.append((part.box, marabou.relaxed(part, label)))
    return No()


def _halves(box: Box, place: int, middle: int) -> list[Box]:
    below = Box(box.lower, tuple(min(high, middle) if k == place else high for k, high in enumerate(box.upper)))
    above = Box(tuple(max(low, middle + 1) if k == place else low for k, low in enumerate(box.lower)), box.upper)
    return [half for half in (below, above) if not half.is_empty]


def covers(region: Region, cell: Cell) -> bool:
    """Return whether the cell surely lies in one cell of the region."""
    return any(
        one.box.contains(cell.box) and set(one.rows) <= set(cell.rows) and set(one.holes) <= set(cell.holes)
        for one in region
    )
