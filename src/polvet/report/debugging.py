"""The page of a debugging campaign: verdict, course, unsafe runs, faults, repairs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from polvet.model.task import Task
from polvet.report.campaign import Campaign, has_goal, read_campaign
from polvet.report.chart import percent_chart
from polvet.report.fault_list import fault_part
from polvet.report.invariant import invariant_part
from polvet.report.markup import plural, section, table, text
from polvet.report.page import Page, Part
from polvet.report.pictures import Pictures
from polvet.report.repairs import BeforeAfter, compare_policies, find_task
from polvet.report.replay import replay_part
from polvet.report.verdict import check_certificate, find_certificate, verdict_card


def campaign_page(folder: Path, task_file: Path | None = None, *, checked: bool = False) -> Page:
    """Return the page of the campaign in the folder."""
    campaign = read_campaign(folder)
    task = find_task(campaign, task_file)
    compared = None if task is None or "policy begin 0" not in campaign.files else compare_policies(campaign, task)
    pictures = Pictures(_metadata(campaign, task))
    drawings: list[Any] = []
    replay, runs = replay_part(campaign.runs, campaign.faults, pictures)
    parts = [_course(campaign)]
    if replay is not None:
        parts.append(replay)
    parts.append(fault_part(campaign.faults, compared, pictures, drawings))
    if (repairs := _repairs(campaign, compared)) is not None:
        parts.append(repairs)
    if (invariant := invariant_part(find_certificate(campaign) or {})) is not None:
        parts.append(invariant)
    parts.append(_about(campaign))
    name = task.network.model.name if task is not None else campaign.about.get("model") or folder.name
    judged = check_certificate(campaign, task_file) if checked else None
    data = {**runs, "drawings": drawings, "lines": pictures.lines}
    return Page(f"Debugging {name}", verdict_card(campaign, judged), tuple(parts), data)


def _metadata(campaign: Campaign, task: Task | None) -> dict[str, str]:
    if task is not None:
        return dict(task.network.model.metadata)
    told = campaign.about.get("metadata")
    return {str(key): str(value) for key, value in told.items()} if isinstance(told, dict) else {}


def _course(campaign: Campaign) -> Part:
    rows = [row for row in campaign.rows if "unsafe_percent" in row]
    if not rows:
        return Part("course", "Course", section("course", "Course", "<p>Nothing was evaluated yet.</p>"))
    unsafe, goal = [row["unsafe_percent"] for row in rows], [row["goal_percent"] for row in rows]
    says = f"%Unsafe from {unsafe[0]:.2f} to {unsafe[-1]:.2f}, %Goal from {goal[0]:.2f} to {goal[-1]:.2f}"
    chart = percent_chart(says, {"%Unsafe": unsafe, "%Goal": goal}) if has_goal(campaign) else ""
    small = percent_chart(f"%Unsafe from {unsafe[0]:.2f} to {unsafe[-1]:.2f}", {"%Unsafe": unsafe})
    head = ("repairs", "%Unsafe", "%Goal", "unsafe runs", "new faults", "faults so far", "verification", "seconds")
    cells = [
        (
            str(row["iteration"]), _percent(row, "unsafe_percent"), _percent(row, "goal_percent"),
            _count(row, "unsafe_runs"), _count(row, "new_faults"), _count(row, "faults_so_far"), _verified(row),
            f"{row['seconds']:.1f}",
        )
        for row in campaign.rows
    ]  # fmt: skip
    both = f'<div class="charts">{chart}{small}</div>'
    return Part(
        "course",
        "Course",
        section("course", "Course", both + table(head, cells, "Figures per iteration", numbers=True)),
    )


def _percent(row: Any, key: str) -> str:
    if key not in row:
        return ""
    low, high = row.get(f"{key}_interval", (row[key], row[key]))
    around = f' <span class="interval">[{low:.2f}, {high:.2f}]</span>' if low != high else ""
    return f"{row[key]:.2f}{around}"


def _count(row: Any, key: str) -> str:
    return f"{row[key]:,}" if key in row else ""


def _verified(row: Any) -> str:
    found = row.get("verification")
    if not found:
        return ""
    reason = f": {text(found['reason'])}" if found.get("reason") else ""
    return f"{text(found['verdict'])} ({text(found['method'])}){reason}"


def _repair(row: Any) -> list[str]:
    return [
        text(row["method"]), f"{row['faults_fixed']:,}", f"{row['faults_left']:,}", f"{row['objective']:.4g}",
        str(row.get("trees_added") or 0), f"{row['goal_percent_before']:.2f}", f"{row['goal_percent_after']:.2f}",
    ]  # fmt: skip


def _fence(figures: Any) -> list[str]:
    """A fence fixes everything: what it forbids stands in place of what it fixes."""
    return [
        f"fence ({figures['exits']:,} exits forbidden)", "all", "0", "", str(figures["fence_trees"]),
        f"{figures['goal_percent_before']:.2f}", f"{figures['goal_percent_after']:.2f}",
    ]  # fmt: skip


def _repairs(campaign: Campaign, compared: BeforeAfter | None) -> Part | None:
    rows = [row for row in campaign.rows if "faults_fixed" in row or "fence" in row]
    if not rows:
        return None
    head = [
        "repair",
        "method",
        "faults fixed",
        "faults left",
        "L1 change",
        "trees added",
        "%Goal before",
        "%Goal after",
    ]
    if compared is not None:
        head += ["numbers changed", "choices changed among the faults"]
    cells = []
    for k, row in enumerate(rows):
        cell = [str(k + 1), *(_fence(row["fence"]) if "fence" in row else _repair(row))]
        if compared is not None:
            change = compared.changes[k]
            moved = sum(a != b for a, b in zip(compared.choices[k], compared.choices[k + 1], strict=True))
            shown = "" if change is None else f"{change.changed:,} of {change.total:,} {text(change.what)}"
            shown += f", {change.added:,} added" if change is not None and change.added else ""
            cell += [shown, f"{moved:,} of {len(campaign.faults):,}"]
        cells.append(cell)
    body = table(head, cells, "Each repair, before and after", numbers=True)
    if compared is None:
        body += (
            "<p>Give the task (<code>--task</code>) to see what each policy chooses in the states that were faults.</p>"
        )
    else:
        body += _moves(campaign, compared)
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
    rows = [(key, about.get(key)) for key in ("task", "policy", "model", "mode", "start", "fail", "goal")]
    rows += [(f"{key} (option)", value) for key, value in (about.get("options") or {}).items()]
    rows += [(key.replace("_", " "), value) for key, value in campaign.settings.items()]
    shown = [(text(key), f"<code>{text(value)}</code>") for key, value in rows if value is not None]
    return Part(
        "about", "Settings", section("about", "What was asked", table(("what", "value"), shown, "Files and settings"))
    )
