"""Train a policy with XGBoost on a careless expert's runs, find its faults, repair it, prove it, and check the proof.

The world: a truck collects packages along a line and must stop before its end. The expert presses a wrong button now and
then, and the policy learns that, too. Run: python examples/debug_xgboost.py --starts 2000 -o out/xgboost
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

import numpy as np

from polvet import domains
from polvet.campaign.loop import debug
from polvet.campaign.settings import Settings
from polvet.check.checker import Subjects, check_file
from polvet.kernel.starts import Starts
from polvet.policy.binding import load_fitted
from polvet.policy.compiled import compile_policy
from polvet.policy.runs import trace
from polvet.report import make_report
from polvet.sources import load_task

SHIPPED = Path(domains.__file__).parent / "policies"
TASK, EXPERT = SHIPPED / "one-way-line-8-5.toml", SHIPPED / "one-way-line-8-5-good.json"


def learn(output: Path, runs: int, mistakes: float, rounds: int, seed: int) -> None:
    """Fit XGBoost to states and actions of the expert's runs, some of them wrong, and save the model."""
    import xgboost

    task = load_task(TASK)
    expert = compile_policy(load_fitted(task, EXPERT))
    rng = random.Random(seed)
    rows: list[list[float]] = []
    actions: list[int] = []
    labels = list(task.network.labels)
    for number, start in enumerate(Starts.of(task).sample(runs, rng)):
        run = trace(expert, start, number, seed=seed)
        for state, action in zip(run.states, run.actions, strict=False):
            if action is not None:
                wrong = rng.random() < mistakes
                rows.append([float(value) for value in state])
                actions.append(rng.randrange(len(labels)) if wrong else labels.index(action))
    for label in range(len(labels)):  # every label must be seen once
        rows.append(rows[0])
        actions.append(label)
    data = xgboost.DMatrix(np.array(rows), label=np.array(actions))
    wanted = {"objective": "multi:softprob", "num_class": len(labels), "max_depth": 5, "seed": seed, "nthread": 1}
    model = xgboost.train(wanted, data, num_boost_round=rounds)
    inputs = [variable.name for variable in task.network.variables if not variable.is_location]
    model.set_attr(**{"polvet.inputs": json.dumps(inputs), "polvet.outputs": json.dumps(labels)})
    output.parent.mkdir(parents=True, exist_ok=True)
    model.save_model(output)


def main() -> None:
    """Tell the story."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=150, help="of the expert")
    parser.add_argument("--mistakes", type=float, default=0.3)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--starts", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path, default=Path("out/xgboost"))
    options = parser.parse_args()
    policy = options.output / "policy.json"
    learn(policy, options.runs, options.mistakes, options.rounds, options.seed)
    settings = Settings(starts=options.starts, runs=3, seed=options.seed)
    found = debug(load_task(TASK), policy, options.output / "campaign", settings)
    for record in found.records:
        if record["step"] == "evaluate":
            figures = record["figures"]
            print(
                f"after {record['iteration']} repairs: %Unsafe {figures['unsafe_percent']:.2f}, %Goal {figures['goal_percent']:.2f}"
            )
    print(f"outcome: {found.outcome.value} ({found.faults} faults, {found.iterations} repairs)")
    if found.certificate is not None:
        print("checker:", check_file(found.certificate, Subjects(TASK, found.policy)))
    report = options.output / "report.html"
    report.write_text(make_report(options.output / "campaign"))
    print("report:", report)


if __name__ == "__main__":
    main()
