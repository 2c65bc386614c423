"""What a campaign is about, for whoever reads its folder later: the files it was given, the model, the conditions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from polvet.campaign.settings import Settings
from polvet.errors import Where
from polvet.files import read_json
from polvet.model.expressions import Expression
from polvet.model.infix import dump_expression
from polvet.model.task import Task
from polvet.policy.runs import within_steps
from polvet.records.shape import later, record_from_json, record_to_json


@dataclass(frozen=True, slots=True)
class About:
    """The content of `about.json`; None: not known."""

    task: str | None = later()
    policy: str | None = later()
    options: Mapping[str, str] | None = later()
    mode: str | None = later()
    model: str | None = later()
    metadata: Mapping[str, str] | None = later()
    start: str | None = later()
    fail: str | None = later()
    goal: str | None = later()
    max_steps: int | None = later()  # of runs that count for %Goal, where the world has a limit

    @property
    def has_goal(self) -> bool:
        """Return whether the task wants anything reached; unless the folder says that it does not, it does."""
        return self.goal != "false"

    @property
    def within(self) -> str:
        """Return what is said beside %Goal where the world has a limit."""
        return "" if self.max_steps is None else within_steps(self.max_steps)


def dump_about(task: Task, policy: Path, settings: Settings) -> str:
    """Return the text of `about.json`."""

    def shown(condition: Expression | None) -> str | None:
        return None if condition is None else dump_expression(condition)

    model = task.network.model
    about = About(
        task=None if task.source is None else str(task.source.file),
        policy=str(policy),
        options=task.options.to_json(),
        mode=task.reading.mode,
        model=model.name,
        metadata=dict(model.metadata),
        start=shown(task.start),
        fail=shown(task.fail),
        goal=shown(task.goal),
        max_steps=task.max_steps and settings.run_steps(task),
    )
    return json.dumps({"format": "about/1", **record_to_json(about)}, ensure_ascii=False, indent=1) + "\n"


def read_about(folder: Path) -> About:
    """Return what the campaign in the folder is about; nothing is known of a folder without the file."""
    path = folder / "about.json"
    return record_from_json(About, read_json(path), Where(str(path))) if path.is_file() else About()
