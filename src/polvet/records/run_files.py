"""Runs in files: JSON lines `{"states": [s0, ..., sn], "actions": ["a", null, ...], "end": "fail"}`, written and read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from polvet.errors import InputError, Where
from polvet.files import Json, parse_json, read_text, write_whole
from polvet.model.task import Task
from polvet.policy.runs import End, Run
from polvet.records.state_files import MAX_BYTES, StateFormat

ENDS = {end.text: end for end in End if end is not End.UNFINISHED}


def run_to_json(task: Task, run: Run) -> Json:
    """Return the run as a line of a run file holds it."""
    write = StateFormat(task).write
    return {"states": [write(state) for state in run.states], "actions": list(run.actions), "end": run.end.text}


def write_runs(task: Task, runs: Iterable[Run], path: str | Path) -> int:
    """Write the runs as JSON lines and return how many there are."""
    lines = [json.dumps(run_to_json(task, run), ensure_ascii=False) + "\n" for run in runs]
    write_whole(path, "".join(lines))
    return len(lines)


def iter_runs(task: Task, path: str | Path) -> Iterator[Run]:
    """Yield every run in the file; shapes and states are checked, steps are not (see `check/run.py`)."""
    for number, line in enumerate(read_text(path, max_bytes=MAX_BYTES).splitlines(), start=1):
        if line.strip():
            where = Where(str(path), line=number)
            yield run_from_json(task, parse_json(line, where), where)


def run_from_json(task: Task, item: Any, where: Where) -> Run:
    """Return the run in a JSON object, or raise an InputError with the place that is wrong."""
    if not isinstance(item, dict) or not isinstance(item.get("states"), list) or not item["states"]:
        raise InputError("is no run: 'states' must be a list.", where, 'Write {"states": [...], "actions": [...]}.')
    actions = item.get("actions")
    if not isinstance(actions, list) or len(actions) != len(item["states"]) - 1:
        raise InputError(
            "'actions' must be a list with one entry less than 'states'.",
            where.at("actions"),
            "Write runs as polvet fuzz -o does.",
        )
    labels = task.network.labels
    for k, action in enumerate(actions):
        if action is not None and action not in labels:
            raise InputError(
                f"'{action}' is no label of the model.",
                where.at("actions").at(k),
                "Use the labels that polvet info lists.",
            )
    if item.get("end") not in ENDS:
        raise InputError(
            f"'end' must be one of {', '.join(ENDS)}.", where.at("end"), "Write runs as polvet fuzz -o does."
        )
    reader = StateFormat(task)
    states = []
    for k, state in enumerate(item["states"]):
        if not isinstance(state, dict):
            raise InputError("is no state.", where.at("states").at(k), 'Write {"x": 3, "crashed": false}.')
        states.append(reader.read(state, where.at("states").at(k)))
    return Run(tuple(states), tuple(actions), ENDS[item["end"]])
