"""What a campaign is asked to do. Two campaigns with equal settings and files end in the same policy, byte for byte."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from polvet.choices import one_of
from polvet.repair.methods import METHODS, MODES

VERIFICATIONS = ("auto", "never")


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that decides what a campaign does; limits of time, memory and threads are not part of it."""

    seed: int = 0
    starts: int = 10_000  # start states to debug on, and as many others to evaluate on
    runs: int = 10  # per evaluation start, for %Goal
    fuzz_runs: int = 10  # per debugging start
    max_steps: int = 1_000
    max_states: int = 2_000_000  # of an exhaustive search
    iterations: int = 50
    method: str = "auto"
    mode: str = "safe"
    keep: int = 2_000  # states of goal-reaching runs on which the old action should stay
    max_goal_loss: float = 1.0  # in points of %Goal
    verify: str = "auto"

    def __post_init__(self) -> None:
        METHODS.chosen(self.method)
        one_of(self.mode, MODES, "--repair-mode")
        one_of(self.verify, VERIFICATIONS, "--verify")

    def identity(self, **files: str | None) -> dict[str, Any]:
        """Return what a resumed campaign must agree on: these settings and the files' checksums."""
        return {**asdict(self), **files}
