"""Write a world of one's own in Python, vet a hand-written policy on it, and train in it as a Gymnasium environment.

The world: a drone flies between the ground and the ceiling, and gusts of wind push it. Run: python examples/own_world.py
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from polvet.jani.write import dump_model
from polvet.model.build import ModelBuilder
from polvet.model.task import Task
from polvet.model.terms import every
from polvet.policy.binding import load_fitted
from polvet.policy.compiled import compile_policy
from polvet.shield.gym import model_env
from polvet.sources import load_task
from polvet.verify.portfolio import verify

TASK = """model = "drone.jani"
start = "height >= 2 && height <= ceiling - 2 && speed == 0 && far == 0"
fail = "height <= 0 || height >= ceiling"
goal = "far == 12"
"""
CAREFUL = [("height + 2 * speed <= 4", "up"), ("height + 2 * speed >= 8", "down"), ("true", "hold")]
CARELESS = [("height <= 3", "up"), ("height >= 9", "down"), ("true", "hold")]


def world() -> ModelBuilder:
    """Return the model: each step the drone thrusts, the wind blows or not, and it gets on."""
    m = ModelBuilder("drone")
    ceiling = m.constant("ceiling", 12)
    height = m.int("height", -4, 16, initial=6)
    speed = m.int("speed", -2, 2, initial=0)
    far = m.int("far", 0, 12, initial=0)
    flying = every(height > 0, height < ceiling, far < 12)
    for label, thrust in (("down", -1), ("hold", 0), ("up", 1)):
        new = speed + thrust
        for gust in (-1, 0, 1):
            moved = height + new + gust
            guard = every(flying, new >= -2, new <= 2)
            m.edge(label, guard=guard, to={height: moved, speed: new, far: far + 1})
    return m


def main() -> None:
    """Tell the story."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=Path("out/drone"))
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "drone.jani").write_text(dump_model(world().build()))
    (folder / "drone.toml").write_text(TASK)
    task = load_task(folder / "drone.toml")
    for name, rules in (("careless", CARELESS), ("careful", CAREFUL)):
        file = folder / f"{name}.json"
        rows = [{"when": when, "action": action} for when, action in rules]
        file.write_text(json.dumps({"format": "rules/1", "rules": rows}))
        found = verify(compile_policy(load_fitted(task, file)))
        print(f"{name}: {found.verdict.value}")
        if found.verdict.value == "unsafe":
            names = [variable.name for variable in task.network.variables]
            for state, action in zip(found.run.states, (*found.run.actions, "fails"), strict=True):
                print("  ", dict(zip(names, state, strict=True)), action)
    print("a random pilot crashed in", sum(fly_at_random(task, seed) for seed in range(100)), "of 100 flights")


def fly_at_random(task: Task, seed: int) -> bool:
    """Return whether a pilot who presses random buttons crashes: the same world, as a Gymnasium environment."""
    env = model_env(task, max_steps=50)
    _, info = env.reset(seed=seed)
    env.action_space.seed(seed)
    while True:
        _, _, ended, cut, info = env.step(env.action_space.sample())
        if ended or cut:
            return bool(info.get("fail"))


if __name__ == "__main__":
    main()
