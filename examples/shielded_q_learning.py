"""Learn with tables under a shield: no step of learning breaks the bound, whatever the learner tries. No library is needed.

The world: cross a grid past a janitor who moves as he likes. Run: python examples/shielded_q_learning.py --episodes 3000
"""

from __future__ import annotations

import argparse
import random
from fractions import Fraction

from polvet.domains.catalogue import generate
from polvet.kernel.starts import Starts
from polvet.model.semantics import Semantics, State
from polvet.model.task import Task, state_to_names
from polvet.shield import Permitted, Shield, build_world, make_shield, permit


def learn(task: Task, shield: Shield | None, episodes: int, seed: int) -> tuple[int, int]:
    """Return how many episodes of Q-learning failed and how many reached the goal; a shield masks the actions."""
    semantics, rng = Semantics(task.network), random.Random(seed)
    is_fail, is_goal = semantics.compile(task.fail), semantics.compile(task.goal)
    values: dict[tuple[State, str], float] = {}
    failed = reached = 0

    def choices(state: State) -> list[str]:
        known = list(dict.fromkeys(move.label for move in semantics.moves(state) if move.label is not None))
        if shield is None:
            return known
        allowed = shield.allowed(state_to_names(task.network, state))
        return [label for label in known if label in allowed]

    (start,) = Starts.of(task).sample(1, rng)
    for _ in range(episodes):
        state = start
        for _ in range(40):
            possible = choices(state)
            if not possible:
                break
            best = max(possible, key=lambda label: (values.get((state, label), 0.0), rng.random()))
            action = rng.choice(possible) if rng.random() < 0.2 else best
            outcomes = [one for move in semantics.moves(state) if move.label in (action, None) for one in move.outcomes]
            (after,) = rng.choices([one.state for one in outcomes], [float(one.probability) for one in outcomes])
            reward = -10.0 if is_fail(after) else 10.0 if is_goal(after) else -0.1
            ended = is_fail(after) or is_goal(after)
            future = 0.0 if ended else max((values.get((after, one), 0.0) for one in choices(after)), default=0.0)
            old = values.get((state, action), 0.0)
            values[state, action] = old + 0.2 * (reward + 0.95 * future - old)
            failed += is_fail(after)
            reached += is_goal(after) and not is_fail(after)
            if ended:
                break
            state = after
    return failed, reached


def main() -> None:
    """Print both counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=3000)
    parser.add_argument("--bound", type=Fraction, default=Fraction(0))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    task = generate("janitor", width=4, height=4).task()
    world = build_world(task)
    found = permit(world, options.bound)
    if not isinstance(found, Permitted):
        raise SystemExit(f"no shield keeps the bound {options.bound}: at least {float(found.lower):.4f} is needed")
    shield = make_shield(task, world, found, options.bound)
    for name, used in (("without a shield", None), ("with the shield", shield)):
        failed, reached = learn(task, used, options.episodes, options.seed)
        print(f"{name}: {failed} of {options.episodes} episodes failed, {reached} reached the goal")


if __name__ == "__main__":
    main()
