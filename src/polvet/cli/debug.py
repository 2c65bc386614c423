"""`polvet debug TASK POLICY -o DIR`: the loop: fuzz, find faults, repair, verify; run again with the same DIR to resume."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from polvet.budget import Stopwatch, stopwatch
from polvet.choices import listed
from polvet.cli.answer import ExitCode
from polvet.cli.faults import Delta, GoalChance
from polvet.cli.options import Answering, MaxRisk, MemoryLimit, Seed, Subject, Timed, Workers
from polvet.cli.parameters import Option
from polvet.cli.printable import printable
from polvet.cli.progress import Log, memory_mb, open_log
from polvet.cli.repair import RepairMode
from polvet.errors import Where
from polvet.files import Json
from polvet.repair.methods import METHODS

if TYPE_CHECKING:
    from polvet.campaign.record import Figures, Record
    from polvet.campaign.rounds import Ending
    from polvet.campaign.rows import Row

COLUMNS = ("iteration", "%Unsafe", "%Goal", "unsafe runs", "new faults", "faults", "repair", "verification", "seconds")


@dataclass(frozen=True, kw_only=True)
class CampaignLimits(Timed):
    """How long, how many megabytes, and who works."""

    memory_limit: MemoryLimit = None
    workers: Workers = "all"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a campaign; `campaign/settings.py` says what each means."""

    starts: Annotated[int, Option("--starts", help="Start states to debug on, and to evaluate on.", min=1)] = 10_000
    runs: Annotated[int, Option("--runs", help="At least so many runs per start state for %Goal.", min=1)] = 10
    fuzz_runs: Annotated[int, Option("--fuzz-runs", help="Tries per start state to find an unsafe run.", min=1)] = 10
    max_steps: Annotated[int, Option("--max-steps", help="The longest run.", min=1)] = 1_000
    max_states: Annotated[int, Option("--max-states", help="Of an exhaustive search.", min=1)] = 2_000_000
    iterations: Annotated[int, Option("--iterations", help="At most so many repairs.", min=0)] = 50
    method: Annotated[str, Option("--method", help=f"How to repair: {listed(METHODS.words)}.")] = "auto"
    repair_mode: RepairMode = "safe"
    keep: Annotated[int, Option("--keep", help="States of goal-reaching runs whose action is kept.", min=0)] = 2_000
    max_goal_loss: Annotated[
        float, Option("--max-goal-loss", help="%Goal may fall by so many points below the best so far.", min=0.0)
    ] = 1.0
    verify: Annotated[str, Option("--verify", help="auto, or never.")] = "auto"
    kind: Annotated[
        str, Option("--kind", help="safety; goal: goal faults are mended as well; risk: with --max-risk.")
    ] = "safety"
    goal_chance: GoalChance = "best"
    max_risk: MaxRisk = None
    delta: Delta = "0"
    seed: Seed = 0


def debug(
    subject: Subject,
    output: Annotated[Path, Option("-o", "--output", help="The campaign's folder; an earlier one is resumed.")],
    settings: Settings,
    limits: CampaignLimits,
    answering: Answering,
) -> int:
    """Debug a policy. Example: `polvet debug line.toml policy.json -o line-debug`, then `polvet report line-debug`."""
    from polvet.campaign.rows import fold

    policy = subject.open()
    with open_log(answering.log_json) as log, _live_table(log) as listener:
        campaign = policy.debug(output, progress=listener, **limits.keywords(None), **asdict(settings))
    ended, limit = campaign.source, policy.task.max_steps
    lines = [
        *_table_lines(fold(ended.records)),
        f"outcome     {campaign.outcome}",
        *([] if ended.risk is None else [f"risk        {ended.risk.says()}"]),
        *_goal_lines(ended, limit and min(limit, settings.max_steps)),
        f"policy      {ended.policy}",
    ]
    if ended.certificate is not None:
        words = ["polvet", "certify", str(ended.certificate), "--task", str(subject.task)]
        words += ["--policy", str(ended.policy)] if campaign.word == "safe" else []
        command = shlex.join([*words, *policy.task.model_task.options.arguments()])
        lines.append(f"evidence    {ended.certificate} (check it: {command})")
    if campaign.outcome == "stopped":
        lines.append(
            "next        the risk can be kept low (--max-risk P, another folder); which starts are safe says polvet verify --region"
        )
    lost = campaign.word in ("safe", "repaired") and (
        campaign.goal_lost or campaign.outcome == "safe, goal faults remain"
    )
    return answering.say(campaign, lines, code=ExitCode.GOAL_LOST if lost else None)


