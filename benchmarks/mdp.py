"""Solving sparse MDPs against Storm 2.0 on the matrices Storm built: CPU time, same run, interleaved repetitions.

Storm runs with its defaults (precision 1e-6 on successive values, not sound);
polvet proves a relative gap of 1e-6 and returns a scheduler.
    python -m benchmarks.mdp [--repeat 3] [--only consensus,csma] [--most-states 2000000]
"""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from polvet.mdp import CumulativeReward, Query, Reach, Reward, SparseMdp, solve

BENCHMARKS = Path(__file__).resolve().parents[2] / "shared" / "benchmarks"

MODELS: list[tuple[str, dict[str, Any]]] = [
    ("qvbs/mdp/consensus/consensus.4.jani", {"K": 4}),
    ("qvbs/mdp/csma/csma.3-2.jani", {}),
    ("qvbs/mdp/csma/csma.3-4.jani", {}),
    ("qvbs/mdp/wlan/wlan.5.jani", {"COL": 0}),
    ("qvbs/mdp/wlan_dl/wlan_dl.0.jani", {"deadline": 80}),
    ("qvbs/mdp/zeroconf/zeroconf.jani", {"N": 1000, "K": 4, "reset": False}),
    ("qvbs/mdp/zeroconf_dl/zeroconf_dl.jani", {"N": 1000, "K": 1, "reset": False, "deadline": 50}),
    ("qvbs/mdp/firewire/firewire.false.jani", {"delay": 36, "deadline": 200}),
    ("qvbs/mdp/firewire/firewire.true.jani", {"delay": 3, "deadline": 400}),
    ("qvbs/mdp/firewire_dl/firewire_dl.jani", {"delay": 36, "deadline": 800}),
    ("qvbs/mdp/ij/ij.20.jani", {}),
    ("qvbs/mdp/pacman/pacman.jani", {"MAXSTEPS": 20}),
    ("qvbs/mdp/echoring/echoring.jani", {"ITERATIONS": 2}),
    ("qvbs/mdp/eajs/eajs.3.jani", {"energy_capacity": 150, "B": 7}),
    ("qvbs/mdp/resource-gathering/resource-gathering.jani", {"B": 200, "GOLD_TO_COLLECT": 15, "GEM_TO_COLLECT": 15}),
    ("qvbs/mdp/tireworld/tireworld.17.jani", {}),
    ("qvbs/mdp/elevators/elevators.b-11-9.jani", {}),
    ("qvbs/mdp/zenotravel/zenotravel.4-2-2.jani", {}),
    ("qvbs/mdp/exploding-blocksworld/exploding-blocksworld.5.jani", {}),
    ("qvbs/mdp/rabin/rabin.3.jani", {}),
    ("qvbs/dtmc/brp/brp.jani", {"N": 64, "MAX": 5}),
    ("qvbs/dtmc/crowds/crowds.jani", {"TotalRuns": 5, "CrowdSize": 15}),
    ("qvbs/dtmc/egl/egl.jani", {"N": 5, "L": 8}),
    ("qvbs/dtmc/nand/nand.jani", {"N": 20, "K": 4}),
]


@dataclass(frozen=True, slots=True)
class Case:
    """One property on one model: Storm's model and formula, and the same as arrays."""

    name: str
    storm_model: Any
    storm_property: Any
    mdp: SparseMdp
    query: Query


def sparse_of(model: Any) -> SparseMdp:
    """Return Storm's sparse model as arrays; state rewards are paid by every choice of the state."""
    matrix = model.transition_matrix
    rows = matrix.nr_rows
    target = np.empty(matrix.nr_entries, dtype=np.uint32)
    probability = np.empty(matrix.nr_entries, dtype=np.float64)
    for i, entry in enumerate(matrix.row_iter(0, rows - 1)):
        target[i], probability[i] = entry.column, entry.value
    branch_start = np.concatenate([[0], np.cumsum([len(matrix.get_row(r)) for r in range(rows)])]).astype(np.uint64)
    if matrix.has_trivial_row_grouping:
        choice_start = np.arange(model.nr_states + 1, dtype=np.uint64)
    else:
        choice_start = np.array(
            [matrix.get_row_group_start(s) for s in range(model.nr_states)] + [rows], dtype=np.uint64
        )
    rewards = {}
    for name, reward in model.reward_models.items():
        values = np.zeros(rows)
        if reward.has_state_rewards:
            values += np.repeat(np.array(reward.state_rewards), np.diff(choice_start).astype(np.int64))
        if reward.has_state_action_rewards:
            values += np.array(reward.state_action_rewards)
        rewards[name] = values
    initial = np.array(list(model.initial_states), dtype=np.uint32)
    # Storm drops branches of probability 0 already; its doubles may miss 1 in the last places.
    return SparseMdp(choice_start, branch_start, target, probability, initial, rewards=rewards)


