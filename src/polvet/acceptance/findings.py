"""A fault in words, as every reader of a gate sees it: the state first, because that is what people look up."""

from __future__ import annotations

import json

from polvet.model.task import Task
from polvet.records.fault_files import Fault
from polvet.records.state_json import state_to_json


def state_text(task: Task, fault: Fault) -> str:
    """Return the fault's state as `x=3, crashed=false`."""
    return ", ".join(f"{name}={json.dumps(value)}" for name, value in state_to_json(task, fault.state).items())


def fault_text(task: Task, fault: Fault) -> str:
    """Return where the policy is at fault, what it chooses there and what would be safe."""
    instead = ", ".join(fault.safe_actions) or "no single action"
    return f"In the state {state_text(task, fault)} the policy chooses {fault.action}; safe would be {instead}."
