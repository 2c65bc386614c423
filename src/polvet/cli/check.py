"""`polvet check MODEL --property NAME`: the value of a property, with bounds that hold."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from polvet.cli.answer import ExitCode
from polvet.cli.options import Answering, Followed, ModelFile, Threaded, World
from polvet.cli.parameters import Option

PropertyName = Annotated[
    str, Option("--property", help="The name of a property, or one in PRISM's notation: 'Pmax=? [F s=7]'.")
]
Exact = Annotated[bool, Option("--exact", help="Exact rational arithmetic instead of bounds.")]
SchedulerFile = Annotated[Path | None, Option("--scheduler", help="Write a scheduler that attains the bound, as JSON.")]
Gap = Annotated[float, Option("--gap", help="How far the bounds may be apart, relatively.", min=1e-13, max=0.5)]


@dataclass(frozen=True, kw_only=True)
class Model(World):
    """The model whose property is asked for."""

    task: ModelFile


def check(
    model: Model,
    limits: Threaded,
    following: Followed,
    answering: Answering,
    property: PropertyName,
    exact: Exact = False,
    gap: Gap = 1e-6,
    scheduler: SchedulerFile = None,
) -> int:
    """Compute a probability or expected reward. Example: `polvet check brp.jani --constants N=16,MAX=2 --property p1`."""
    task, followed = following.open(model)
    with answering.watch("check", "building", limits) as within:
        value = task.check(property, policy=followed, exact=exact, gap=gap, **within)
    figures, decided = value.figures, isinstance(value.value, bool)
    lines = []
    if not decided and value.reason is None:
        lines.append(f"bounds   [{value.lower!r}, {value.upper!r}]")
    if value.exact is not None:
        lines.append(f"exactly  {value.exact}")
    elif decided:
        lines.append(f"decided  {'in fractions' if figures['is_exact'] else 'by bounds that are proved'}")
    if followed is not None:
        fitted = followed.fitted
        lines += [
            f"policy   {following.policy} ({fitted.task.reading.mode}); outputs named by the {fitted.outputs_from}"
        ]
        if ties := figures["near_ties"]:
            lines.append(f"near ties in {ties:,} states: the value is that of the reference order of evaluation")
    lines.append(
        f"model    {figures['states']:,} states, {figures['choices']:,} choices, {figures['transitions']:,} transitions"
    )
    if scheduler is not None and value.reason is None:
        lines.append(f"written  {value.save(scheduler)}")
    return answering.say(value, lines, code=ExitCode.FOUND if value.value is False else None)
