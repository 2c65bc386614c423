"""The top of a campaign's page: what is known about the final policy, and how surely: proved, statistical or unknown."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from polvet.campaign.outcome import Outcome
from polvet.campaign.rows import Row
from polvet.check.checker import CheckResult, Rejected, Subjects, check
from polvet.errors import InputError, Where
from polvet.files import beside, read_json
from polvet.model.task import TaskOptions
from polvet.report.campaign import Campaign
from polvet.report.markup import card, code, plural, text
from polvet.sources import options_from_json
from polvet.verify.split_tree import completed

PROOFS = {
    "reachable-set": "the list of all states it can reach, none of them failing",
    "grid": "a set of cells that holds all starts, that all runs return to, and from which no run fails",
    "invariant": "a set of states that holds all starts, is never left, and has no failing state",
    "risk-bound": "a bound on the probability of failing for each state it can reach, in fractions, that no step breaks",
}


def check_certificate(campaign: Campaign, task: Path | None) -> CheckResult | None:
    """Return what the independent checker says about the campaign's certificate; None where there is none."""
    file = campaign.task_file(task)
    certificate, outcome = find_certificate(campaign), campaign.outcome
    if certificate is None or outcome is None:
        return None
    if file is None:
        raise InputError("the task is not known.", Where(str(campaign.folder)), "Give it with --task.")
    record = campaign.folder / "outcome.json"
    policy = beside(record, outcome.policy, Where(str(record))) if outcome.outcome.is_proof else None
    subjects = Subjects(file, policy, given_options(campaign), allow_code=campaign.allow_code)
    return check(completed(dict(certificate), subjects), subjects, Where(str(campaign.folder)))


def verdict_card(campaign: Campaign, judged: CheckResult | None = None) -> str:
    """Return the card with the verdict, the level of the guarantee and the way to check it."""
    if isinstance(judged, Rejected):
        says = f"<p>The checker rejects the campaign's certificate: {text(judged.reason)}.</p>{code(certify_command(campaign))}"
        return card("bad", "Not proved", "Rejected", says) + _tiles(campaign)
    ended = campaign.outcome
    reason = None if ended is None else ended.reason
    last = campaign.rows[-1] if campaign.rows else None
    way = ""
    if ended is not None and ended.certificate is not None:
        way = "<p>Check it without trusting whoever made it:</p>" + code(certify_command(campaign))
    match None if ended is None else ended.outcome:
        case Outcome.SAFE | Outcome.GOAL_LOST | Outcome.GOAL_FAULTS as outcome:
            sort, title = ("good" if outcome is Outcome.SAFE else "open"), outcome.value.capitalize()
            level = "Proved"
            body = f"<p>{_claim(campaign)} {_proof(campaign)}</p>"
            if outcome is Outcome.GOAL_FAULTS:
                body += f"<p>{text(reason)}.</p>"
            if judged is not None:
                body += "<p>The independent checker accepted it while this page was written.</p>"
            body += way
        case Outcome.STOPPED:
            sort, title, level = "bad", "Unsafe task", "Proved" if way else "Found"
            body = f"<p>{text(reason)}.</p>{way}"
        case Outcome.IMPOSSIBLE:
            sort, title, level = "bad", "Impossible", "Found"
            body = f"<p>{text(reason)}. The least risky policy that was found is left.</p>"
        case Outcome.FAULTS_REMAIN:
            sort, title, level = "bad", "Faults remain", "Found by executed runs"
            body = f"<p>{text(reason)}.</p>"
        case Outcome.IMPROVED:
            sort, title, level = "open", "No fault found, not proved", "Statistical"
            body = f"<p>{text(reason)}.</p>{_statistics(last)}"
        case _:
            sort, title, level = "open", "Unknown", "Unknown"
            why = reason or "the campaign has not ended; run the same polvet debug command again to go on"
            body = f"<p>Reason: {text(why)}.</p>{_statistics(last)}"
    if ended is not None and ended.warning:
        body += f"<p><strong>Warning:</strong> {text(ended.warning)}.</p>"
    return card(sort, level, title, body) + _tiles(campaign)


def certify_command(campaign: Campaign) -> str:
    """Return the command that checks the campaign's certificate."""
    outcome = campaign.outcome
    certificate = None if outcome is None else outcome.certificate
    parts = ["polvet", "certify", str(campaign.folder / (certificate or "CERTIFICATE"))]
    parts += ["--task", campaign.about.task or "TASK"]
    if outcome is not None and outcome.outcome.is_proof:
        parts += ["--policy", str(campaign.folder / outcome.policy)]
    return shlex.join([*parts, *given_options(campaign).arguments()])


