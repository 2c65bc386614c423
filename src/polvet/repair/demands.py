"""What a repair must achieve, as conditions on scores: in this row one of the *targets* leads all *rivals* by a margin.

Source   section 5 of the paper on safety debugging of tree-ensemble policies: "not the faulty action" is mode `avoid`
Differs  mode `safe`: the new action is one of the fault's safe actions, so all others are rivals. Raw choice: labels that are not
         applicable are rivals, too, so that a repaired policy is not stuck. States to keep demand their old action.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from polvet.budget import UNLIMITED, Budget
from polvet.errors import InputError
from polvet.kernel.compiled import Compiled, Words
from polvet.model.semantics import State
from polvet.policy.binding import UNKNOWN_LABEL, Fitted
from polvet.policy.protocol import Choices, Mask, Policy, Rows, Scores
from polvet.policy.rounding import possible_choices
from polvet.records.fault_files import Fault

Mode = Literal["safe", "avoid"]
Flags = npt.NDArray[np.bool_]
Reals = npt.NDArray[np.float64]

BLOCK = 1 << 8
"""Rows that a policy is asked about between two looks at the limits: one with thousands of gates takes its time."""


@dataclass(frozen=True, slots=True, eq=False)
class Demands:
    """One demand per row. `allowed` is the mask of filtered choice (all True where choice is raw)."""

    rows: Rows  # [n, inputs]
    allowed: Mask  # [n, outputs]
    targets: Flags  # [n, outputs]: one of them must lead
    rivals: Flags  # [n, outputs]: all of them must be led
    margin: Reals  # [n]: by how much
    weight: Reals  # [n]: the cost of a missing unit of margin; infinite: it must not be missing

    def __len__(self) -> int:
        return len(self.rows)

    def pick(self, chosen: npt.NDArray[np.intp] | Flags) -> Demands:
        """Return some of the demands."""
        return Demands(*(getattr(self, name)[chosen] for name in self.__slots__))

    def raised(self, missed: Flags, factor: float = 4) -> Demands:
        """Return the demands with so many times the margin where they were missed."""
        return self.with_margin(np.where(missed, factor * self.margin, self.margin))

    def with_margin(self, margin: Reals) -> Demands:
        """Return the demands with other margins."""
        return replace(self, margin=margin)

    def with_weight(self, weight: float) -> Demands:
        """Return the demands, all with that weight."""
        return replace(self, weight=np.full(len(self), weight))

    def leads(self, scores: Scores) -> Reals:
        """Return by how much the best target leads the best rival, given the scores."""
        values = scores.astype(np.float64)
        best = np.where(self.targets, values, -np.inf).max(axis=1, initial=-np.inf)
        rival = np.where(self.rivals, values, -np.inf).max(axis=1, initial=-np.inf)
        return np.asarray(np.where(self.rivals.any(axis=1), best - rival, np.inf))

    def met_by(self, policy: Policy, budget: Budget = UNLIMITED) -> Flags:
        """Return which demands the policy meets: no float32 evaluation order of it chooses a rival."""
        met = np.zeros(len(self), dtype=np.bool_)
        for begin in budget.each(range(0, len(self), BLOCK)):
            part = slice(begin, begin + BLOCK)
            met[part] = ~(self.rivals[part] & possible_choices(policy, self.rows[part], self.allowed[part])).any(axis=1)
        return met

    def held_by(self, policy: Policy) -> Flags:
        """Return which demands the policy meets in its reference order."""
        if not len(self):
            return np.zeros(0, dtype=np.bool_)
        choices = policy.choose(self.rows, self.allowed)
        return np.asarray(~self.rivals[np.arange(len(self)), choices])


def join(first: Demands, second: Demands) -> Demands:
    """Return both lists of demands as one."""
    return Demands(*(np.concatenate([getattr(first, name), getattr(second, name)]) for name in Demands.__slots__))


class Applicability:
    """Which outputs of a policy are applicable in a state, as the model says."""

    def __init__(self, fitted: Fitted, compiled: Compiled) -> None:
        self.fitted, self.compiled = fitted, compiled
        self.outputs_of: dict[int, list[int]] = {}
        for output, label in enumerate(fitted.labels):
            if label != UNKNOWN_LABEL:
                self.outputs_of.setdefault(label, []).append(output)

    def masks(self, states: Sequence[State]) -> Mask:
        """Return [n, outputs]: whether the output's label is applicable in the state."""
        return self.packed_masks(self.compiled.pack(states)) if states else self._none(0)

    def packed_masks(self, words: Words) -> Mask:
        """Return the masks of packed states."""
        masks = self._none(len(words))
        for k, state in enumerate(words):
            moves = self.compiled.machine.moves(state)
            if moves is None:
                self.compiled.explain_fault(self.compiled.unpack(state.reshape(1, -1))[0], self.compiled.machine.fault)
                raise AssertionError("the kernel found a fault that the interpreter does not know")
            for label in {move[0] for move in moves}:
                masks[k, self.outputs_of.get(label, [])] = True
        return masks

    def _none(self, count: int) -> Mask:
        return np.zeros((count, len(self.fitted.labels)), dtype=np.bool_)

    def rows(self, states: Sequence[State]) -> Rows:
        """Return the policy's input rows of the states."""
        if not states:
            return np.zeros((0, len(self.fitted.inputs)), dtype=np.float32)
        return np.concatenate([self.fitted.row(state) for state in states])


