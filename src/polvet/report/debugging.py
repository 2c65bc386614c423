"""The page of a debugging campaign: verdict, course, unsafe runs, faults, repairs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from polvet.campaign.record import FenceFigures, RepairFigures, VerificationFigures
from polvet.campaign.rows import Row
from polvet.errors import MissingExtra, Where
from polvet.model.task import Task
from polvet.report.campaign import Campaign, read_campaign
from polvet.report.chart import chart_top, percent_chart
from polvet.report.fault_list import fault_part
from polvet.report.invariant import invariant_part
from polvet.report.markup import around, plural, section, table, text
from polvet.report.page import Page, Part
from polvet.report.pictures import Pictures
from polvet.report.repairs import BeforeAfter, compare_policies, find_task
from polvet.report.replay import replay_part
from polvet.report.verdict import check_certificate, find_certificate, verdict_card


def campaign_page(
    folder: Path, task_file: Path | None = None, *, checked: bool = False, allow_code: bool = False
) -> Page:
    """Return the page of the campaign in the folder."""
    campaign = read_campaign(folder, allow_code=allow_code)
    task = find_task(campaign, task_file)
    compared = _comparison(campaign, task)
    choices = compared if isinstance(compared, BeforeAfter) else None
    pictures = Pictures(_metadata(campaign, task))
    drawings: list[Any] = []
    replay, runs = replay_part(campaign.runs, campaign.faults, pictures)
    parts = [course_part(campaign)]
    if replay is not None:
        parts.append(replay)
    parts.append(fault_part(campaign.faults, choices, pictures, drawings))
    if (repairs := _repairs(campaign, compared)) is not None:
        parts.append(repairs)
    if (invariant := invariant_part(find_certificate(campaign) or {}, Where(str(folder)))) is not None:
        parts.append(invariant)
    parts.append(_about(campaign))
    name = task.network.model.name if task is not None else campaign.about.model or folder.name
    judged = check_certificate(campaign, task_file) if checked else None
    data = {**runs, "drawings": drawings, "lines": pictures.lines}
    return Page(f"Debugging {name}", verdict_card(campaign, judged), tuple(parts), data)


def _comparison(campaign: Campaign, task: Task | None) -> BeforeAfter | str:
    """What the policies choose in the states that were faults, or how to have that on the page."""
    if task is None or not campaign.policies:
        return "Give the task (--task) to see what each policy chooses in the states that were faults."
    try:
        return compare_policies(campaign, task)
    except MissingExtra as missing:
        return f"What each policy chooses in the states that were faults is left out: {missing}"


def _metadata(campaign: Campaign, task: Task | None) -> dict[str, str]:
    if task is not None:
        return dict(task.network.model.metadata)
    return dict(campaign.about.metadata or {})


def course_part(campaign: Campaign) -> Part:
    """Return the course: %Unsafe and %Goal per iteration as charts, and a table."""
    course = [row.evaluation for row in campaign.rows if row.evaluation is not None]
    if not course:
        return Part("course", "Course", section("course", "Course", "<p>Nothing was evaluated yet.</p>"))
    unsafe, goal = [one.unsafe_percent for one in course], [one.goal_percent for one in course]
    says = f"%Unsafe from {unsafe[0]:.2f} to {unsafe[-1]:.2f}"
    charts = ""
    if campaign.about.has_goal:
        both = f"{says}, %Goal{campaign.about.within} from {goal[0]:.2f} to {goal[-1]:.2f}"
        charts += percent_chart(both, {"%Unsafe": unsafe, "%Goal": goal})
    # A chart of its own shows %Unsafe where it is too small to be seen beside %Goal.
    if not charts or chart_top(unsafe) < chart_top([*unsafe, *goal]):
        charts += percent_chart(says, {"%Unsafe": unsafe})
    goals = f"%Goal{campaign.about.within}"
    head = ("repairs", "%Unsafe", goals, "unsafe runs", "new faults", "faults so far", "verification", "seconds")
    cells = [_course_cells(row) for row in campaign.rows]
    body = f'<div class="charts">{charts}</div>' + table(head, cells, "Figures per iteration", numbers=True)
    return Part("course", "Course", section("course", "Course", body))


def _course_cells(row: Row) -> tuple[str, ...]:
    unsafe = goal = ""
    if (one := row.evaluation) is not None:
        unsafe, goal = (
            around(one.unsafe_percent, one.unsafe_percent_interval),
            around(one.goal_percent, one.goal_percent_interval),
        )
    runs = None if row.search is None else row.search.unsafe_runs
    return (
        str(row.iteration),
        unsafe,
        goal,
        *("" if count is None else f"{count:,}" for count in (runs, row.new_faults, row.faults_so_far)),
        _verified(row.verification),
        f"{row.seconds:.1f}",
    )


def _verified(verification: VerificationFigures | None) -> str:
    if verification is None:
        return ""
    reason = f": {text(verification.reason)}" if verification.reason else ""
    if verification.risk_upper is not None:
        reason += f", risk at most {verification.risk_upper:.6g}"
    return f"{text(verification.verdict)} ({text(verification.method)}){reason}"


def _repair_cells(change: FenceFigures | RepairFigures) -> list[str]:
    """What a repair fixed; a fence fixes everything: what it forbids stands in place of that."""
    before, after = change.goal_percent_before, change.goal_percent_after
    goal = "" if before is None or after is None else f"{before:.2f}&nbsp;→&nbsp;{after:.2f}"
    if isinstance(change, FenceFigures):
        forbidden = f"fence ({plural(change.exits or 0, 'exit')} forbidden)"
        return [forbidden, "all", "0", "", str(change.fence_trees or 0), goal]
    fixed, left = f"{change.faults_fixed:,}", f"{change.faults_left:,}"
    return [text(change.method), fixed, left, f"{change.objective:.4g}", str(change.trees_added), goal]


def _repairs(campaign: Campaign, compared: BeforeAfter | str) -> Part | None:
    changes = [row.change for row in campaign.rows if row.change is not None]
    if not changes:
        return None
    head = ["repair", "method", "faults fixed", "faults left", "L1 change", "trees added", "%Goal"]
    if isinstance(compared, BeforeAfter):
        head += ["numbers changed", "choices changed among the faults"]
    cells = []
    for k, change in enumerate(changes):
        cell = [str(k + 1), *_repair_cells(change)]
        if isinstance(compared, BeforeAfter):
            numbers = compared.changes[k]
            moved = sum(a != b for a, b in zip(compared.choices[k], compared.choices[k + 1], strict=True))
            shown = "" if numbers is None else f"{numbers.changed:,} of {numbers.total:,} {text(numbers.what)}"
            shown += f", {numbers.added:,} added" if numbers is not None and numbers.added else ""
            cell += [shown, f"{moved:,} of {len(campaign.faults):,}"]
        cells.append(cell)
    body = table(head, cells, "Each repair, before and after", numbers=True)
    body += _moves(campaign, compared) if isinstance(compared, BeforeAfter) else f"<p>{text(compared)}</p>"
    return Part("repairs", "Repairs", section("repairs", "Before and after the repairs", body))


def _moves(campaign: Campaign, compared: BeforeAfter) -> str:
    """How often each action became which other one, in the states that were faults."""
    before = [fault.action for fault in campaign.faults]
    after = compared.choices[-1]
    counts: dict[tuple[str, str], int] = {}
    for old, new in zip(before, after, strict=True):
        key = (old, new or "nothing")
        counts[key] = counts.get(key, 0) + 1
    safe = sum(new in fault.safe_actions for fault, new in zip(campaign.faults, after, strict=True))
    ranked = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    rows = [
        (f"<code>{text(old)}</code>", f"<code>{text(new)}</code>", f"{count:,}") for (old, new), count in ranked[:50]
    ]
    return (
        f"<p>The final policy takes a safe action in {safe:,} of {plural(len(before), 'state')} that were faults.</p>"
        + table(
            ("the fault chose", "the final policy chooses", "states"), rows, "Choices in the states that were faults"
        )
    )


def _about(campaign: Campaign) -> Part:
    about = campaign.about
    rows: list[tuple[str, object]] = [
        (key, getattr(about, key)) for key in ("task", "policy", "model", "mode", "start", "fail", "goal")
    ]
    rows += [(f"{key} (option)", value) for key, value in (about.options or {}).items()]
    rows += [(key.replace("_", " "), value) for key, value in campaign.settings.items()]
    shown = [(text(key), f"<code>{text(value)}</code>") for key, value in rows if value is not None]
    return Part(
        "about", "Settings", section("about", "What was asked", table(("what", "value"), shown, "Files and settings"))
    )
