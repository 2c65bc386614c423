"""Before and after a repair: how much of the policy changed, and what it chooses in the states that were faults."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from polvet.errors import InputError, PolvetError, Where
from polvet.model.semantics import Semantics
from polvet.model.task import Task
from polvet.policy.binding import load_fitted
from polvet.policy.protocol import Policy
from polvet.policy.rules import Rules
from polvet.policy.tables import Table
from polvet.policy.trees import TreeEnsemble
from polvet.policy.unit_graph import AnyNetwork, dense_layers
from polvet.records.state_files import StateFormat
from polvet.report.campaign import Campaign
from polvet.report.verdict import given_options
from polvet.sources import load_task


@dataclass(frozen=True, slots=True)
class Change:
    """How many of a policy's numbers differ from those before."""

    changed: int
    total: int
    added: int
    what: str  # "leaf values", "weights", "rows", "rules"


@dataclass(frozen=True, slots=True)
class BeforeAfter:
    """What the policies of a campaign do in the states that were faults, and how they differ."""

    choices: tuple[tuple[str | None, ...], ...]  # per policy, per fault
    changes: tuple[Change | None, ...]  # between each policy and the next


def find_task(campaign: Campaign, path: Path | None) -> Task | None:
    """Return the campaign's task: of the given file, else of the file the campaign remembers if that is still the same."""
    if (file := campaign.task_file(path)) is None:
        return None
    try:
        task = load_task(file, given_options(campaign))
    except PolvetError:
        if path is not None:
            raise
        return None
    if task.sha256 == campaign.settings.get("task_sha256"):
        return task
    if path is not None:
        raise InputError("is not the task of this campaign.", Where(str(path)), "Give the file it was debugged with.")
    return None


def compare_policies(campaign: Campaign, task: Task) -> BeforeAfter:
    """Return what each policy of the campaign chooses in each fault's state, and how much each repair changed."""
    fitted = [load_fitted(task, path) for path in campaign.policies]
    if not fitted:
        return BeforeAfter((), ())
    network = fitted[0].task.network
    semantics = Semantics(network)
    reader = StateFormat(fitted[0].task)
    states = [reader.read(dict(fault.state), Where("faults").at(k)) for k, fault in enumerate(campaign.faults)]
    applicable = [{move.label for move in semantics.moves(state) if move.label is not None} for state in states]
    choices = tuple(
        tuple(one.choose(state, labels) for state, labels in zip(states, applicable, strict=True)) for one in fitted
    )
    return BeforeAfter(choices, tuple(count_changes(old.policy, new.policy) for old, new in pairwise(fitted)))


def count_changes(old: Policy, new: Policy) -> Change | None:
    """Return how many numbers of the policy differ; None for two policies that cannot be laid side by side."""
    if isinstance(old, TreeEnsemble) and isinstance(new, TreeEnsemble):
        pairs = zip(old.trees, new.trees, strict=False)
        changed = sum(
            int((a.values[a.leaves] != b.values[a.leaves]).sum()) for a, b in pairs if a.values.shape == b.values.shape
        )
        total = sum(a.values[a.leaves].size for a in old.trees)
        return Change(changed, total, max(0, len(new.trees) - len(old.trees)), "leaf values")
    if isinstance(old, AnyNetwork) and isinstance(new, AnyNetwork):
        before, after = _weights(old), _weights(new)
        if len(before) != len(after):
            return None
        return Change(int((before != after).sum()), len(before), 0, "weights")
    if isinstance(old, Table) and isinstance(new, Table):
        kept = sum(1 for state, scores in old.rows.items() if new.rows.get(state) == scores)
        return Change(len(old.rows) - kept, len(old.rows), len(new.rows.keys() - old.rows.keys()), "rows")
    if isinstance(old, Rules) and isinstance(new, Rules):
        rules = [(rule.when, rule.action) for rule in new.rules]
        kept = sum((rule.when, rule.action) in rules for rule in old.rules)
        return Change(len(old.rules) - kept, len(old.rules), max(0, len(rules) - kept), "rules")
    return None


def _weights(network: AnyNetwork) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.concatenate([part.ravel() for layer in dense_layers(network) for part in layer])
