"""Train MaskablePPO under a shield: count the failures of all training steps, with and without the shield.

The world: a robot slips on ice. `fast` may slip into the hole, `slow` never does; the shield is computed with bound 0,
so under it no step of training ever fails. Run: python examples/shielded_ppo.py --steps 20000
"""

from __future__ import annotations

import argparse
from fractions import Fraction
from typing import Any

import polvet


def ice(length: int = 12) -> polvet.Task:
    """Return a task: walk along the ice; near the holes at every third place `fast` slips into one."""
    m = polvet.ModelBuilder("ice")
    x = m.int("x", 0, length, initial=0)
    hole = m.bool("hole", initial=False)
    walking = (x < length) & ~hole
    m.edge("slow", guard=walking, to=[(Fraction(1, 2), {x: x + 1}), (Fraction(1, 2), {})])
    m.edge("fast", guard=walking & (x % 3 != 2), to={x: x + 1})
    m.edge("fast", guard=walking & (x % 3 == 2), to=[(Fraction(4, 5), {x: x + 1}), (Fraction(1, 5), {hole: True})])
    return polvet.load(m, fail="hole", goal=f"x == {length} && !hole")


def train(env: Any, steps: int, seed: int) -> int:
    """Train on the environment and return how many of the steps failed."""
    from sb3_contrib import MaskablePPO
    from stable_baselines3.common.callbacks import BaseCallback

    class CountFailures(BaseCallback):
        failures = 0

        def _on_step(self) -> bool:
            self.failures += sum(bool(info.get("fail")) for info in self.locals["infos"])
            return True

    counter = CountFailures()
    agent = MaskablePPO("MlpPolicy", env, n_steps=256, batch_size=64, seed=seed, device="cpu", verbose=0)
    agent.learn(total_timesteps=steps, callback=counter)
    return counter.failures


def main() -> None:
    """Print both counts."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    task = ice()
    shield = task.permit(bound=0)
    if not isinstance(shield, polvet.Shield):
        raise SystemExit("the world cannot be crossed safely")
    free = train(task.env(max_steps=200), options.steps, options.seed)
    shielded = train(shield.wrap(task.env(max_steps=200)), options.steps, options.seed)
    print(f"steps of training {options.steps}: failures without a shield {free}, with the shield {shielded}")


if __name__ == "__main__":
    main()
