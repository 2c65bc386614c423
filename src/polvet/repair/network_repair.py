"""Repair of a network: its last layer by a linear program; gated units for what that cannot fix or would cost too much.

Differs  the guarantee is that of the paper's leaf repair; a fault counts as fixed only if every float32 evaluation order takes
         another action there (`policy/rounding.py`), so no near tie stays behind.
         A network from an archive keeps its shape, so that its library loads it: its last layer alone is changed
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from polvet.budget import Budget
from polvet.errors import LimitReached
from polvet.policy.networks import Network
from polvet.policy.rounding import rounding_bounds
from polvet.policy.unit_graph import AnyNetwork, UnitGraph
from polvet.repair.demands import Demands, Flags, Reals, changed_share, conflicts, equal_rows, join
from polvet.repair.gated_units import add_gates
from polvet.repair.last_layer import ending_in_a_layer, last_layer, weight_change
from polvet.repair.method import Change, Method, Request
from polvet.repair.target_lp import PRICE, TargetLp, Unmet

PRICES = (2.0,)
MOST_KEPT = 300  # rows of a last layer are dense: so many kept states are demands of the program
RAISES = 12
PROGRAMS = 0.7
"""The share of the time that linear programs may use; gated units need the rest."""


@dataclass(frozen=True, slots=True, eq=False)
class RepairedNetwork:
    """A repaired network; `objective` is the L1 change of its last layer."""

    policy: AnyNetwork
    objective: float
    units_added: int
    fixed: Flags
    changed: float
    timed_out: bool


def repair_network(request: Request, *, only_units: bool = False) -> RepairedNetwork:
    """Return the network in which the faults' demands are met; the last layer stays as it is if units are asked for."""
    faults, keeps, integers, budget = request.demands, request.keeps, request.integers, request.budget
    network = ending_in_a_layer(request.policy)
    hopeful = np.flatnonzero(faults.targets.any(axis=1))
    torn = conflicts(faults.pick(hopeful), equal_rows(faults.rows[hopeful]))
    demands = _with_room(network, faults.pick(np.delete(hopeful, torn)))
    most = np.sort(np.argsort(-request.sample.weight, kind="stable")[:MOST_KEPT])
    sample = request.sample.pick(most)
    best: RepairedNetwork | None = None
    programs, late = budget.share(PROGRAMS), False
    try:
        for price in () if only_units else (math.inf, *PRICES):
            relayered = _by_last_layer(network, demands, sample, price, programs)
            late |= programs.is_over()
            if relayered is None or late:
                continue
            result = _with_units(network, relayered, demands, integers, faults, keeps, budget)
            if best is None or (result.fixed.sum(), -result.changed) > (best.fixed.sum(), -best.changed):
                best = result
            if best.changed <= request.most_changed and best.fixed.sum() >= len(demands):
                return best
        result = replace(_with_units(network, network, demands, integers, faults, keeps, budget), timed_out=late)
    except LimitReached as limit:
        if limit.kind != "time":
            raise
        result = RepairedNetwork(network, 0.0, 0, np.zeros(len(faults), dtype=np.bool_), 0.0, timed_out=True)
        best = best and replace(best, timed_out=True)
    if best is not None and (best.fixed.sum(), -best.changed) >= (result.fixed.sum(), -result.changed):
        return best
    return result


def _by_last_layer(
    network: AnyNetwork, faults: Demands, sample: Demands, price: float, budget: Budget
) -> AnyNetwork | None:
    """Return the network with a changed last layer; with a finite price, faults that cost more stay as they are."""
    for _ in range(RAISES):
        both = join(faults if math.isinf(price) else faults.with_weight(price), sample)
        view = last_layer(network, both.rows)
        answer = TargetLp(view, both, budget).solve()
        if isinstance(answer, Unmet):
            if answer.timed_out or not len(answer.torn):
                return None
            price = PRICE / 2  # leave out what conflicts
            continue
        relayered = view.apply(answer.change)
        skipped = answer.lost[: len(faults)]
        missed = ~faults.met_by(relayered) & ~skipped
        if not missed.any():
            return relayered
        faults = faults.raised(missed)
    return relayered


