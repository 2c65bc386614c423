"""Draw the pictures of docs/figures.md: plans of our own of the sizes and kinds of the paper's Figs. 2 to 13, each proved round by round.

`python -m docs.draw_figures` writes docs/figures/*.svg; `--search` looks for seeds anew. The published plans themselves have no licence
and are not copied; `python -m docs.draw_rounds FOLDER` draws a folder of them.
"""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from polvet.errors import LimitReached
from polvet.policy.finite_memory import Builder, FiniteMemoryPolicy, Multigraph, normalise
from polvet.report.rounds import plan_svg, rounds_of_trace
from polvet.termination.elimination import Chooser, first_vertex, lowest_remaining_height
from polvet.termination.gensieve import GenSieveTrace, gensieve
from polvet.termination.sieve import sieve
from polvet.termination.trace import trace_rounds

HERE = Path(__file__).resolve().parent / "figures"


@dataclass(frozen=True, slots=True)
class Figure:
    """A plan by its seed: control states, variables, edges besides a cycle through all, and the rounds that GenSieve takes."""

    name: str
    states: int
    variables: int
    more: int
    rounds: int
    seed: int


FIGURES = (
    Figure("fig-02-04", 9, 2, 8, 2, 49),
    Figure("fig-05", 4, 2, 4, 2, 66),
    Figure("fig-06", 5, 2, 4, 2, 20),
    Figure("fig-07", 6, 3, 5, 2, 3),
    Figure("fig-08", 7, 3, 5, 2, 2),
    Figure("fig-09", 8, 3, 6, 2, 13),
    Figure("fig-10", 10, 3, 7, 3, 557),
    Figure("fig-12-13", 10, 7, 9, 4, 794),
)
DEPENDENT = Figure("fig-11", 6, 2, 6, 1, 11)
CHOOSERS: dict[str, Chooser] = {"lowest": lowest_remaining_height, "first": first_vertex}
"""How elimination points are chosen."""


def plan_of(figure: Figure, seed: int) -> FiniteMemoryPolicy:
    """Return a strongly connected plan whose edges change one or two variables by small amounts."""
    rng = random.Random(seed)
    builder = Builder("q0")
    order = list(range(figure.states))
    rng.shuffle(order)
    pairs = [(order[i], order[(i + 1) % figure.states]) for i in range(figure.states)]
    pairs += [(rng.randrange(figure.states), rng.randrange(figure.states)) for _ in range(figure.more)]
    for source, target in sorted(set(pairs)):
        some = rng.sample(range(figure.variables), rng.choice([1, 1, 2]))
        builder.edge(f"q{source}", f"q{target}", {f"x{k}": rng.choice([-3, -2, -1, -1, 1, 2]) for k in some})
    return builder.build()


def traced(graph: Multigraph, forest: str) -> GenSieveTrace:
    """Return what GenSieve does with the forest."""
    return gensieve(graph, CHOOSERS[forest], most_steps=20_000)


def fits(figure: Figure, seed: int) -> bool:
    """Return whether the plan of the seed is beyond Sieve, and proved by GenSieve in so many rounds."""
    graph = normalise(plan_of(figure, seed))
    if len(graph.nodes) < figure.states or sieve(graph).proves_termination:
        return False
    try:
        trace = traced(graph, "lowest")
        if figure is DEPENDENT:
            return trace.proves_termination and not traced(graph, "first").proves_termination
        return trace.proves_termination and len(trace.rounds) == figure.rounds
    except LimitReached:
        return False


def draw(figure: Figure, forest: str, suffix: str = "") -> None:
    """Draw the rounds of the figure's plan."""
    plan = plan_of(figure, figure.seed)
    graph = normalise(plan)
    rounds = rounds_of_trace(plan, trace_rounds(graph, traced(graph, forest)))
    (HERE / f"{figure.name}{suffix}.svg").write_text(plan_svg(plan, {}, rounds), encoding="utf-8")


def main(arguments: list[str]) -> None:
    """Draw all of them, or look for seeds."""
    if arguments:
        for figure in (*FIGURES, DEPENDENT):
            sys.stdout.write(f"{figure.name}: {next(seed for seed in count() if fits(figure, seed))}\n")
            sys.stdout.flush()
        return
    HERE.mkdir(exist_ok=True)
    for figure in FIGURES:
        draw(figure, "lowest")
    draw(DEPENDENT, "lowest", "-proves")
    draw(DEPENDENT, "first", "-does-not")


if __name__ == "__main__":
    main(sys.argv[1:])
