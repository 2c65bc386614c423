"""What a campaign is about, for whoever reads its folder later: the files it was given, the model, the conditions."""

from __future__ import annotations

import json
from pathlib import Path

from polvet.model.expressions import Expression
from polvet.model.infix import dump_expression
from polvet.model.task import Task


def dump_about(task: Task, policy: Path) -> str:
    """Return the text of `about.json`."""

    def shown(condition: Expression | None) -> str | None:
        return None if condition is None else dump_expression(condition)

    model = task.network.model
    about = {
        "format": "about/1", "task": None if task.source is None else str(task.source.file), "policy": str(policy),
        "options": task.options.to_json(), "mode": task.reading.mode, "model": model.name, "metadata": dict(model.metadata),
        "start": shown(task.start), "fail": shown(task.fail), "goal": shown(task.goal),
    }  # fmt: skip
    return json.dumps(about, ensure_ascii=False, indent=1) + "\n"
