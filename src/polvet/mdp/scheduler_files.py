"""Schedulers without memory as files: what attains the bound of a property, state by state."""

from __future__ import annotations

import json
from pathlib import Path

from polvet.errors import InputError, Where
from polvet.files import write_whole
from polvet.mdp.check import CheckResult
from polvet.model.network import Network
from polvet.model.task import state_to_names

NO_CHOICE = 0xFFFFFFFF


def dump_scheduler(network: Network, result: CheckResult, name: str, path: Path) -> None:
    """Write the label (null: silent) and the number of the choice in every state that has one."""
    if result.scheduler is None or result.built is None:
        raise InputError("this property has no scheduler without memory.", Where("scheduler"), "Leave it out.")
    built = result.built
    states = []
    for number, choice in enumerate(result.scheduler.tolist()):
        if choice != NO_CHOICE:
            label = int(built.labels[int(built.mdp.choice_start[number]) + choice])
            states.append(
                {
                    "state": state_to_names(network, built.state_of(number)),
                    "label": None if label < 0 else network.labels[label],
                    "choice": choice,
                }
            )
    write_whole(
        path, json.dumps({"format": "scheduler/1", "property": name, "states": states}, ensure_ascii=False) + "\n"
    )