def given_options(campaign: Campaign) -> TaskOptions:
    """Return what was given on the command line of the campaign."""
    where = Where(str(campaign.folder / "about.json")).at("options")
    return replace(options_from_json(dict(campaign.about.options or {}), where), allow_code=campaign.allow_code)


def find_certificate(campaign: Campaign) -> Mapping[str, Any] | None:
    """Return the certificate the campaign ended with, where it has one that is in the folder."""
    name = None if campaign.outcome is None else campaign.outcome.certificate
    path = (campaign.folder / str(name)).resolve()
    if name is None or not path.is_relative_to(campaign.folder.resolve()) or not path.is_file():
        return None
    document = read_json(path)
    return document if isinstance(document, dict) else None


def _claim(campaign: Campaign) -> str:
    most = campaign.settings.get("max_risk")
    if most is None:
        return "No run of the final policy reaches a failing state, from any start state."
    return f"Runs of the final policy fail with probability at most {text(most)}, from any start state."


def _proof(campaign: Campaign) -> str:
    name = None if campaign.outcome is None else campaign.outcome.certificate
    certificate = find_certificate(campaign)
    if certificate is None:
        return "The certificate is missing from the folder."
    kind = certificate.get("kind")
    about = PROOFS.get(str(kind), f"of the kind {kind}")
    count = certificate.get("count")
    size = f" ({plural(count, 'state')})" if isinstance(count, int) else ""
    return f"The evidence is {text(about)}{text(size)}: <code>{text(name)}</code>."


def _statistics(row: Row | None) -> str:
    if row is None or row.evaluation is None:
        return ""
    low, high = row.evaluation.unsafe_percent_interval
    return (
        f"<p>Measured: {row.evaluation.unsafe_percent:.2f}% of start states are unsafe under the policy "
        f"(95% interval {low:.2f} to {high:.2f}). That is a sample, not a proof.</p>"
    )


def _tiles(campaign: Campaign) -> str:
    course = [row.evaluation for row in campaign.rows if row.evaluation is not None]
    if not course:
        return ""
    first, last = course[0], course[-1]
    tiles = [_percent_tile("Unsafe starts", first.unsafe_percent, last.unsafe_percent, last.unsafe_percent_interval)]
    if campaign.about.has_goal:
        reached = f"Goal reached{campaign.about.within}"
        tiles.append(_percent_tile(reached, first.goal_percent, last.goal_percent, last.goal_percent_interval))
    risks = [
        row.verification.risk_upper
        for row in campaign.rows
        if row.verification is not None and row.verification.risk_upper is not None
    ]
    if risks:
        tiles.insert(
            0,
            _tile("Risk, at most", f"<span>{risks[0]:.4g} <span aria-label=to>→</span></span> <b>{risks[-1]:.4g}</b>"),
        )
    if (best := _best_possible(campaign)) is not None:
        tiles.append(_tile("Best possible goal", f"<b>{best:.2f}%</b>"))
    tiles.append(_tile("Faults found", f"<b>{len(campaign.faults):,}</b>"))
    tiles.append(_tile("Repairs", f"<b>{sum(row.change is not None for row in campaign.rows):,}</b>"))
    tiles.append(_tile("Time", f"<b>{sum(row.seconds for row in campaign.rows):.1f} s</b>"))
    return f'<dl class="tiles">{"".join(tiles)}</dl>'


def _tile(name: str, value: str) -> str:
    return f"<div><dt>{name}</dt><dd>{value}</dd></div>"


def _percent_tile(name: str, first: float, last: float, interval: tuple[float, float]) -> str:
    """A percentage from the first policy to the last, and the interval of the last where it is a sample."""
    low, high = (f"{end:.2f}" for end in interval)
    sample = "" if low == high else f'<span class="interval">95% interval {low} to {high}</span>'
    return _tile(name, f"<span>{first:.2f}% <span aria-label=to>→</span></span> <b>{last:.2f}%</b>{sample}")


def _best_possible(campaign: Campaign) -> float | None:
    """The best %Goal that any safe policy can have, where the campaign could tell."""
    return next((row.possible.goal_percent_possible for row in campaign.rows if row.possible is not None), None)