def query_of(model: Any, formula: Any, default_minimise: bool) -> Query | None:
    """Return Storm's formula as a query, or None where it is of another kind."""
    import stormpy

    def mask(state_formula: Any) -> Any:
        result = np.zeros(model.nr_states, dtype=np.bool_)
        result[list(stormpy.model_checking(model, state_formula).get_truth_values_vector())] = True
        return result

    minimise = (
        str(formula.optimality_type).lower().endswith("minimize") if formula.has_optimality_type else default_minimise
    )
    path = formula.subformula
    text = str(formula)
    if path.is_bounded_until_formula:
        bound = re.search(r' U(steps|rew\{"(.*?)"\})?(<=|>=)(\d+) ', text)
        if bound is None or (bound[3] == ">=" and not bound[2]):
            return None
        goal, safe, count = mask(path.right_subformula), mask(path.left_subformula), int(bound[4])
        if not bound[2]:
            return Reach(goal=goal, safe=safe, minimise=minimise, step_bound=count)
        if bound[3] == "<=":
            return Reach(goal=goal, safe=safe, minimise=minimise, reward_bound=(bound[2], count))
        return Reach(goal=goal, safe=safe, minimise=minimise, reward_at_least=(bound[2], count))
    if formula.is_reward_operator_formula and (total := re.search(r"\[C(?:steps)?<=(\d+)\]", text)):
        return CumulativeReward(formula.reward_name, steps=int(total[1]), minimise=minimise)
    if formula.is_probability_operator_formula and path.is_eventually_formula:
        return Reach(goal=mask(path.subformula), minimise=minimise)
    if formula.is_probability_operator_formula and path.is_until_formula:
        return Reach(goal=mask(path.right_subformula), safe=mask(path.left_subformula), minimise=minimise)
    if formula.is_reward_operator_formula and path.is_eventually_formula:
        name = formula.reward_name if formula.has_reward_model_name() else next(iter(model.reward_models))
        return Reward(reward=name, goal=mask(path.subformula), minimise=minimise)
    return None


def cases(only: set[str], most_states: int) -> Iterator[Case]:
    """Yield every property of every listed model that both sides understand."""
    import stormpy

    for file, constants in MODELS:
        stem = Path(file).stem.split(".")[0]
        if (only and stem not in only) or not (BENCHMARKS / file).is_file():
            continue
        jani, properties = stormpy.parse_jani_model(str(BENCHMARKS / file))
        jani, properties = stormpy.instantiate_constants(jani, constants, properties)
        try:
            model = stormpy.build_model(jani, properties)
        except RuntimeError as error:
            print(f"{file}: left out, Storm says {str(error).splitlines()[0]}")
            continue
        if model.nr_states > most_states:
            continue
        mdp = sparse_of(model)
        for prop in properties:
            label = f"{Path(file).stem} {','.join(f'{k}={v}' for k, v in constants.items())} {prop.get_name()}"
            query = query_of(model, prop.get_raw_formula(), default_minimise=True)
            if query is not None:
                yield Case(label, model, prop, mdp, query)


def measure(case: Case, repeat: int) -> dict[str, Any]:
    """Return both sides' median CPU seconds and values; the sides take turns."""
    import stormpy

    ours, storm = [], []
    for _ in range(repeat):
        begin = time.process_time()
        value = solve(case.mdp, case.query)
        ours.append(time.process_time() - begin)
        begin = time.process_time()
        result = stormpy.model_checking(case.storm_model, case.storm_property, only_initial_states=True)
        storm.append(time.process_time() - begin)
    theirs = float(result.get_value(int(case.mdp.initial[0]))) if hasattr(result, "get_value") else math.nan
    return {
        "name": case.name,
        "states": case.mdp.states,
        "branches": case.mdp.branches,
        "largest_component": value.largest_component,
        "sweeps": value.sweeps,
        "lower": value.lower,
        "upper": value.upper,
        "limit": None if value.limit is None else str(value.limit),
        "storm_value": theirs,
        "storm_off": 0.0
        if theirs == value.lower or math.isinf(value.lower)
        else abs(theirs - value.lower) / max(value.lower, 1e-300),
        "seconds": statistics.median(ours),
        "storm_seconds": statistics.median(storm),
        "ratio": statistics.median(storm) / max(statistics.median(ours), 1e-9),
    }


def main() -> None:
    """Print one line per case and the share of cases where polvet is at least as fast."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--most-states", type=int, default=2_000_000)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    rows = []
    print(
        f"{'case':56} {'states':>9} {'largest':>8} {'sweeps':>6} {'ours':>8} {'Storm':>8} {'ratio':>7}  value (Storm)"
    )
    for case in cases(set(filter(None, options.only.split(","))), options.most_states):
        row = measure(case, options.repeat)
        rows.append(row)
        print(
            f"{row['name'][:56]:56} {row['states']:9} {row['largest_component']:8} {row['sweeps']:6} "
            f"{row['seconds']:8.4f} {row['storm_seconds']:8.4f} {row['ratio']:7.2f}  "
            f"{row['lower']:.9g} ({row['storm_value']:.9g}) {row['limit'] or ''}",
            flush=True,
        )
    faster = sum(row["ratio"] >= 1 for row in rows)
    print(f"not slower on {faster} of {len(rows)}, median ratio {statistics.median(row['ratio'] for row in rows):.2f}")
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
