"""Random qualitative numeric planning problems, as .qnp text, and all policies of a problem, one after the other."""

from __future__ import annotations

import random


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


def every_policy(arena):
    """Yield all policies that stop in the goal only, as choices by node, in the order in which nodes are reached."""
    chosen: dict[int, int] = {}
    reached = [node for node in dict.fromkeys(arena.starts) if node not in arena.goals]
    frames: list[tuple[int, list[int], int]] = []
    while True:
        if len(frames) < len(reached):
            node = reached[len(frames)]
            frames.append((node, list(reversed(arena.choices[node])), len(reached)))
        else:
            yield dict(chosen)
        while frames:
            node, options, before = frames[-1]
            chosen.pop(node, None)
            del reached[before:]
            if options:
                choice = chosen[node] = options.pop()
                known = {*reached, *arena.goals}
                reached += [one for one in dict.fromkeys(arena.options[choice].outcomes) if one not in known]
                break
            frames.pop()
        else:
            return
