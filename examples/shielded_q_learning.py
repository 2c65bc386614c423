"""Learn with tables under a shield: no step of learning breaks the bound, whatever the learner tries.

The world: cross a grid past a janitor who moves as he likes. Run: python examples/shielded_q_learning.py --episodes 3000
"""

from __future__ import annotations

import argparse
import random
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import polvet
from polvet.domains.catalogue import generate


def learn(env: Any, episodes: int, seed: int) -> tuple[int, int]:
    """Return how many episodes of Q-learning failed and how many reached the goal; the environment masks the actions."""
    rng = random.Random(seed)
    values: dict[tuple[bytes, int], float] = {}
    failed = reached = 0

    def best(place: bytes) -> tuple[float, int]:
        free = [action for action, allowed in enumerate(env.action_masks()) if allowed]
        return max((values.get((place, action), 0.0), rng.random(), action) for action in free)[::2]

    for episode in range(episodes):
        observation, info = env.reset(seed=seed + episode)
        ended = False
        while not ended:
            place = observation.tobytes()
            free = [action for action, allowed in enumerate(env.action_masks()) if allowed]
            action = rng.choice(free) if rng.random() < 0.2 else best(place)[1]
            observation, reward, over, cut, info = env.step(action)
            ended = over or cut
            future = 0.0 if ended else best(observation.tobytes())[0]
            old = values.get((place, action), 0.0)
            values[place, action] = old + 0.2 * (reward - 0.01 + 0.95 * future - old)
        failed += bool(info.get("fail"))
        reached += bool(info.get("goal"))
    return failed, reached


def main() -> None:
    """Print both counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=3000)
    parser.add_argument("--bound", type=Fraction, default=Fraction(0))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        _, file = generate("janitor", width=4, height=4).write(Path(folder) / "janitor.jani")
        task = polvet.load(file)
    shield = task.permit(bound=options.bound)
    if not isinstance(shield, polvet.Shield):
        raise SystemExit(f"no shield keeps the bound {options.bound}: {shield.reason}")
    env = task.env(max_steps=40)
    for name, world in (("without a shield", env), ("with the shield", shield.wrap(env))):
        failed, reached = learn(world, options.episodes, options.seed)
        print(f"{name}: {failed} of {options.episodes} episodes failed, {reached} reached the goal")


if __name__ == "__main__":
    main()
