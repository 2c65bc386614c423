"""Train a policy with XGBoost on a careless expert's runs, find its faults, repair it, prove it, and check the proof.

The world: a truck collects packages along a line and must stop before its end. The expert presses a wrong button now and
then, and the policy learns that, too. Run: python examples/debug_xgboost.py --starts 2000 -o out/xgboost
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path
from typing import Any

import polvet
from polvet import domains

SHIPPED = Path(domains.__file__).parent / "policies"
TASK, EXPERT = SHIPPED / "one-way-line-8-5.toml", SHIPPED / "one-way-line-8-5-good.json"


def learn(task: polvet.Task, runs: int, mistakes: float, rounds: int, seed: int) -> Any:
    """Return XGBoost fitted to states and actions of the expert's runs, some of them wrong."""
    import numpy as np
    import xgboost

    rng = random.Random(seed)
    rows: list[list[float]] = []
    actions: list[int] = []
    for run in task.policy(EXPERT).simulate(runs=runs, seed=seed).runs:
        for state, action in zip(run.states, run.actions, strict=False):
            if action is not None:
                wrong = rng.random() < mistakes
                rows.append([float(state[name]) for name in task.variables])
                actions.append(rng.randrange(len(task.labels)) if wrong else task.labels.index(action))
    for label in range(len(task.labels)):  # every label must be seen once
        rows.append(rows[0])
        actions.append(label)
    wanted = {"objective": "multi:softprob", "num_class": len(task.labels), "max_depth": 5, "seed": seed, "nthread": 1}
    return xgboost.train(wanted, xgboost.DMatrix(np.array(rows), label=np.array(actions)), num_boost_round=rounds)


def main() -> None:
    """Tell the story."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=40, help="of the expert")
    parser.add_argument("--mistakes", type=float, default=0.3)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--starts", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path, default=Path("out/xgboost"))
    options = parser.parse_args()
    task = polvet.load(TASK)
    policy = task.policy(learn(task, options.runs, options.mistakes, options.rounds, options.seed))
    campaign = policy.debug(options.output / "campaign", starts=options.starts, runs=3, seed=options.seed)
    for row in campaign.iterations:
        print(f"after {row['iteration']} repairs: %Unsafe {row['unsafe_percent']:.2f}, %Goal {row['goal_percent']:.2f}")
    print("outcome:", campaign.outcome)
    if campaign.certificate is not None:
        print("checker:", polvet.certify(campaign, task, campaign.policy))
    campaign.policy.object.save_model(options.output / "repaired.json")  # a Booster went in, a Booster comes out
    print("report:", campaign.report(options.output / "report.html"))


if __name__ == "__main__":
    main()
