"""What a campaign is asked to do. Two campaigns with equal settings and files end in the same policy, byte for byte."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields

from polvet.choices import one_of
from polvet.debug.questions import Question
from polvet.errors import InputError, Where
from polvet.files import Json
from polvet.model.task import Task
from polvet.repair.methods import METHODS, MODES

LATER = ("kind", "goal_chance", "max_risk", "delta")
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
    kind: str = "safety"  # goal: goal faults are mended as well, once the policy is safe; risk: with `max_risk`
    goal_chance: str = "best"  # with which the goal could be reached where a goal fault gives it up; best: all there is
    max_risk: str | None = None  # safe means: runs fail with at most this probability, read exactly
    delta: str = "0"  # an action may raise the least risk by so much

    def __post_init__(self) -> None:
        METHODS.chosen(self.method)
        one_of(self.mode, MODES, "--repair-mode")
        one_of(self.verify, VERIFICATIONS, "--verify")
        question = Question.of(self.kind, self.goal_chance, self.max_risk, self.delta)
        object.__setattr__(self, "kind", question.kind)
        if question.kind != "safety" and (self.verify, self.mode) != ("auto", "safe"):
            what = f"{question.kind} faults are mended in policies that are verified, by actions that are known to mend them."
            raise InputError(what, Where("--kind"), "Leave out --verify and --repair-mode.")

    def run_steps(self, task: Task) -> int:
        """Return how long a run may be that counts for %Goal: unsafe ones are looked for beyond the world's own limit."""
        return min(self.max_steps, task.max_steps or self.max_steps)

    def identity(self, **files: str | None) -> Json:
        """Return what a resumed campaign must agree on: these settings and the files' checksums.

        Settings that earlier versions did not know are left out where they are as they were.
        """
        since = {one.name: one.default for one in fields(self) if one.name in LATER}
        mine = {name: value for name, value in asdict(self).items() if name not in since or value != since[name]}
        return {**mine, **files}
