"""A certificate as a file holds it, and the head that all kinds share."""

from __future__ import annotations

from typing import TypeAlias

from polvet.files import Json
from polvet.model.task import Task
from polvet.policy.binding import Fitted

Certificate: TypeAlias = Json
"""A certificate's JSON object. It has no class: its checker believes no entry, so each is looked at where it is read."""


def certificate_head(kind: str, about: Task | Fitted) -> Certificate:
    """Return what a certificate says of its kind, its task and, where it is about one, its policy."""
    task = about if isinstance(about, Task) else about.task
    head: Certificate = {"kind": kind, "format": "certificate/1", "task_sha256": task.sha256}
    return head if isinstance(about, Task) else {**head, "policy_sha256": about.sha256}


def conditions_of(about: Task | Fitted) -> Certificate:
    """Return what certificates say of the conditions under which they hold."""
    task = about if isinstance(about, Task) else about.task
    conditions: Certificate = {"options": options} if (options := task.options.to_json()) else {}
    return {**conditions, "by_execution": True} if isinstance(about, Fitted) and about.by_execution else conditions
