"""`polvet gate TASK POLICY --max-faults 0 --min-goal 90`: may this policy be shipped? For continuous integration."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from polvet.cli.answer import ExitCode
from polvet.cli.options import Crowd, Plainly, RunSteps, Subject
from polvet.cli.parameters import Option


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """What the policy must keep; `acceptance/judge.py` says what each means."""

    max_faults: Annotated[
        int | None, Option("--max-faults", help="At most so many faults; 0 without any threshold.", min=0)
    ] = None
    max_unsafe: Annotated[
        float | None, Option("--max-unsafe", help="At most so many percent of the start states unsafe.")
    ] = None
    min_goal: Annotated[
        float | None, Option("--min-goal", help="At least so many percent of the runs reach the goal.")
    ] = None
    max_risk: Annotated[
        str | None,
        Option("--max-risk", help="Runs fail with at most this probability, from every start, at worst."),
    ] = None
    max_goal_loss: Annotated[
        float, Option("--max-goal-loss", help="With --before: %Goal may fall by so many points.", min=0.0)
    ] = 1.0
    proved: Annotated[bool, Option("--proved", help="The policy must be proved safe.")] = False
    sampled: Annotated[bool, Option("--sampled", help="Samples are enough where a decision is out of reach.")] = False


@dataclass(frozen=True, kw_only=True)
class Sample:
    """How many start states and runs figures are taken from."""

    starts: Annotated[int, Option("--starts", help="At most so many start states.", min=1)] = 1_000
    runs: Annotated[int, Option("--runs", help="Runs per start state for %Goal.", min=1)] = 100
    max_steps: RunSteps = None


def gate(
    subject: Subject,
    thresholds: Thresholds,
    limits: Crowd,
    answering: Plainly,
    *,
    before: Annotated[
        Path | None, Option("--before", help="The policy it replaces: %Goal is compared with that one's.")
    ] = None,
    junit: Annotated[Path | None, Option("--junit", help="Write JUnit XML.")] = None,
    sarif: Annotated[Path | None, Option("--sarif", help="Write SARIF 2.1.0.")] = None,
    sample: Sample,
) -> int:
    """Pass (0), fail (10; 11: only the goal is lost) or not know (20). Example: `polvet gate line.toml policy.json --min-goal 90`."""
    from polvet.acceptance.junit import dump_junit
    from polvet.acceptance.sarif import dump_sarif
    from polvet.files import write_whole
    from polvet.front.gating import gate as judge

    task = subject.load()
    result = judge(task, subject.policy, before=before, **asdict(sample), **asdict(thresholds), **limits.keywords(None))
    judged, seconds = result.source, answering.spent()
    lines = [f"{check.name:8} {check.passing.value:8} {check.says}" for check in judged.checks]
    if judged.runs is not None:
        lines.append(f"runs              {judged.runs.text()}")
    if junit is not None:
        write_whole(junit, dump_junit(judged, task.model_task, str(subject.policy), seconds))
        lines.append(f"written  {junit} (JUnit)")
    if sarif is not None:
        write_whole(sarif, dump_sarif(judged, task.model_task, subject.policy))
        lines.append(f"written  {sarif} (SARIF)")
    return answering.say(result, lines, code=ExitCode.GOAL_LOST if result.only_goal_lost else None)
