"""Plans to test with: the published ones, random ones, and slow oracles that share nothing with the engine."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import z3

from polvet.policy.finite_memory import Builder, FiniteMemoryPolicy

BENCHMARKS = Path(__file__).resolve().parents[3] / "shared" / "benchmarks"


def random_plan(rng: random.Random, *, states: tuple[int, int] = (3, 12), variables: tuple[int, int] = (1, 7),
                lowest: int = -3, highest: int = 3, bounds: bool = False) -> FiniteMemoryPolicy:  # fmt: skip
    """Return a random plan: every control state has an edge, an edge changes one or two variables."""
    size, count = rng.randint(*states), rng.randint(*variables)
    builder = Builder("q0")
    for index in range(count):
        lower, upper = rng.choice([(0, None), (0, None), (2, None), (None, 5)]) if bounds else (0, None)
        builder.variable(f"x{index}", lower, upper)
    for number in range(rng.randint(size, 2 * size)):
        source = number if number < size else rng.randrange(size)
        chosen = rng.sample(range(count), min(count, rng.randint(1, 2)))
        effects = {f"x{index}": rng.randint(lowest, highest) for index in chosen}
        builder.edge(f"q{source}", f"q{rng.randrange(size)}", effects)
    return builder.build()


def iter_plans(seed: int, count: int, **options: object) -> Iterator[FiniteMemoryPolicy]:
    """Yield random plans; every third has few increases, so that both verdicts are common."""
    rng = random.Random(seed)
    for number in range(count):
        yield random_plan(rng, **{"highest": (1, 2, 3)[number % 3], **options})  # type: ignore[arg-type]


def reachable(fmp: FiniteMemoryPolicy) -> set[str]:
    found, agenda = set(fmp.initial), list(fmp.initial)
    while agenda:
        here = agenda.pop()
        for edge in fmp.edges:
            if edge.source == here and edge.target not in found:
                found.add(edge.target)
                agenda.append(edge.target)
    return found


def sustains_by_z3(fmp: FiniteMemoryPolicy) -> bool:
    """Return whether a connected circulation lowers no counter, as one formula: flow, effects, and a search tree."""
    alive = reachable(fmp)
    edges = [edge for edge in fmp.edges if edge.source in alive]
    flow = [z3.Real(f"f{index}") for index in range(len(edges))]
    level = {state: z3.Int(f"level_{state}") for state in alive}
    solver = z3.Solver()
    solver.add(*[f >= 0 for f in flow], z3.Sum(flow) >= 1)
    for state in alive:
        into = [flow[i] for i, edge in enumerate(edges) if edge.target == state]
        out = [flow[i] for i, edge in enumerate(edges) if edge.source == state]
        solver.add(z3.Sum([z3.RealVal(0), *into]) == z3.Sum([z3.RealVal(0), *out]))
        used = z3.Or([f > 0 for f in out]) if out else z3.BoolVal(False)
        nearer = [z3.And(flow[i] > 0, level[edge.source] < level[state])
                  for i, edge in enumerate(edges) if edge.target == state]  # fmt: skip
        solver.add(level[state] >= 0, z3.Implies(z3.And(used, level[state] > 0), z3.Or(nearer)))
    for first in alive:
        for second in alive:
            if first < second:
                both = [
                    z3.Or([f > 0 for i, f in enumerate(flow) if edges[i].source == state]) for state in (first, second)
                ]
                solver.add(z3.Not(z3.And(*both, level[first] == 0, level[second] == 0)))
    for variable in fmp.variables:
        net = z3.Sum([z3.RealVal(0)] + [
            flow[i] * (edge.choices[0].effects[variable.name].low or 0)
            for i, edge in enumerate(edges) if variable.name in edge.choices[0].effects])  # fmt: skip
        if variable.lower is not None:
            solver.add(net >= 0)
        if variable.upper is not None:
            solver.add(net <= 0)
    return bool(solver.check() == z3.sat)


def sustains_by_walks(fmp: FiniteMemoryPolicy, length: int, limit: int = 20_000) -> bool:
    """Return whether some closed walk of at most this length has an effect >= 0, by trying walk after walk."""
    names = [variable.name for variable in fmp.variables]
    for start in reachable(fmp):
        seen = {(start, (0,) * len(names))}
        layer = list(seen)
        for _ in range(length):
            following = []
            for here, total in layer:
                for edge in fmp.edges:
                    if edge.source != here:
                        continue
                    effects = edge.choices[0].effects
                    after = tuple(
                        t + (effects[n].low or 0 if n in effects else 0) for t, n in zip(total, names, strict=True)
                    )
                    if edge.target == start and min(after, default=0) >= 0:
                        return True
                    if (edge.target, after) not in seen and len(seen) < limit:
                        seen.add((edge.target, after))
                        following.append((edge.target, after))
            layer = following
    return False
