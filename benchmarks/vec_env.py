"""Training environments: steps per CPU second of FrozenLake in the kernel, in a loop over Gymnasium's, and in a DummyVecEnv.

All take the same random actions and begin new episodes where one ends; side by side in one run, the best of three.
    python -m benchmarks.vec_env [-o benchmarks/results/vec-env.json]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from stable_baselines3.common.vec_env import DummyVecEnv

import polvet

RESULTS = Path(__file__).resolve().parent / "results"
WORLD = "FrozenLake-v1"
LANES = 1024
PLAN = np.random.default_rng(0).integers(0, 4, (64, LANES))


def rate(work: Callable[[int], int], rounds: int) -> float:
    """Return the steps per CPU second of the best of three goes."""
    best = 0.0
    for _ in range(3):
        begun = time.process_time()
        steps = sum(work(one) for one in range(rounds))
        best = max(best, steps / (time.process_time() - begun))
    return best


def sides() -> dict[str, tuple[Callable[[int], int], int]]:
    """Return each side: what one round does, and how many rounds are measured."""
    task = polvet.load(f"gym:{WORLD}")
    vector, lanes, single = task.vec_env(LANES), task.vec_env(LANES, sb3=True), gymnasium.make(WORLD)
    dummy = DummyVecEnv([lambda: gymnasium.make(WORLD) for _ in range(64)])
    for one in (vector, lanes, single, dummy):
        one.reset()

    def loop(number: int) -> int:
        for action in PLAN[number % 64].tolist():
            _, _, ended, cut, _ = single.step(action)
            if ended or cut:
                single.reset()
        return LANES

    def batch(env: Any, width: int) -> Callable[[int], int]:
        def one(number: int) -> int:
            env.step(PLAN[number % 64, :width])
            return width

        return one

    return {
        f"vec_env({LANES})": (batch(vector, LANES), 1_000),
        f"vec_env({LANES}, sb3=True)": (batch(lanes, LANES), 300),
        "loop over a Gymnasium environment": (loop, 20),
        "DummyVecEnv of 64": (batch(dummy, 64), 200),
    }


def main() -> None:
    """Measure all sides and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "vec-env.json")
    given = parser.parse_args()
    rates = {name: rate(*side) for name, side in sides().items()}
    loop, dummy = list(rates.values())[2:]
    rows = [
        {"side": name, "steps_per_cpu_second": round(one), "times_loop": round(one / loop, 1), "times_dummy": round(one / dummy, 1)}
        for name, one in rates.items()
    ]  # fmt: skip
    given.output.write_text(json.dumps({"world": WORLD, "rows": rows}, indent=1) + "\n", encoding="utf-8")
    lines = [
        "# Training environments: FrozenLake 4x4, slippery",
        "",
        "| side | steps per CPU second | times the loop | times DummyVecEnv |",
        "|---|---|---|---|",
        *(
            f"| {one['side']} | {one['steps_per_cpu_second']:,} | {one['times_loop']} | {one['times_dummy']} |"
            for one in rows
        ),
    ]
    given.output.with_suffix(".md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
