"""Q-tables from Gymnasium, debugged in the model, then run in the real environment: failures in so many episodes, before and after.

A table is learned for five episodes (too few to be good; the first seed whose table has a fault), debugged by polvet until it is safe
or cannot be, and both are run in the environment itself, seeds 0, 1, ... The certificate is checked by the independent checker.
On slippery ice safety may cost the goal: debugging says so (`outcome`). What can be claimed of a table that does come there is its risk:
polvet's interval, a certificate that it is at most the bound that this rounds up to (or that it is above), and how many episodes of the
real environment fail, with the interval (Clopper and Pearson, 99.9%) in which their probability must lie; episodes that have not ended
after thousands of steps count as failures at its upper end. So for the learned table and for the best one.
Environments without a table (MiniGrid, one of our own) are visited; tables are over what `state` says.
    python -m benchmarks.gym_repairs [WORLD ...] [--episodes 10000] [-o benchmarks/results/gym-repairs.json]
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from scipy.stats import beta

import polvet
import polvet.worlds.gym
from polvet.kernel.compiled import Compiled

RESULTS = Path(__file__).resolve().parent / "results"
ENDLESS = 2_000
"""Episodes whose risk is compared run for so many steps; those that have not ended by then may still fail."""
WORLDS: dict[str, dict[str, Any]] = {
    "FrozenLake-v1": {"is_slippery": False},
    "FrozenLake-v1 8x8": {"map_name": "8x8", "is_slippery": False},
    "CliffWalking-v1": {},
    "Taxi-v4": {},
    "FrozenLake-v1 slippery": {"is_slippery": True},
    "FrozenLake-v1 8x8 slippery": {"map_name": "8x8", "is_slippery": True},
}
FAILS = {"FrozenLake": lambda reward, ended: ended and reward == 0, "CliffWalking": lambda reward, ended: reward == -100,
         "Taxi": lambda reward, ended: reward == -10}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Visited:
    """An environment without a table: how it is made, what its state is, which steps fail, what its chance is compared with."""

    make: Callable[[], Any]
    state: Callable[[Any], dict[str, int]]
    fail: Callable[[Any, float, bool, Any], bool]
    cuts: tuple[float, ...] = ()


class Ledge(gymnasium.Env[int, int]):
    """A walk along a ledge of eight steps: running may slip (one in four), and slipping on the wet middle falls."""

    observation_space, action_space = gymnasium.spaces.Discrete(9), gymnasium.spaces.Discrete(2)

    def __init__(self) -> None:
        self.place, self.fallen = 0, False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Go back to the beginning."""
        super().reset(seed=seed)
        self.place, self.fallen = 0, False
        return self.place, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Walk (0) or run (1)."""
        slips = action == 1 and self.np_random.random() < 0.25
        self.fallen = slips and 3 <= self.place <= 5
        self.place = min(8, self.place + (0 if slips else 1 + action))
        return self.place, float(self.place == 8), self.fallen or self.place == 8, False, {}


def minigrid(name: str) -> Callable[[], Any]:
    """Return how the environment of this id is made; what it sees is drawn once only, since tables read `grid_state`."""

    def make() -> Any:
        env = polvet.worlds.gym.make_env(name, {})
        seen, _ = env.reset(seed=0)
        env.unwrapped.gen_obs = lambda: seen
        return env

    return make


def grid_state(env: Any) -> dict[str, int]:
    """Return where the agent of a MiniGrid is, where it looks, and where the gap in the lava is (0: nowhere)."""
    inner = env.unwrapped
    x, y = inner.agent_pos
    lava = [k for k, cell in enumerate(inner.grid.grid) if cell is not None and cell.type == "lava"]
    return {"x": int(x), "y": int(y), "direction": int(inner.agent_dir), "lava": sum(lava)}


def in_lava(state: Any, reward: float, ended: bool, info: Any) -> bool:
    """Return whether the step ended in lava: only there an episode ends without a reward."""
    return ended and reward == 0


VISITED = {
    "MiniGrid-LavaGapS5-v0": Visited(minigrid("MiniGrid-LavaGapS5-v0"), grid_state, in_lava),
    "MiniGrid-DistShift1-v0": Visited(minigrid("MiniGrid-DistShift1-v0"), grid_state, in_lava),
    "Ledge (own)": Visited(
        Ledge, lambda env: {"place": env.unwrapped.place, "fallen": int(env.unwrapped.fallen)}, in_lava, (0.25,)
    ),
}


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


def failures(env: Any, actions: list[int], fails: Any, episodes: int, steps: int = 100) -> int:
    """Return how many episodes fail when the real environment is steered by the table."""
    return episodes_of(env, actions, fails, episodes, steps)[0]


def episodes_of(env: Any, actions: list[int], fails: Any, episodes: int, steps: int) -> tuple[int, int]:
    """Return how many episodes fail, and how many have not ended after so many steps."""
    count = going = 0
    for episode in range(episodes):
        state, _ = env.reset(seed=episode)
        for _ in range(steps):
            state, reward, ended, cut, _ = env.step(actions[state])
            if fails(reward, ended):
                count += 1
                break
            if ended or cut:
                break
        else:
            going += 1
    return count, going


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
    if arguments.get("is_slippery"):
        return slippery_row(name, arguments, env, task, episodes)
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


def slippery_row(name: str, arguments: dict[str, Any], env: Any, task: Any, episodes: int) -> dict[str, Any]:
    """Judge tables that come to the goal by their risk; debug the learned one."""
    table = learned(env, 20_000, np.random.default_rng(0))
    policy = task.policy({state: scores.tolist() for state, scores in enumerate(table)})
    faults, campaign = policy.faults(), policy.debug(tempfile.mkdtemp())
    after = [task.labels.index(campaign.policy.object[state]) for state in range(len(table))]
    endless = gymnasium.make("FrozenLake-v1", max_episode_steps=10**6, **arguments)
    fails = FAILS["FrozenLake"]
    return {
        "world": name, "states": task.explore().states, "faults": len(faults.faults), "verdict": campaign.verdict.value,
        "outcome": campaign.outcome, "reason": campaign.reason,
        "certificate": "accepted" if polvet.certify(campaign.policy.verify(), task, campaign.policy).accepted else "rejected",
        "failures_before": failures(env, table.argmax(axis=1).tolist(), fails, episodes),
        "failures_after": failures(env, after, fails, episodes), "episodes": episodes,
        "learned": risk_of(task, endless, table.argmax(axis=1).tolist(), episodes),
        "best": risk_of(task, endless, best_actions(endless.unwrapped.P), episodes),
    }  # fmt: skip


def visited_row(name: str, episodes: int) -> dict[str, Any]:
    """Learn, debug, certify and run a table over what `state` says, in an environment without a table of its own."""
    visited = VISITED[name]
    env = visited.make()
    task = polvet.from_gym(env, state=visited.state, cuts=visited.cuts, fail=visited.fail)
    compiled = Compiled(task.model_task.network)
    space = compiled.explore()
    places = [task.variables.index(one) for one in task.model_task.reading.inputs or ()]
    keys = {tuple(int(state[k]) for k in places) for state in compiled.unpack(space.states(0, len(space)))}

    def key() -> tuple[int, ...]:
        named = visited.state(env)
        return tuple(int(named[one]) for one in task.model_task.reading.inputs or ())

    def failing(actions: Mapping[tuple[int, ...], int]) -> int:
        count = 0
        for episode in range(episodes):
            env.reset(seed=episode)
            for _ in range(100):
                _, reward, ended, cut, info = env.step(actions[key()])
                if visited.fail(visited.state(env), float(reward), ended, info):
                    count += 1
                if ended or cut:
                    break
        return count

    for seed in range(100):
        rng = np.random.default_rng(seed)
        table = {one: -1e-3 * rng.random(len(task.labels)) for one in sorted(keys)}
        for episode in range(5):
            env.reset(seed=episode)
            for _ in range(100):
                here, action = key(), int(rng.integers(len(task.labels)))
                _, reward, ended, cut, _ = env.step(action)
                onward = 0.0 if ended else 0.95 * float(table[key()].max())
                table[here][action] += 0.5 * (float(reward) + onward - table[here][action])
                if ended or cut:
                    break
        policy = task.policy({one: scores.tolist() for one, scores in table.items()})
        faults = policy.faults()
        if faults.faults:
            break
    campaign = policy.debug(tempfile.mkdtemp())
    after = {one: task.labels.index(campaign.policy.object[one]) for one in keys}
    accepted = polvet.certify(campaign.policy.verify(), task, campaign.policy).accepted
    return {
        "world": name,
        "seed": seed,
        "states": len(space),
        "faults": len(faults.faults),
        "verdict": campaign.verdict.value,
        "outcome": campaign.outcome,
        "certificate": "accepted" if accepted else "rejected",
        "failures_before": failing({one: int(scores.argmax()) for one, scores in table.items()}),
        "failures_after": failing(after),
        "episodes": episodes,
    }


def best_actions(rows: Any) -> list[int]:
    """Return actions that reach the goal as often as can be, by value iteration; of equally good ones those that end soonest."""
    values = np.zeros(len(rows))
    for _ in range(20_000):
        each = [[sum(p * (r + (not end) * values[t]) for p, t, r, end in rows[s][a]) for a in rows[s]] for s in rows]
        after = np.array([max(one) for one in each])
        if np.abs(after - values).max() < 1e-14:
            break
        values = after
    good = [{a for a, value in enumerate(one) if value > max(one) - 1e-9} for one in each]
    steps = np.zeros(len(rows))
    for _ in range(20_000):
        times = [{a: 1 + sum(p * (not end) * steps[t] for p, t, _, end in rows[s][a]) for a in good[s]} for s in rows]
        steps = np.array([min(one.values()) for one in times])
    return [min(one, key=one.__getitem__) for one in times]


def risk_of(task: Any, env: Any, actions: list[int], episodes: int) -> dict[str, Any]:
    """Return polvet's interval for the risk, whether its certificate is accepted, and the failures of the real environment."""
    policy = task.policy({state: task.labels[action] for state, action in enumerate(actions)})
    figures = policy.verify(probability=True).figures
    bound = f"{min(max(math.ceil(figures['probability_upper'] * 10**6), 1), 10**6 - 1)}/{10**6}"
    proof = policy.verify(max_risk=bound)
    count, going = episodes_of(env, actions, FAILS["FrozenLake"], episodes, ENDLESS)
    failed = count + going  # at most
    least = float(beta.ppf(0.0005, count, episodes - count + 1)) if count else 0.0
    most = float(beta.ppf(0.9995, failed + 1, episodes - failed)) if failed < episodes else 1.0
    return {
        "risk": [figures["probability_lower"], figures["probability_upper"]], "bound": bound, "verdict": proof.verdict.value,
        "certificate": "accepted" if polvet.certify(proof, task, policy).accepted else "rejected",
        "failures": count, "not_ended": going, "interval": [round(least, 4), round(most, 4)],
        "agrees": least <= figures["probability_upper"] and figures["probability_lower"] <= most,
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
    for name in given.worlds or (*WORLDS, *VISITED):
        one = visited_row(name, given.episodes) if name in VISITED else row(name, WORLDS[name], given.episodes)
        rows = [other for other in rows if other["world"] != name] + [one]
        print(json.dumps(rows[-1]), flush=True)
        given.output.write_text(json.dumps({"rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
