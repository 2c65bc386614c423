"""Q-tables from Gymnasium, debugged in the model, then run in the real environment: failures in so many episodes, before and after.

A table is learned for five episodes (too few to be good; the first seed whose table has a fault), debugged by polvet until it is safe
or cannot be, and both are run in the environment itself, seeds 0, 1, ... The certificate is checked by the independent checker.
    python -m benchmarks.gym_repairs [WORLD ...] [--episodes 10000] [-o benchmarks/results/gym-repairs.json]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import warnings
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import polvet

RESULTS = Path(__file__).resolve().parent / "results"
WORLDS: dict[str, dict[str, Any]] = {
    "FrozenLake-v1": {"is_slippery": False},
    "FrozenLake-v1 8x8": {"map_name": "8x8", "is_slippery": False},
    "CliffWalking-v1": {},
    "Taxi-v4": {},
}
FAILS = {"FrozenLake": lambda reward, ended: ended and reward == 0, "CliffWalking": lambda reward, ended: reward == -100,
         "Taxi": lambda reward, ended: reward == -10}  # fmt: skip


def learned(env: Any, episodes: int, rng: np.random.Generator) -> np.ndarray:
    """Return a table of values after so many episodes of Q-learning."""
    table = -1e-3 * rng.random((env.observation_space.n, env.action_space.n))
    for episode in range(episodes):
        state, _ = env.reset(seed=episode)
        for _ in range(100):
            action = int(rng.integers(env.action_space.n)) if rng.random() < 0.3 else int(table[state].argmax())
            after, reward, ended, cut, _ = env.step(action)
            table[state, action] += 0.5 * (reward + 0.95 * (not ended) * table[after].max() - table[state, action])
            state = after
            if ended or cut:
                break
    return table


def failures(env: Any, actions: list[int], fails: Any, episodes: int) -> int:
    """Return how many episodes fail when the real environment is steered by the table."""
    count = 0
    for episode in range(episodes):
        state, _ = env.reset(seed=episode)
        for _ in range(100):
            state, reward, ended, cut, _ = env.step(actions[state])
            if fails(reward, ended):
                count += 1
                break
            if ended or cut:
                break
    return count


def row(name: str, arguments: dict[str, Any], episodes: int) -> dict[str, Any]:
    """Learn, debug, certify, and run both tables."""
    identity = name.partition(" ")[0]
    env = gymnasium.make(identity, **arguments)
    fails = FAILS[identity.partition("-")[0]]
    task = polvet.from_gym(env)
    for seed in range(100):
        table = learned(env, 5, np.random.default_rng(seed))
        policy = task.policy({state: scores.tolist() for state, scores in enumerate(table)})
        faults = policy.faults()
        if faults.faults:
            break
    campaign = policy.debug(tempfile.mkdtemp())
    after = [task.labels.index(campaign.policy.object[state]) for state in range(len(table))]
    result = campaign.policy.verify()
    accepted = polvet.certify(result, task, campaign.policy).accepted
    return {
        "world": name, "seed": seed, "states": task.explore().states, "faults": len(faults.faults), "verdict": campaign.verdict.value,
        "certificate": "accepted" if accepted else "rejected",
        "failures_before": failures(env, table.argmax(axis=1).tolist(), fails, episodes),
        "failures_after": failures(env, after, fails, episodes), "episodes": episodes,
    }  # fmt: skip


def main() -> None:
    """Run all worlds and write the results."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("worlds", nargs="*", help="the worlds whose rows are measured anew (absent: all)")
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "gym-repairs.json")
    given = parser.parse_args()
    rows = (
        json.loads(given.output.read_text(encoding="utf-8"))["rows"] if given.worlds and given.output.exists() else []
    )
    for name in given.worlds or WORLDS:
        rows = [one for one in rows if one["world"] != name] + [row(name, WORLDS[name], given.episodes)]
        print(json.dumps(rows[-1]), flush=True)
        given.output.write_text(json.dumps({"rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
