"""Our own engine as the tester of an abstraction: its `No` is a proof, its `Yes` an executed state."""

from __future__ import annotations

from collections.abc import Sequence

from polvet import _core
from polvet.policy.compiled import Bound
from polvet.symbolic.cells import Cell
from polvet.symbolic.operators import SILENT, LinearTask
from polvet.verify.box_system import ALONE, Parallelism
from polvet.verify.engine import ANYTHING, Engine
from polvet.verify.engine import Reply as BoxReply
from polvet.verify.questions import No, Open, Patience, Reply, Yes


class BoxTester:
    """Questions of Algorithm 1, answered by `verify.engine`."""

    def __init__(
        self, bound: Bound, task: LinearTask, patience: Patience, *, seed: int = 0, parallelism: Parallelism = ALONE
    ) -> None:
        self.engine = Engine(bound.fitted, linear=task, seed=seed, parallelism=parallelism)
        self.labels = bound.fitted.labels
        self.patience = patience

    def has_state(self, cell: Cell) -> Reply:
        """Return whether the cell has an integer state."""
        return self.answer_all([(cell, SILENT)])[0]

    def chooses_in(self, cell: Cell, label: int) -> Reply:
        """Return whether the policy may choose the label in an integer state of the cell."""
        return self.answer_all([(cell, label)])[0]

    def may_choose_in(self, cell: Cell, label: int) -> Reply:
        """Return the same: the engine knows no relaxation."""
        return self.chooses_in(cell, label)

    def answer_all(self, questions: Sequence[tuple[Cell, int]]) -> list[Reply]:
        """Return for each cell whether the policy may choose the label in it; SILENT: whether it has a state."""
        replies = [self._told(cell, label) for cell, label in questions]
        open_ = [k for k, reply in enumerate(replies) if reply is None]
        if self.patience.is_over:
            answers = [BoxReply(_core.BoxAnswer.UNKNOWN)] * len(open_)
        else:
            outputs = (ANYTHING if questions[k][1] == SILENT else self.labels.index(questions[k][1]) for k in open_)
            queries = [([questions[k][0]], output) for k, output in zip(open_, outputs, strict=True)]
            within = self.patience.budget.at_most(self.patience.each)
            answers = self.engine.find_all(queries, use_rows=False, budget=within) if queries else []
        for k, one in zip(open_, answers, strict=True):
            replies[k] = _reply_of(one, self.patience)
        return [reply for reply in replies if reply is not None]

    def _told(self, cell: Cell, label: int) -> Reply | None:
        """Return what is known without asking."""
        if label == SILENT:
            return Yes(cell.box.lower, True) if not cell.rows and not cell.holes else None
        return No() if label not in self.labels else None


def _reply_of(box_reply: BoxReply, patience: Patience) -> Reply:
    match box_reply.answer:
        case _core.BoxAnswer.NO:
            return No()
        case _core.BoxAnswer.UNKNOWN:
            return Open(str(patience.budget.reached("time")) if patience.is_over else "a question took too long")
        case answer:
            return Yes(box_reply.state, answer == _core.BoxAnswer.YES)