def fault_demands(known: Applicability, faults: Sequence[Fault], mode: Mode, margin: float) -> Demands:
    """Return what the faults demand; one whose targets are all False cannot be met."""
    fitted = known.fitted
    states = [fault.state for fault in faults]
    applicable = known.masks(states)
    targets, rivals = np.zeros_like(applicable), np.zeros_like(applicable)
    names = list(fitted.policy.outputs)
    place = {name: k for k, name in enumerate(names)}
    avoided: dict[State, set[int]] = {}
    for fault in faults:
        avoided.setdefault(fault.state, set()).update(place[name] for name in (fault.action,) if name in place)
    for k, fault in enumerate(faults):
        bad = place.get(fault.action)
        if bad is None:
            raise InputError(
                f"the policy has no output for the faulty action '{fault.action}'.",
                hint="Give the faults of this policy.",
            )
        if mode == "safe":
            targets[k, [place[name] for name in fault.safe_actions if name in place]] = True
            targets[k] &= applicable[k]
            targets[k, bad] = False
            rivals[k] = ~targets[k]
        else:
            targets[k] = applicable[k]
            targets[k, bad] = False
            # What leads here must be none of the state's faulty actions: one of them must not be the way out of another.
            others = [
                action for action in range(len(names)) if targets[k, action] and action not in avoided[fault.state]
            ]
            if others:
                targets[k] = False
                targets[k, others] = True
            rivals[k] = ~applicable[k]
            rivals[k, bad] = True
    allowed = applicable if fitted.filtered else np.ones_like(applicable)
    count = len(faults)
    return Demands(
        known.rows(states), allowed, targets, rivals & allowed, np.full(count, margin), np.full(count, np.inf)
    )


def keep_demands(known: Applicability, states: Sequence[State], weight: float, margin: float) -> Demands:
    """Return the demands that the policy's choice stays what it is; states where it chooses nothing demand nothing."""
    fitted = known.fitted
    rows, applicable = known.rows(states), known.masks(states)
    allowed = applicable if fitted.filtered else np.ones_like(applicable)
    some = applicable.any(axis=1)
    rows, allowed = rows[some], allowed[some]
    # The same row under the same mask is one demand; it counts as often as it was seen.
    keys = np.concatenate([rows.view(np.uint32), allowed.astype(np.uint32)], axis=1)
    _, first, counts = np.unique(keys, axis=0, return_index=True, return_counts=True)
    order = np.argsort(first)
    first, counts = first[order], counts[order]
    rows, allowed = rows[first], allowed[first]
    choices: Choices = fitted.policy.choose(rows, allowed) if len(rows) else np.zeros(0, dtype=np.int32)
    targets = np.zeros_like(allowed)
    targets[np.arange(len(rows)), choices] = True
    return Demands(
        rows,
        allowed,
        targets,
        allowed & ~targets,
        _kept_margins(fitted.policy, rows, allowed, targets, margin),
        counts.astype(np.float64) * weight,
    )


def _kept_margins(policy: Policy, rows: Rows, allowed: Mask, targets: Flags, margin: float) -> Reals:
    """Return the margin, or the lead that there is where it is smaller."""
    if not len(rows):
        return np.zeros(0)
    scores = policy.scores(rows).astype(np.float64)
    lead = scores[targets] - np.where(allowed & ~targets, scores, -np.inf).max(axis=1, initial=-np.inf)
    return np.asarray(np.minimum(margin, lead), dtype=np.float64)


def conflicts(demands: Demands, groups: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Return the demands that cannot be met together with the others of their group, all of which have the same scores.

    Scores of a group can have any order. An action that no open demand has as a rival may lead all others; it serves the
    demands that have it as a target. What is open when there is no such action is in conflict.
    """
    order = np.argsort(groups, kind="stable")
    bounds = np.flatnonzero(np.diff(groups[order])) + 1
    open_demands = [
        members[_open(demands.targets[members], demands.rivals[members])]
        for members in np.split(order, bounds)
        if len(members)
    ]
    return np.sort(np.concatenate(open_demands)) if open_demands else np.zeros(0, dtype=np.intp)


def _open(targets: Flags, rivals: Flags) -> npt.NDArray[np.intp]:
    open_ = np.arange(len(targets))
    while len(open_):
        served = targets[open_][:, ~rivals[open_].any(axis=0)].any(axis=1)
        if not served.any():
            return open_
        open_ = open_[~served]
    return open_


def changed_share(keeps: Demands, changed: Flags) -> float:
    """Return the share of the kept states that changed, each counted as often as it was seen."""
    total = float(keeps.weight.sum())
    return float(keeps.weight[changed].sum()) / total if total else 0.0


def equal_rows(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.intp]:
    """Return for each row a number; equal rows have equal numbers."""
    _, number = np.unique(rows, axis=0, return_inverse=True)
    return np.asarray(number, dtype=np.intp).reshape(-1)
