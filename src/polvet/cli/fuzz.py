"""`polvet fuzz TASK POLICY -o RUNS`: unsafe runs of a policy, shrunk; stopped and gone on with as often as one likes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

from polvet.cli.options import Answering, MaxSteps, Output, Subject, TimedCrowd
from polvet.cli.parameters import Option

if TYPE_CHECKING:
    from polvet.fuzz.rounds import Campaign


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How many runs, from which starts, and when it is enough."""

    runs: Annotated[int, Option("--runs", help="Try about so many runs.", min=1)] = 20_000
    unsafe_runs: Annotated[int, Option("--unsafe-runs", help="Stop when so many unsafe runs are found.", min=1)] = (
        10_000
    )
    tries: Annotated[int, Option("--tries", help="Runs from each start state.", min=1)] = 4
    round: Annotated[int, Option("--round", help="Start states per round.", min=2)] = 512
    stop_when: Annotated[str | None, Option("--stop-when", help="A rule in the place of --runs: 'width<0.01'.")] = None
    unbiased: Annotated[
        bool, Option("--unbiased", help="Draw outcomes and starts as they come, without leaning to fail.")
    ] = False
    whole: Annotated[bool, Option("--whole", help="Keep the runs as they were found, not shrunk.")] = False
    max_steps: MaxSteps = 10_000


def fuzz(
    subject: Subject,
    limits: TimedCrowd,
    answering: Answering,
    effort: Effort,
    output: Output = None,
) -> int:
    """Find unsafe runs. Example: `polvet fuzz line.toml policy.json -o unsafe.jsonl`; the same command resumes."""
    policy = subject.open()
    with answering.watch("fuzz", "fuzzing", limits, unit="runs") as within:
        result = policy.fuzz(**asdict(effort), output=output, **within)
    lines = _lines(result.source)
    if "shrunk_runs" in result.figures:
        before, after = result.figures["mean_length"], result.figures["mean_length_shrunk"]
        left = f"{result.figures['shrunk_runs']:,} different runs are left"
        lines.append(f"shrunk       mean length {before:.1f} -> {after:.1f} steps; {left}")
    lines += subject.lines(policy)
    if output is not None:
        lines.append(f"written      {output} ({len(result.runs):,} runs)")
    return answering.say(result, lines, changes={} if output is None else {"runs": str(output)})


def _lines(campaign: Campaign) -> list[str]:
    low, high = campaign.unsafe.interval
    goal_low, goal_high = campaign.goal.interval
    ends = ", ".join(f"{count:,} {name}" for name, count in campaign.ends.items())
    return [
        f"unsafe runs  {len(campaign.runs):,} different ones among {campaign.tried:,} runs ({ends})",
        f"unsafe found {100 * campaign.unsafe.mean:.2f}% of {campaign.unsafe.draws:,} uniformly drawn starts "
        f"(95% at all times: {100 * low:.2f} to {100 * high:.2f})",
        f"goal reached {100 * campaign.goal.mean:.2f}% of plain runs from them (95% at all times: "
        f"{100 * goal_low:.2f} to {100 * goal_high:.2f})",
        f"stopped      {campaign.stopped_by or campaign.limit} after {campaign.rounds:,} rounds",
    ]
