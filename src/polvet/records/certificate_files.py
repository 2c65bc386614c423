"""A certificate as a file holds it, and the head that all kinds share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from polvet.files import Json
from polvet.model.task import Task

if TYPE_CHECKING:
    from polvet.policy.binding import Fitted  # checkers that score no policy load no kernel

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
    return {**conditions, "by_execution": True} if not isinstance(about, Task) and about.by_execution else conditions


def lacks_tree(certificate: Mapping[str, Any]) -> bool:
    """Return whether the certificate is an invariant, or has one for a proof, that has no split tree."""
    proof = certificate.get("proof") if certificate.get("kind") == "safe-region" else certificate
    return isinstance(proof, Mapping) and proof.get("kind") == "invariant" and "tree" not in proof
