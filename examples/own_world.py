"""Write a world of one's own in Python, vet hand-written policies on it, and fly in it as a Gymnasium environment.

The world: a drone flies between the ground and the ceiling, and gusts of wind push it. Run: python examples/own_world.py
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polvet

Named = Mapping[str, Any]


def world() -> polvet.ModelBuilder:
    """Return the model: each step the drone thrusts, the wind blows or not, and it gets on."""
    m = polvet.ModelBuilder("drone")
    ceiling = m.constant("ceiling", 12)
    height = m.int("height", -4, 16, initial=6)
    speed = m.int("speed", -2, 2, initial=0)
    far = m.int("far", 0, 12, initial=0)
    flying = (height > 0) & (height < ceiling) & (far < 12)
    for label, thrust in (("down", -1), ("hold", 0), ("up", 1)):
        new = speed + thrust
        for gust in (-1, 0, 1):
            m.edge(
                label,
                guard=flying & (new >= -2) & (new <= 2),
                to={height: height + new + gust, speed: new, far: far + 1},
            )
    return m


def careless(state: Named) -> str:
    """Look at the height alone."""
    return "up" if state["height"] <= 3 else "down" if state["height"] >= 9 else "hold"


def careful(state: Named) -> str:
    """Look where the drone will be."""
    ahead = state["height"] + 2 * state["speed"]
    return "up" if ahead <= 4 else "down" if ahead >= 8 else "hold"


def main() -> None:
    """Tell the story."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=Path("out/drone"))
    folder = parser.parse_args().output
    task = polvet.load(
        world(),
        start="height >= 2 && height <= ceiling - 2 && speed == 0 && far == 0",
        fail="height <= 0 || height >= ceiling",
        goal="far == 12",
    )
    folder.mkdir(parents=True, exist_ok=True)
    task.save(folder / "drone.toml")
    for pilot in (careless, careful):
        result = task.policy(pilot).verify()
        print(f"{pilot.__name__}: {result.verdict.value}")
        if isinstance(result, polvet.Unsafe):
            for state, action in zip(result.run.states, (*result.run.actions, "fails"), strict=True):
                print("  ", dict(state), action)
    print("a random pilot crashed in", sum(fly_at_random(task, seed) for seed in range(100)), "of 100 flights")


def fly_at_random(task: polvet.Task, seed: int) -> bool:
    """Return whether a pilot who presses random buttons crashes: the same world, as a Gymnasium environment."""
    env = task.env(max_steps=50)
    _, info = env.reset(seed=seed)
    env.action_space.seed(seed)
    while True:
        _, _, ended, cut, info = env.step(env.action_space.sample())
        if ended or cut:
            return bool(info.get("fail"))


if __name__ == "__main__":
    main()