def _goal_lines(campaign: Ending, limit: int | None) -> list[str]:
    """%Goal from the first policy to the last, the best possible beside it, and a warning where too much is lost."""
    from polvet.policy.runs import within_steps

    useful = campaign.usefulness
    if useful is None:
        return []
    beside = (
        [f"best so far {_around(useful.best, useful.best_interval)}"]
        if useful.best > max(useful.first, useful.last)
        else []
    )
    beside += [] if useful.possible is None else [f"best possible for a safe policy {useful.possible:.2f}"]
    says = f"{_around(useful.first, useful.first_interval)} -> {_around(useful.last, useful.last_interval)}"
    steps = "" if limit is None else within_steps(limit)
    lines = [f"%Goal       {says}{steps}{''.join(f'; {one}' for one in beside)}"]
    lines += [] if useful.longer is None else [f"steps       {useful.longer}"]
    return lines if useful.warning() is None else [*lines, f"WARNING     {useful.warning()}"]


def _around(value: float, interval: tuple[float, float]) -> str:
    """A percentage with its interval, where there is one to see."""
    low, high = (f"{end:.2f}" for end in interval)
    return f"{value:.2f}" if low == high else f"{value:.2f} [{low}, {high}]"


def _cells(row: Row) -> tuple[str, ...]:
    """One line of the table."""
    repaired = unsafe = goal = verified = ""
    if (repair := row.repair) is not None:
        trees = f", {repair.trees_added} trees" if repair.trees_added else ""
        repaired = f"{repair.method}: {repair.faults_fixed} fixed, change {repair.objective:.3g}{trees}"
        repaired = repaired if repair.refused is None else "none"
    elif (fence := row.fence) is not None:
        repaired = f"fence: {fence.exits or 0:,} exits forbidden"
    if (one := row.evaluation) is not None:
        unsafe = _around(one.unsafe_percent, one.unsafe_percent_interval)
        goal = _around(one.goal_percent, one.goal_percent_interval)
    if row.verification is not None:
        verified = f"{row.verification.verdict} ({row.verification.method})"
        if row.verification.risk_upper is not None:
            verified = f"risk {row.verification.risk_upper:.6g}: {verified}"
    runs = None if row.search is None else row.search.unsafe_runs
    counts = ("" if count is None else f"{count:,}" for count in (runs, row.new_faults, row.faults_so_far))
    return (str(row.iteration), unsafe, goal, *counts, repaired, verified, f"{row.seconds:.1f}")


def _table_lines(course: tuple[Row, ...]) -> list[str]:
    rows = [COLUMNS, *map(_cells, course)]
    widths = [max(len(row[k]) for row in rows) for k in range(len(COLUMNS))]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


@contextmanager
def _live_table(log: Log | None) -> Iterator[Callable[[Json], None]]:
    """A table that grows with the campaign, on a terminal only; each step is also a line of the log."""
    from polvet.campaign.record import Record

    spent = stopwatch()
    seen: list[Record[Figures]] = []

    def logged(event: str, what: str, counts: Json) -> None:
        if log is not None:
            seconds = round(spent(), 3)
            log.write(
                {
                    "event": event,
                    "command": "debug",
                    "what": what,
                    "seconds": seconds,
                    "memory_mb": memory_mb(),
                    "counts": counts,
                }
            )

    def listen(document: Json) -> None:
        record = Record.from_json(document, Where("campaign"))
        seen.append(record)
        counts = record.line()
        logged("progress", counts.pop("step"), counts)

    with ExitStack() as stack:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            console = Console(stderr=True)
            live = Live(
                get_renderable=lambda: _drawn(seen, spent), console=console, transient=True, refresh_per_second=4
            )
            stack.enter_context(live)
        logged("begin", "debugging", {})
        try:
            yield listen
        finally:
            logged("end", "debugging", {"steps": len(seen)})


def _drawn(seen: list[Record[Figures]], spent: Stopwatch) -> Any:
    from rich.markup import escape
    from rich.table import Table

    from polvet.campaign.rows import fold

    table = Table(
        title="debugging: evaluate, search, repair, verify",
        title_justify="left",
        caption=f"{spent():.0f} s; {memory_mb():,} MB",
        caption_justify="left",
    )
    for name in COLUMNS:
        table.add_column(name, justify="right")
    for row in fold(list(seen)):
        table.add_row(*(escape(printable(cell)) for cell in _cells(row)))
    return table
