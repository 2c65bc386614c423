"""Our own engine as the tester of an abstraction: its `No` is a proof, its `Yes` an executed state."""

from __future__ import annotations

from math import inf

from polvet import _core
from polvet.policy.binding import Bound
from polvet.symbolic.cells import Cell
from polvet.symbolic.operators import LinearTask
from polvet.verify.engine import ANYTHING, Engine
from polvet.verify.engine import Clock as EngineClock
from polvet.verify.questions import Clock, No, Open, Reply, Yes


class BoxTester:
    """Questions of Algorithm 1, answered by `verify.engine`."""

    def __init__(self, bound: Bound, task: LinearTask, clock: Clock, *, seed: int = 0) -> None:
        self.engine = Engine(bound.fitted, linear=task, seed=seed)
        self.labels = bound.fitted.labels
        self.clock = clock

    def has_state(self, cell: Cell) -> Reply:
        """Return whether the cell has an integer state."""
        if not cell.rows and not cell.holes:
            return Yes(cell.box.lower, True)
        return self._ask(cell, ANYTHING)

    def chooses_in(self, cell: Cell, label: int) -> Reply:
        """Return whether the policy may choose the label in an integer state of the cell."""
        if label not in self.labels:
            return No()
        return self._ask(cell, self.labels.index(label))

    def _ask(self, cell: Cell, output: int) -> Reply:
        left = self.clock.left
        if left is not None and left <= 0:
            return Open("time limit reached")
        reply = self.engine.find([cell], output, use_rows=False, clock=EngineClock(left if left != inf else None))
        match reply.answer:
            case _core.BoxAnswer.NO:
                return No()
            case _core.BoxAnswer.UNKNOWN:
                return Open("time limit reached")
            case answer:
                return Yes(reply.state, answer == _core.BoxAnswer.YES)
