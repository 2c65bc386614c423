"""`polvet faults TASK POLICY [--runs RUNS] -o FAULTS`: states where the policy's action gives up safety, the goal, or a risk."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from polvet.cli.options import Answering, Crowd, MaxRisk, MaxSteps, Output, Subject, Workers
from polvet.cli.parameters import Option
from polvet.files import Json

if TYPE_CHECKING:
    from polvet.debug.faults import FaultAnalysis
    from polvet.policy.compiled import Bound

SHOWN = 10
GoalChance = Annotated[
    str,
    Option(
        "--goal-chance", help="With --kind goal: the probability with which it could be reached, or best: all there is."
    ),
]
Delta = Annotated[str, Option("--delta", help="With --max-risk: an action may raise the least risk by so much.")]


@dataclass(frozen=True, slots=True)
class Words:
    """How the lines speak of a kind of faults."""

    good: str
    instead: str
    bad_start: str
    nobody: str


WORDS = {
    "safety": Words("safe", "safe", "unsafe start", "no policy is safe"),
    "goal": Words("with the goal in reach", "keeps it", "lost start  ", "no safe policy reaches the goal so"),
    "risk": Words("within the bound", "risks least", "lost start  ", "no policy keeps the bound"),
}


@dataclass(frozen=True, kw_only=True)
class Alone(Crowd):
    """One thread, where nothing else is said."""

    workers: Workers = "1"


@dataclass(frozen=True, kw_only=True)
class Target:
    """Which faults are looked for, and where."""

    kind: Annotated[
        str,
        Option("--kind", help="safety; goal: where the goal could be reached and is given up; risk: with --max-risk."),
    ] = "safety"
    goal_chance: GoalChance = "1"
    max_risk: MaxRisk = None
    delta: Delta = "0"
    runs: Annotated[
        Path | None, Option("--runs", help="Look on these runs only (default: all states the policy reaches).")
    ] = None


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much is tried where not all states can be searched."""

    tries: Annotated[int, Option("--budget", help="Runs to try where not all states can be searched.", min=1)] = 100_000
    max_steps: MaxSteps = 10_000


def faults(
    subject: Subject,
    limits: Alone,
    answering: Answering,
    *,
    target: Target,
    explain: Annotated[int | None, Option("--explain", help="Explain the fault of this number.", min=0)] = None,
    certificates: Annotated[
        Path | None,
        Option("--certificates", help="A folder for safe.json (the faulty states) and unsafe.json (outcomes)."),
    ] = None,
    effort: Effort,
    output: Output = None,
) -> int:
    """Find the faults of a policy. Example: `polvet faults line.toml policy.json -o faults.json`."""
    from polvet.files import write_whole

    policy = subject.open()
    with answering.watch("faults", "analysing", limits) as within:
        result = policy.faults(**asdict(target), budget=effort.tries, max_steps=effort.max_steps, **within)
    bound, _, analysis = result.source
    lines = [*_lines(bound, analysis, result.figures), *subject.lines(policy)]
    changes: Json = {}
    if explain is not None:
        explanation = result.explain(explain)
        lines += [f"fault {explain}", *explanation.lines()]
        changes["explanation"] = explanation.to_json()
    if certificates is not None and result.faults:
        changes["certificates"] = []
        for word, certificate in result.prove(within=within["within"]).items():
            path = certificates / f"{word}.json"
            write_whole(path, json.dumps(certificate, ensure_ascii=False) + "\n")
            changes["certificates"].append(str(path))
            lines.append(f"written      {path}")
    if output is not None:
        changes["faults"] = str(result.save(output))
        lines.append(f"written      {output}")
    return answering.say(result, lines, changes=changes, without=() if output is None else ("first_faults",))


def _lines(bound: Bound, analysis: FaultAnalysis, figures: Mapping[str, Any]) -> list[str]:
    from polvet.model.options import ENVIRONMENT

    show = bound.compiled.semantics.show
    words = WORDS[figures["kind"]]
    lines = [
        f"faults       {len(analysis.faults):,} {figures['how']}"
        + ("; there are no others" if analysis.exhaustive else ""),
        f"states       {analysis.states:,} met, {analysis.safe_states:,} {words.good}, {analysis.open:,} undecided",
    ]
    if (environment := figures.get("environment")) is not None:
        lines.append(f"reading      {ENVIRONMENT[environment]}")
    for number, fault in enumerate(analysis.faults[:SHOWN]):
        blame = f", first on {analysis.blame[number].first:,} runs" if analysis.blame else ""
        instead = " or ".join(fault.safe_actions[:4]) or "no single action"
        kind = "" if fault.kind in ("unsafe", "risk") else f"{fault.kind}; "
        lines.append(f"  {number:4} {show(fault.state)}: {fault.action} ({kind}{words.instead}: {instead}{blame})")
    if len(analysis.faults) > SHOWN:
        lines.append(f"  ... and {len(analysis.faults) - SHOWN:,} more")
    if len(analysis.never_safe):
        lines.append(
            f"no fault     on {len(analysis.never_safe):,} runs: they never touch the safe region, their starts are unsafe"
        )
    if analysis.unsafe_starts:
        first = show(analysis.unsafe_starts[0])
        lines.append(
            f"{words.bad_start} {len(analysis.unsafe_starts):,} starts from which {words.nobody}, such as {first}"
        )
    return lines
