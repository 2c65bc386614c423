"""The top of a campaign's page: what is known about the final policy, and how surely: proved, statistical or unknown."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from polvet.files import read_json
from polvet.report.campaign import Campaign, has_goal
from polvet.report.markup import code, plural, text

PROOFS = {
    "reachable-set": "the list of all states it can reach, none of them failing",
    "invariant": "a set of states that holds all starts, is never left, and has no failing state",
}


def verdict_card(campaign: Campaign) -> str:
    """Return the card with the verdict, the level of the guarantee and the way to check it."""
    outcome = campaign.outcome or {}
    word = outcome.get("outcome", "unfinished")
    reason = outcome.get("reason")
    last = campaign.rows[-1] if campaign.rows else {}
    if word == "safe":
        sort, title, level = "good", "Safe", "Proved"
        body = f"<p>No run of the final policy reaches a failing state, from any start state. {_proof(campaign)}</p>"
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
    return (
        f'<div class="verdict {sort}"><p class="level">{text(level)}</p><p class="word">{text(title)}</p>{body}</div>'
        + _tiles(campaign)
    )


def certify_command(campaign: Campaign) -> str:
    """Return the command that checks the campaign's certificate."""
    outcome = campaign.outcome or {}
    parts = ["polvet", "certify", str(campaign.folder / str(outcome.get("certificate")))]
    parts += ["--task", str(campaign.about.get("task") or "TASK")]
    if outcome.get("outcome") == "safe":
        parts += ["--policy", str(campaign.folder / str(outcome.get("policy")))]
    return shlex.join(parts)


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
    repairs = sum("faults_fixed" in row for row in campaign.rows)
    tiles = [
        ("Unsafe starts", f"{first['unsafe_percent']:.2f}%", f"{last['unsafe_percent']:.2f}%"),
        *(
            [("Goal reached", f"{first['goal_percent']:.2f}%", f"{last['goal_percent']:.2f}%")]
            if has_goal(campaign)
            else []
        ),
        ("Faults found", "", f"{len(campaign.faults):,}"),
        ("Repairs", "", f"{repairs:,}"),
        ("Time", "", f"{sum(row['seconds'] for row in campaign.rows):.1f} s"),
    ]
    cells = "".join(
        f"<div><dt>{name}</dt><dd>{f'<span>{old} <span aria-label=to>→</span></span> ' if old else ''}<b>{new}</b></dd></div>"
        for name, old, new in tiles
    )
    return f'<dl class="tiles">{cells}</dl>'
