"""The top of a campaign's page: what is known about the final policy, and how surely: proved, statistical or unknown."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from polvet.check.checker import CheckResult, Rejected, Subjects, check
from polvet.errors import InputError, Where
from polvet.files import read_json
from polvet.model.task import TaskOptions
from polvet.report.campaign import Campaign, has_goal
from polvet.report.markup import code, plural, text
from polvet.sources import options_from_json
from polvet.verify.split_tree import completed

PROVED = ("safe", "safe, goal lost")
"""Outcomes with a proof about the final policy."""
PROOFS = {
    "reachable-set": "the list of all states it can reach, none of them failing",
    "grid": "a set of cells that holds all starts, that all runs return to, and from which no run fails",
    "invariant": "a set of states that holds all starts, is never left, and has no failing state",
}


def check_certificate(campaign: Campaign, task: Path | None) -> CheckResult | None:
    """Return what the independent checker says about the campaign's certificate; None where there is none."""
    outcome = campaign.outcome or {}
    remembered = campaign.about.get("task")
    file = task or (Path(remembered) if isinstance(remembered, str) else None)
    certificate = find_certificate(campaign)
    if certificate is None:
        return None
    if file is None:
        raise InputError("the task is not known.", Where(str(campaign.folder)), "Give it with --task.")
    policy = campaign.folder / str(outcome.get("policy")) if outcome.get("outcome") in PROVED else None
    subjects = Subjects(file, policy, given_options(campaign))
    return check(completed(dict(certificate), subjects), subjects, Where(str(campaign.folder)))


def verdict_card(campaign: Campaign, judged: CheckResult | None = None) -> str:
    """Return the card with the verdict, the level of the guarantee and the way to check it."""
    if isinstance(judged, Rejected):
        says = f"<p>The checker rejects the campaign's certificate: {text(judged.reason)}.</p>{code(certify_command(campaign))}"
        return (
            f'<div class="verdict bad"><p class="level">Not proved</p><p class="word">Rejected</p>{says}</div>'
            + _tiles(campaign)
        )
    outcome = campaign.outcome or {}
    word = outcome.get("outcome", "unfinished")
    reason = outcome.get("reason")
    last = campaign.rows[-1] if campaign.rows else {}
    if word in PROVED:
        sort, title, level = ("good", "Safe", "Proved") if word == "safe" else ("open", "Safe, goal lost", "Proved")
        body = f"<p>No run of the final policy reaches a failing state, from any start state. {_proof(campaign)}</p>"
        if judged is not None:
            body += "<p>The independent checker accepted it while this page was written.</p>"
        body += "<p>Check it without trusting whoever made it:</p>" + code(certify_command(campaign))
    elif word == "stopped":
        sort, title, level = "bad", "Unsafe task", "Proved" if outcome.get("certificate") else "Found"
        body = f"<p>{text(reason)}.</p>"
        if outcome.get("certificate"):
            body += "<p>Check it without trusting whoever made it:</p>" + code(certify_command(campaign))
    elif word == "faults remain":
        sort, title, level = "bad", "Faults remain", "Found by executed runs"
        body = f"<p>{text(reason)}.</p>"
    elif word == "improved":
        sort, title, level = "open", "No fault found, not proved", "Statistical"
        body = f"<p>{text(reason)}.</p>{_statistics(last)}"
    else:
        sort, title, level = "open", "Unknown", "Unknown"
        why = reason or "the campaign has not ended; run the same polvet debug command again to go on"
        body = f"<p>Reason: {text(why)}.</p>{_statistics(last)}"
    if outcome.get("warning"):
        body += f"<p><strong>Warning:</strong> {text(outcome['warning'])}.</p>"
    return (
        f'<div class="verdict {sort}"><p class="level">{text(level)}</p><p class="word">{text(title)}</p>{body}</div>'
        + _tiles(campaign)
    )


def certify_command(campaign: Campaign) -> str:
    """Return the command that checks the campaign's certificate."""
    outcome = campaign.outcome or {}
    parts = ["polvet", "certify", str(campaign.folder / str(outcome.get("certificate")))]
    parts += ["--task", str(campaign.about.get("task") or "TASK")]
    if outcome.get("outcome") in PROVED:
        parts += ["--policy", str(campaign.folder / str(outcome.get("policy")))]
    return shlex.join([*parts, *given_options(campaign).arguments()])


def given_options(campaign: Campaign) -> TaskOptions:
    """Return what was given on the command line of the campaign."""
    return options_from_json(
        campaign.about.get("options") or {}, Where(str(campaign.folder / "about.json")).at("options")
    )


def find_certificate(campaign: Campaign) -> Mapping[str, Any] | None:
    """Return the certificate the campaign ended with, where it has one that is in the folder."""
    name = (campaign.outcome or {}).get("certificate")
    path = (campaign.folder / str(name)).resolve()
    if name is None or not path.is_relative_to(campaign.folder.resolve()) or not path.is_file():
        return None
    found = read_json(path)
    return found if isinstance(found, dict) else None


def _proof(campaign: Campaign) -> str:
    name = str((campaign.outcome or {}).get("certificate"))
    certificate = find_certificate(campaign)
    if certificate is None:
        return "The certificate is missing from the folder."
    kind = certificate.get("kind")
    about = PROOFS.get(str(kind), f"of the kind {kind}")
    count = certificate.get("count")
    size = f" ({plural(count, 'state')})" if isinstance(count, int) else ""
    return f"The evidence is {text(about)}{text(size)}: <code>{text(name)}</code>."


def _statistics(row: Any) -> str:
    interval = row.get("unsafe_percent_interval")
    if not interval:
        return ""
    return (
        f"<p>Measured: {row['unsafe_percent']:.2f}% of start states are unsafe under the policy "
        f"(95% interval {interval[0]:.2f} to {interval[1]:.2f}). That is a sample, not a proof.</p>"
    )


def _tiles(campaign: Campaign) -> str:
    rows = [row for row in campaign.rows if "unsafe_percent" in row]
    if not rows:
        return ""
    first, last = rows[0], rows[-1]
    repairs = sum("faults_fixed" in row or "fence" in row for row in campaign.rows)
    tiles = [
        ("Unsafe starts", f"{first['unsafe_percent']:.2f}%", f"{last['unsafe_percent']:.2f}%"),
        *(
            [("Goal reached", f"{first['goal_percent']:.2f}%", f"{last['goal_percent']:.2f}%")]
            if has_goal(campaign)
            else []
        ),
        *_possible_tile(campaign),
        ("Faults found", "", f"{len(campaign.faults):,}"),
        ("Repairs", "", f"{repairs:,}"),
        ("Time", "", f"{sum(row['seconds'] for row in campaign.rows):.1f} s"),
    ]
    cells = "".join(
        f"<div><dt>{name}</dt><dd>{f'<span>{old} <span aria-label=to>→</span></span> ' if old else ''}<b>{new}</b></dd></div>"
        for name, old, new in tiles
    )
    return f'<dl class="tiles">{cells}</dl>'


def _possible_tile(campaign: Campaign) -> list[tuple[str, str, str]]:
    """The best that any safe policy can do, where the campaign could tell."""
    best = next((row["goal_percent_possible"] for row in campaign.rows if "goal_percent_possible" in row), None)
    return [] if best is None else [("Best possible goal", "", f"{best:.2f}%")]
