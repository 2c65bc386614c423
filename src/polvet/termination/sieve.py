"""Sieve: remove the edges that lower a variable which nothing in their component raises, until nothing changes.

Source   Srivastava, Zilberstein, Immerman, Geffner, "Qualitative numeric planning", AAAI 2011; the original Sieve
         knows lower bounds only. `progress_sieve` (see there) adds upper bounds
Limits   complete for qualitative semantics, only sound for deterministic ones; guards are dropped
"""

from __future__ import annotations

from polvet.budget import UNLIMITED, Budget
from polvet.policy.finite_memory import Multigraph
from polvet.termination.method import Method, Request
from polvet.termination.progress_sieve import SieveTrace, judge_sieve, sieve_rounds
from polvet.termination.verdicts import TerminationResult
from polvet.termination.walks import rows_of


def sieve(graph: Multigraph, budget: Budget = UNLIMITED) -> SieveTrace:
    """Return the rounds of Sieve; it proves termination if no cycle is left."""
    return sieve_rounds(graph, [row for row in rows_of(graph) if row.sign > 0], budget)


def _terminates(graph: Multigraph, request: Request) -> TerminationResult:
    return judge_sieve(graph, sieve(graph, request.budget), "sieve", request.budget)


SIEVE = Method(
    "sieve",
    "edges that lower a variable which nothing in their component raises are removed",
    "for qualitative semantics with lower bounds",
    _terminates,
)
