"""Explicit verification: everything the policy reaches from all start states is visited once.

`_core.Reachability` does the work (src/_core/explore/explicit.h): batches of states, threads, one store in which all start states
share what they reach. Near ties are followed last.
Cost     one expansion and one policy evaluation per reachable state; 20 to 30 bytes for a state of one word
Limits   finitely many start states; the certificate lists the states up to `MOST_LISTED`, beyond that it is only the claim,
         which the checker explores again
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from polvet import _core
from polvet.budget import UNLIMITED, Budget
from polvet.errors import LimitReached
from polvet.files import Figures
from polvet.kernel.compiled import limit_of
from polvet.kernel.starts import Starts
from polvet.policy.compiled import FAIL, GOAL, Bound
from polvet.policy.runs import End, Run, raise_what_broke, search_figures
from polvet.records.certificate_files import Certificate
from polvet.records.packed import fits, pack_columns
from polvet.verify.method import Method, Request
from polvet.verify.verdicts import Safe, SafetyResult, Unknown, Unsafe

METHOD = "explicit"
MOST_LISTED = 3_000_000


class Search:
    """A search that can stop at a limit and go on later, where it stopped; from all start states, or from the rows of some."""

    def __init__(
        self,
        bound: Bound,
        budget: Budget = UNLIMITED,
        *,
        most_listed: int = MOST_LISTED,
        some: NDArray[np.int64] | None = None,
    ) -> None:
        self.bound, self.most_listed = bound, most_listed
        avoid = bound.task.avoid
        self.reach = _core.Reachability(bound.core, FAIL, GOAL, avoid.stuck, avoid.deadlock)
        self.count: int | None
        self.blocks: Iterator[NDArray[np.int64]] = iter(())
        if some is not None:
            self.count, self.blocks = len(some), iter([some])
            return
        starts = Starts.of(bound.task, budget)
        self.count = starts.count
        if starts.count is not None:
            self.blocks = starts.blocks()

    def go_on(self, budget: Budget = UNLIMITED, *, threads: int = 1) -> SafetyResult:
        """Search until it is decided, or until a limit comes first."""
        bound, reach, count = self.bound, self.reach, self.count
        if count is None:
            return Unknown("infinitely many start states", METHOD)
        if budget.states is not None and count > budget.states:
            reason = f"{count:,} start states are more than the {budget.reached('states')}"
            return Unknown(reason, METHOD, {"starts": count}, limit="states")
        for block in self.blocks:
            reach.add_starts(bound.compiled.machine.pack(block))
            if (limit := _over(budget, reach)) is not None:
                return Unknown(str(limit), METHOD, _figures(reach, count), limit=limit.kind)
        most = 2**62 if budget.states is None else budget.states
        reach.close(threads, budget.left(), budget.most_bytes, most, budget.on_progress)
        raise_what_broke(bound, reach.status, reach.faulty, reach.fault, reach.policy_broken)
        figures = _figures(reach, count)
        match reach.reached:
            case _core.Reached.CLOSED:
                return Safe(_certificate(bound, reach, self.most_listed), METHOD, figures)
            case _core.Reached.UNSAFE:
                return Unsafe(_witness(bound, reach)[0], METHOD, figures)
            case _core.Reached.DOUBTFUL:
                run, tie = _witness(bound, reach)
                state = run.states[tie]
                shown = bound.compiled.semantics.show(state)
                return Unknown(f"near-tie in state {shown}", METHOD, figures, tie=state)
            case _:
                stopped = limit_of(reach.status, budget) or budget.reached("memory")
                return Unknown(str(stopped), METHOD, figures, limit=stopped.kind)


def _over(budget: Budget, reach: _core.Reachability) -> LimitReached | None:
    if budget.is_over():
        return budget.reached("time")
    if reach.bytes > budget.most_bytes:
        return budget.reached("memory")
    if budget.states is not None and len(reach) > budget.states:
        return budget.reached("states")
    return None


def _figures(reach: _core.Reachability, starts: int) -> Figures:
    return {"starts": starts, **search_figures(reach, len(reach))}


def _witness(bound: Bound, reach: _core.Reachability) -> tuple[Run, int]:
    words, labels, tie = reach.witness()
    states = tuple(bound.compiled.unpack(words))
    actions = tuple(bound.label(number) for number in labels.tolist())
    fails = bound.compiled.semantics.compile(bound.task.fail)(states[-1])
    end = End.FAIL
    if not fails:
        end = End.STUCK if bound.compiled.semantics.moves(states[-1]) else End.DEADLOCK
    return Run(states, actions, end), tie


def _certificate(bound: Bound, reach: _core.Reachability, most_listed: int) -> Certificate:
    certificate: Certificate = {"kind": "reachable-set", "count": len(reach)}
    if also := bound.task.avoid.names:
        certificate["avoids"] = list(also)
    if len(reach) <= most_listed and fits(bound.task.network.variables, len(reach)):
        rows = bound.compiled.machine.unpack(reach.states())
        certificate["states"] = pack_columns(bound.task.network.variables, rows)
    return certificate


def _verify(bound: Bound, request: Request) -> SafetyResult:
    search = request.search or Search(bound, request.budget)
    return search.go_on(request.budget, threads=request.parallelism.threads)


EXPLICIT = Method(
    METHOD,
    "visits every state the policy reaches from all start states, once, with all threads; they are finitely many and fit in memory",
    _verify,
)
