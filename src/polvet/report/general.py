"""The page of a certificate of `polvet generalizes`: in which problems the rules hold and why they end, or the run that refutes them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from polvet.check.checker import Accepted, Subjects, check
from polvet.errors import InputError, Where
from polvet.features.instances import Instance, read_instance
from polvet.files import read_text
from polvet.pddl.parse import parse_domain
from polvet.policy.finite_memory.sketch import Sketch, read_sketch
from polvet.policy.finite_memory.valuations import Valuations, meanings_of
from polvet.report.markup import card, code, section, table, text
from polvet.report.page import Page, Part
from polvet.report.termination import proof_parts

FAILURES = {
    "claim": "The last action does otherwise than its rule says.",
    "stuck": "In the last state no applicable action does what a rule says, and the goal is not reached.",
    "cycle": "The last state has been there before: these steps can be repeated for ever.",
}
MAX_STEPS = 500


def general_page(path: Path, certificate: Mapping[str, Any], task: Path | None) -> Page:
    """Return the page; the verdict on top is what the independent checker says about the certificate."""
    if task is None:
        raise InputError(
            "the certificate speaks of a sketch.", Where(str(path)), "Give the file of its rules with --task."
        )
    subjects = Subjects(task)
    result = check(dict(certificate), subjects, Where(str(path)))
    holds = certificate["kind"] == "general"
    parts: tuple[Part, ...] = ()
    if isinstance(result, Accepted):
        word, level, sort = ("Holds", "Proved", "good") if holds else ("Refuted", "Found", "bad")
        claim = f"{result.claim[:1].upper() + result.claim[1:]}. The checker has accepted this certificate."
        sketch = read_sketch(read_text(task), Where(str(task)))
        # Only what the checker has read through is shown: a rejected certificate may hold anything.
        shown = _problems(certificate) if holds else _run(sketch, certificate)
        parts = (shown, _rules(sketch), *(proof_parts(certificate, subjects) if holds else ()))
    else:
        word, level, sort = "Rejected", "Not proved", "bad"
        claim = f"The checker rejects this certificate: {result.reason}."
    body = f"<p>{text(claim)}</p><p>Check it yourself:</p>{code(f'polvet certify {path} --task {task}')}"
    return Page(f"{task.name} in problems of PDDL", card(sort, level, word, body), parts)


def _problems(certificate: Mapping[str, Any]) -> Part:
    rows = []
    for entry in certificate["problems"]:
        ranks = [int(place[2]) for place in entry["places"]]
        rows.append((text(entry["name"]), f"{len(ranks):,}", f"{max(ranks, default=0):,}"))
    head = "problem", "states that the rules come to", "steps of the longest run, at most"
    body = (
        "<p>In each of these problems every step does what its rule says, there always is one, and every run ends in the goal. Of other "
        "problems it is proved that the rules end, not where.</p>" + table(head, rows, "Problems", numbers=True)
    )
    return Part("problems", "Problems", section("problems", "Where the rules were followed", body))


def _rules(sketch: Sketch) -> Part:
    body = code(read_text(Path(sketch.where.file)).strip())
    return Part("rules", "Rules", section("rules", "The features and the rules", body))


def _run(sketch: Sketch, certificate: Mapping[str, Any]) -> Part:
    entry = certificate["problem"]
    domain = parse_domain(certificate["domain"], Where("domain"))
    instance: Instance = read_instance(entry["text"], Where(entry["name"]), domain)
    values = Valuations(sketch, meanings_of(sketch, {}), instance)
    back, rows = certificate.get("back_to"), []
    actions = [*certificate["actions"], ""]
    for step, ((memory, bits), action) in enumerate(zip(certificate["places"], actions, strict=True)):
        state = int(bits, 16)
        known = zip(sketch.features.names, values(state), strict=True)
        valuation = ", ".join(f"{name} = {value}" for name, value in known) + (f", in {memory}" if memory else "")
        last = step == len(actions) - 1
        then = f"back to {back}" if last and certificate["failure"] == "cycle" else action
        rows.append((str(step), text(instance.show(state)), text(valuation), text(then)))
    left = len(rows) - MAX_STEPS
    body = f"<p>{FAILURES[certificate['failure']]}</p>" + table(
        ("step", "state", "features", "action"),
        rows[:MAX_STEPS],
        f"A run in {entry['name']}" + (f" ({left:,} steps left out)" if left > 0 else ""),
    )
    return Part("run", "Run", section("run", "What goes wrong", body))
