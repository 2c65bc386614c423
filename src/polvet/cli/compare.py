"""`polvet compare TASK OLD NEW`: where two policies differ, and which differences removed or added a fault."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from polvet.cli.options import Answering, Chance, Output, Subject
from polvet.cli.parameters import Argument, Option

if TYPE_CHECKING:
    from polvet.model.task import Task
    from polvet.repair.compare import Comparison

SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class Before(Subject):
    """The policy before."""

    policy: Annotated[Path, Argument(metavar="OLD", help="The policy before.")]


def compare(
    before: Before,
    new: Annotated[Path, Argument(metavar="NEW", help="The policy after.")],
    limits: Chance,
    answering: Answering,
    starts: Annotated[
        int | None, Option("--starts", help="So many random start states; without: all of them.", min=1)
    ] = None,
    output: Output = None,
) -> int:
    """Compare two policies. Example: `polvet compare line.toml policy.json repaired.json -o differences.jsonl`."""
    policy = before.open()
    with answering.watch("compare", "comparing", limits) as within:
        comparison = policy.compare(new, starts=starts, **within)
    lines = _lines(*comparison.source)
    if output is not None:
        lines.append(f"written     {comparison.save(output)} ({comparison.differences:,} differences)")
    return answering.say(comparison, lines)


def _lines(task: Task, comparison: Comparison) -> list[str]:
    from polvet.model.semantics import Semantics
    from polvet.repair.compare import Effect

    lines = [
        f"states      {comparison.states:,} ({comparison.reached_by_old:,} reached by the old policy, "
        f"{comparison.reached_by_new:,} by the new)",
        f"differences {len(comparison.differences):,}",
        *(f"  {effect.value:14} {comparison.count(effect):,}" for effect in Effect if comparison.count(effect)),
    ]
    show = Semantics(task.network).show
    for effect in (Effect.ADDED, Effect.REMOVED):
        some = [item for item in comparison.differences if item.effect is effect][:SHOWN]
        lines += [f"{effect.value}: {item.old} -> {item.new} in {show(item.state)}" for item in some]
    return lines