def _with_units(
    old: AnyNetwork,
    relayered: AnyNetwork,
    demands: Demands,
    integers: Sequence[bool],
    faults: Demands,
    keeps: Demands,
    budget: Budget,
) -> RepairedNetwork:
    policy, shifts = relayered, np.zeros((0, len(relayered.outputs)))
    if relayered.archive is None:
        policy, shifts = _fix_by_units(relayered, demands, integers, budget)
    changed = changed_share(keeps, ~keeps.held_by(policy))
    size = weight_change(old, relayered) + float(np.abs(shifts.astype(np.float32).astype(np.float64)).sum())
    return RepairedNetwork(policy, size, len(shifts), faults.met_by(policy, budget), changed, False)


def _fix_by_units(
    network: AnyNetwork, faults: Demands, integers: Sequence[bool], budget: Budget
) -> tuple[AnyNetwork, Reals]:
    """Return the network with a gate for every row whose demands are not met, and by how much each gate moves the scores."""
    wrong = np.flatnonzero(~faults.met_by(network, budget))
    if not len(wrong):
        return network, np.zeros((0, len(network.outputs)))
    group = equal_rows(faults.rows)
    members = np.flatnonzero(np.isin(group, group[wrong]))
    rows, place = np.unique(faults.rows[members], axis=0, return_inverse=True)
    place = np.asarray(place).reshape(-1)
    demands = faults.pick(members)
    shifts: Reals = np.zeros((len(rows), len(network.outputs)))
    gated = network
    for _ in range(RAISES):
        scores = gated.scores(demands.rows).astype(np.float64)
        _raise_targets(shifts, scores, demands, place, np.flatnonzero(~demands.met_by(gated, budget)))
        gated = add_gates(network, rows, shifts, integers)
        missed = ~demands.met_by(gated, budget)
        if not missed.any():
            break
        demands = demands.raised(missed, factor=2)
    return gated, shifts


def _raise_targets(
    shifts: Reals, scores: Reals, demands: Demands, place: npt.NDArray[np.intp], who: npt.NDArray[np.intp]
) -> None:
    """Raise in each of the rows the best target above its rivals by the margin; `scores` are those with the old shifts."""
    moved = np.zeros_like(shifts)
    for k in who.tolist():
        now = scores[k] + moved[place[k]]
        target = int(np.where(demands.targets[k], now, -np.inf).argmax())
        rival = float(np.where(demands.rivals[k], now, -np.inf).max())
        moved[place[k], target] += max(0.0, float(demands.margin[k]) + rival - float(now[target]))
    shifts += moved


def _with_room(network: AnyNetwork, faults: Demands) -> Demands:
    """Return the demands with margins above what another evaluation order can do to both scores."""
    if not len(faults):
        return faults
    bounds = np.where(faults.allowed, rounding_bounds(network, faults.rows), 0.0).max(axis=1)
    bounds = np.where(np.isfinite(bounds), bounds, 0.0)
    return faults.with_margin(np.maximum(faults.margin, 4.0 * bounds))


def _network(request: Request, *, only_units: bool = False) -> Change:
    repair = repair_network(request, only_units=only_units)
    return Change(repair.policy, repair.objective, units_added=repair.units_added, timed_out=repair.timed_out)


LAST_LAYER = Method(
    "last-layer",
    "weights of the last layer by the same programs; gated units for what is left (`repair/network_repair.py`)",
    (Network, UnitGraph),
    _network,
)
UNITS = Method(
    "units",
    "a gate for every fault: exactly 1 in its state, exactly 0 in all others (`repair/gated_units.py`)",
    (Network, UnitGraph),
    partial(_network, only_units=True),
)
