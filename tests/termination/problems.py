"""Random qualitative numeric planning problems, as .qnp text, and whether a policy without memory solves them, by brute force."""

from __future__ import annotations

import random
from itertools import product


def random_problem(seed: int, numbers: int | None = None, booleans: int | None = None) -> str:
    """Return a problem whose goal is that all numbers are 0; actions lower one, may raise others, and ask for booleans."""
    draw = random.Random(seed)
    names = [f"n{i}" for i in range(numbers or draw.randint(2, 4))]
    flags = [f"p{i}" for i in range(draw.randint(1, 3) if booleans is None else booleans)]
    actions = []

    def action(needs: dict[str, int], does: dict[str, int]) -> None:
        pairs = [" ".join([str(len(some)), *(f"{k} {v}" for k, v in some.items())]) for some in (needs, does)]
        actions.append("\n".join([f"a{len(actions)}", *pairs]))

    for name in names:
        for _ in range(draw.randint(1, 2)):
            needs = {name: 1, **{flag: draw.randint(0, 1) for flag in flags if draw.random() < 0.6}}
            does = {name: 0, **{other: 1 for other in names if other != name and draw.random() < 0.35}}
            action(needs, does | {flag: draw.randint(0, 1) for flag in flags if draw.random() < 0.4})
    for flag in flags:
        for value in (0, 1):
            needs = {flag: 1 - value, **{n: draw.randint(0, 1) for n in names if draw.random() < 0.2}}
            action(needs, {flag: value, **{n: 1 for n in names if draw.random() < 0.25}})
    features = " ".join([str(len(names + flags)), *(f"{n} 1" for n in names), *(f"{p} 0" for p in flags)])
    start = " ".join(
        [str(len(names + flags)), *(f"{n} 1" for n in names), *(f"{p} {draw.randint(0, 1)}" for p in flags)]
    )
    goal = " ".join([str(len(names)), *(f"{n} 0" for n in names)])
    return "\n".join([f"random{seed}", features, start, goal, str(len(actions)), *actions]) + "\n"


def is_solvable(arena, ends) -> bool:
    """Return whether some choice for every node makes a policy that stops in the goal only and ends; all are tried."""
    free = [node for node in range(len(arena.nodes)) if arena.choices[node]]
    for some in product(*(arena.choices[node] for node in free)):
        chosen = dict(zip(free, some, strict=True))
        reached = list(dict.fromkeys(arena.starts))
        for node in reached:
            if node in chosen:
                reached += [n for n in dict.fromkeys(arena.options[chosen[node]].outcomes) if n not in reached]
        if all(n in arena.goals or n in chosen for n in reached) and ends([chosen[n] for n in reached if n in chosen]):
            return True
    return False
