"""A termination test as data: its name, what it does, where it is complete, and the function that answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from polvet.budget import UNLIMITED, Budget
from polvet.policy.finite_memory import Multigraph
from polvet.termination.verdicts import TerminationResult

if TYPE_CHECKING:
    from polvet.termination.forest_file import GivenForest


@dataclass(frozen=True, slots=True)
class Request:
    """What a test is told beside the policy."""

    seed: int = 0
    forests: int = 20  # that GenSieve tries
    most_steps: int | None = 1_000_000  # of its path search
    budget: Budget = UNLIMITED
    forest: GivenForest | None = None  # that GenSieve takes instead of its own


@dataclass(frozen=True, slots=True)
class Method:
    """A way to decide whether every execution of a finite-memory policy ends."""

    name: str
    help: str
    complete: str  # where it always decides, in the words of the documents
    run: Callable[[Multigraph, Request], TerminationResult]
