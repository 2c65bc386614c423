"""Faults in files: `{"format": "faults/1", ..., "faults": [{"state", "action", "safe_actions", "unsafe_outcomes"}]}`.

A fault is a safe state on a run of the policy whose chosen action has an unsafe outcome. Each state stands once. Faults of another
kind name it: `"kind": "dead end"`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polvet.errors import InputError, Where
from polvet.files import Json, read_json, write_whole
from polvet.model.semantics import State
from polvet.model.task import Task
from polvet.records.state_files import MAX_BYTES, StateFormat

FORMAT = "faults/1"
UNSAFE, DEAD_END, LIVELOCK, STUCK, RISK = "unsafe", "dead end", "livelock", "stuck", "risk"
KINDS = (UNSAFE, DEAD_END, LIVELOCK, STUCK, RISK)
"""What is wrong with the action: it may leave the safe states; lose the goal; go on for ever; be none; or risk too much."""
GOAL_KINDS = (DEAD_END, LIVELOCK, STUCK)


@dataclass(frozen=True, slots=True)
class Fault:
    """A safe state, the action the policy takes there, the actions that stay safe, and the unsafe outcomes of its own.

    Of another kind (docs/semantics.md): the actions that keep the goal, or the risk, and the outcomes that give it up.
    """

    state: State
    action: str
    safe_actions: tuple[str, ...]
    unsafe_outcomes: tuple[State, ...]
    kind: str = UNSAFE


@dataclass(frozen=True, slots=True)
class FaultList:
    """The faults of a policy, and what they are faults of; `exhaustive`: the policy has no others."""

    faults: tuple[Fault, ...]
    task_sha256: str | None = None
    policy_sha256: str | None = None
    exhaustive: bool = False


def fault_to_json(task: Task, fault: Fault) -> Json:
    """Return the fault as a fault file holds it."""
    write = StateFormat(task).write
    document: Json = {
        "state": write(fault.state),
        "action": fault.action,
        "safe_actions": list(fault.safe_actions),
        "unsafe_outcomes": [write(state) for state in fault.unsafe_outcomes],
    }
    return document if fault.kind == UNSAFE else {**document, "kind": fault.kind}


def write_faults(task: Task, faults: FaultList, path: str | Path) -> None:
    """Write the faults, one to a line, whole or not at all."""
    head = {
        "format": FORMAT,
        "task_sha256": faults.task_sha256,
        "policy_sha256": faults.policy_sha256,
        "exhaustive": faults.exhaustive,
    }
    rows = ",\n".join(json.dumps(fault_to_json(task, fault), ensure_ascii=False) for fault in faults.faults)
    write_whole(path, f'{json.dumps(head, ensure_ascii=False)[:-1]}, "faults": [\n{rows}\n]}}\n')


def read_faults(task: Task, path: str | Path) -> FaultList:
    """Return the faults in the file; shapes, labels and states are checked, whether they are faults is not."""
    where = Where(str(path))
    document = read_json(path, max_bytes=MAX_BYTES)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InputError("is no list of faults.", where, f'Its first key must be "format": "{FORMAT}".')
    items = document.get("faults")
    if not isinstance(items, list):
        raise InputError("must be a list.", where.at("faults"), "Write the file with polvet faults -o.")
    reader = StateFormat(task)
    faults = [fault_from_json(reader, item, where.at("faults").at(k)) for k, item in enumerate(items)]
    _refuse_doubles(faults, where)
    return FaultList(
        tuple(faults), document.get("task_sha256"), document.get("policy_sha256"), document.get("exhaustive") is True
    )


def fault_from_json(reader: StateFormat, item: Any, where: Where) -> Fault:
    """Return the fault in a JSON object, or raise an InputError with the place that is wrong."""
    if not isinstance(item, dict) or not isinstance(item.get("state"), dict):
        raise InputError("is no fault: it has no 'state'.", where, 'Write {"state": {...}, "action": "a", ...}.')
    labels = reader.task.network.labels
    safe = item.get("safe_actions", [])
    outcomes = item.get("unsafe_outcomes", [])
    if (kind := item.get("kind", UNSAFE)) not in KINDS:
        raise InputError(f"there is no kind '{kind}' of faults.", where.at("kind"), f"Use {', '.join(KINDS)}.")
    if kind != STUCK or not isinstance(item.get("action"), str):  # a policy may be stuck with what no operator has
        _refuse_unknown([item.get("action")], labels, where.at("action"))
    if not isinstance(safe, list) or not isinstance(outcomes, list) or not all(isinstance(o, dict) for o in outcomes):
        raise InputError(
            "'safe_actions' and 'unsafe_outcomes' must be lists.", where, "Write the file with polvet faults -o."
        )
    _refuse_unknown(safe, labels, where.at("safe_actions"))
    return Fault(
        reader.read(item["state"], where.at("state")),
        item["action"],
        tuple(safe),
        tuple(reader.read(outcome, where.at("unsafe_outcomes").at(k)) for k, outcome in enumerate(outcomes)),
        kind,
    )


def _refuse_unknown(names: Iterable[Any], labels: Sequence[str], where: Where) -> None:
    for name in names:
        if name not in labels:
            raise InputError(f"'{name}' is no label of the model.", where, f"Its labels are {', '.join(labels[:12])}.")


def _refuse_doubles(faults: Sequence[Fault], where: Where) -> None:
    seen: dict[State, int] = {}
    for k, fault in enumerate(faults):
        if fault.state in seen:
            what = f"has the state of fault {seen[fault.state]} again."
            raise InputError(what, where.at("faults").at(k), "Keep each state once.")
        seen[fault.state] = k
