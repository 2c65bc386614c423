"""A stable-baselines3 callback that counts the faults of the learner's policy at every checkpoint.

Needs the extra `train`. At each checkpoint the policy is saved as an archive, read back as polvet reads it (nothing is
unpickled), and all states it reaches are searched for faults, exactly and not by sampling. The archive's
observations must be the model's variables in their order, as `model_env(task)` gives them.
"""

from __future__ import annotations

import io
import json
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from polvet.budget import UNLIMITED, Budget
from polvet.debug.faults import all_faults
from polvet.errors import MissingExtra, Where
from polvet.model.task import Task
from polvet.policy.binding import fit
from polvet.policy.compiled import compile_policy
from polvet.policy.stable_baselines import network_from_stable_baselines
from polvet.safety.decide import Decider

_callbacks: Any = import_module("stable_baselines3.common.callbacks") if find_spec("stable_baselines3") else None
_Callback: Any = object if _callbacks is None else _callbacks.BaseCallback


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What the policy was like after so many steps of training; `exhaustive`: these are all faults there are."""

    steps: int
    faults: int
    states: int  # that the policy reaches
    unsafe_starts: int  # from which no policy is safe
    exhaustive: bool
    archive: str | None


class FaultsPerCheckpoint(_Callback):  # type: ignore[misc]
    """Call with `learn(callback=FaultsPerCheckpoint(task, every=1000))`; `checkpoints` holds the counts.

    `folder` keeps each archive (`steps-1000.zip`, for `polvet faults` and `polvet debug`) and `checkpoints.jsonl`.
    """

    def __init__(
        self, task: Task, *, every: int = 10_000, folder: str | Path | None = None, budget: Budget = UNLIMITED
    ) -> None:
        if _callbacks is None:
            raise MissingExtra("stable_baselines3", "train")
        super().__init__()
        self.task, self.every, self.budget = task, every, budget
        self.folder = None if folder is None else Path(folder)
        self.checkpoints: list[Checkpoint] = []
        self._decider = Decider(task)  # what it proves about states is kept for the next checkpoint

    def _on_training_start(self) -> None:
        self._next = self.num_timesteps + self.every

    def _on_step(self) -> bool:
        if self.num_timesteps >= self._next:
            self._next += self.every
            self.check()
        return True

    def _on_training_end(self) -> None:
        if not self.checkpoints or self.checkpoints[-1].steps != self.num_timesteps:
            self.check()

    def check(self) -> Checkpoint:
        """Return the faults of the policy as it is now."""
        buffer = io.BytesIO()
        self.model.save(buffer)
        data = buffer.getvalue()
        variables = [variable.name for variable in self.task.network.variables]
        network = network_from_stable_baselines(data, Where("checkpoint"), variables, list(self.task.network.labels))
        bound = compile_policy(fit(self.task, network))
        analysis = all_faults(bound, self._decider, budget=self.budget)
        archive = None if self.folder is None else self.folder / f"steps-{self.num_timesteps}.zip"
        checkpoint = Checkpoint(
            self.num_timesteps,
            len(analysis.faults),
            analysis.states,
            len(analysis.unsafe_starts),
            analysis.exhaustive,
            None if archive is None else str(archive),
        )
        if self.folder is not None and archive is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            archive.write_bytes(data)
            with (self.folder / "checkpoints.jsonl").open("a") as lines:
                lines.write(json.dumps(asdict(checkpoint)) + "\n")
        self.checkpoints.append(checkpoint)
        self.logger.record("polvet/faults", checkpoint.faults)
        return checkpoint
