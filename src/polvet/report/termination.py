"""The page of a certificate of `polvet terminates`: the policy's graph with the ranking, or with the lasso, highlighted."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from polvet.check.checker import Accepted, Rejected, Subjects, check
from polvet.check.counters import find_subject
from polvet.errors import InputError, Where
from polvet.policy.finite_memory import Choice, FiniteMemoryPolicy
from polvet.policy.finite_memory.draw import edge_label
from polvet.report.graph import in_figure
from polvet.report.markup import card, code, plural, section, table, text
from polvet.report.page import Page, Part
from polvet.report.rounds import (
    MAX_EDGES,
    Round,
    can_draw,
    plan_drawing,
    round_drawing,
    rounds_of_ranking,
    rounds_of_trace,
    short_names,
)

MAX_ROUNDS = 12
WORDS = {
    "lex-rank": ("Terminating", "good"),
    "lasso": ("Does not terminate", "bad"),
    "goal-reaching": ("Reaches the goal", "good"),
    "goal-missed": ("Misses the goal", "bad"),
    "solves": ("Solves the problem", "good"),
}


def termination_page(path: Path, certificate: Mapping[str, Any], task: Path | None, policy: Path | None) -> Page:
    """Return the page; the verdict on top is what the independent checker says about the certificate."""
    subjects = Subjects(task, policy)
    result = check(dict(certificate), subjects, Where(str(path)))
    plan = _plan(certificate, subjects, Where(str(path)))
    if isinstance(result, Accepted):
        word, sort = WORDS[certificate["kind"]]
        claim = (
            f"<p>{text(result.claim[:1].upper() + result.claim[1:])}. The checker has accepted this certificate.</p>"
        )
        level = "Proved"
    else:
        word, level, sort = "Rejected", "Not proved", "bad"
        claim = f"<p>The checker rejects this certificate: {text(result.reason)}.</p>"
    command = f"polvet certify {path}" + (f" --task {task}" if task else "") + (f" --policy {policy}" if policy else "")
    head = card(sort, level, word, f"{claim}<p>Check it yourself:</p>{code(command)}")
    # Only what the checker has read through is drawn: a rejected certificate may hold anything.
    parts = proof_parts(certificate, subjects) if isinstance(result, Accepted) else (_graph(plan, {}),)
    return Page(f"Termination of {plan.name}", head, parts)


def _plan(certificate: Mapping[str, Any], subjects: Subjects, where: Where) -> FiniteMemoryPolicy:
    endless = certificate["kind"] == "lasso"
    plan = find_subject(
        certificate,
        subjects,
        about_every_run=certificate["kind"] in ("lex-rank", "general"),
        about_endless_run=endless,
    )
    if isinstance(plan, Rejected):
        raise InputError(plan.reason, where, "Give the finite-memory policy with --task.")
    return plan


def proof_parts(certificate: Mapping[str, Any], subjects: Subjects) -> tuple[Part, ...]:
    """Return the graph, and the ranking with its rounds or the run, of a certificate that was accepted."""
    plan = _plan(certificate, subjects, Where("certificate"))
    parts = [_graph(plan, certificate)]
    if certificate.get("components"):
        parts.append(_ranking(certificate))
        drawn = _rounds(plan, certificate)
        parts += [] if drawn is None else [drawn]
    if certificate["kind"] == "lasso":
        parts.append(_lasso(certificate))
    if certificate["kind"] == "goal-missed":
        parts.append(_missed(certificate))
    return tuple(parts)


def _graph(plan: FiniteMemoryPolicy, certificate: Mapping[str, Any]) -> Part:
    marks, called = marks_of(plan, certificate), short_names(plan)
    rows = [
        (
            text(edge.id),
            text(called[edge.source]),
            text(called[edge.target]),
            text(edge_label(edge)),
            text(SAYS.get(marks.get(edge.id, ""), "")),
        )
        for edge in plan.edges[:MAX_EDGES]
    ]
    body = ""
    if can_draw(plan):
        title = f"{plan.name}: {plural(len(plan.control_states), 'control state')}, {plural(len(plan.edges), 'edge')}"
        body += in_figure(plan_drawing(plan, marks), title)
        if certificate.get("kind") == "goal-missed":
            body += "<p>Dashed: the run that stops outside the goal.</p>" if marks else ""
        elif "cycle" in marks.values():
            body += "<p>Dashed: the way to the cycle. Thick: the cycle that can be repeated for ever.</p>"
        elif marks:
            body += "<p>Thick: edges that always lower the rank of their component, so they are taken only finitely often.</p>"
    else:
        body += "<p>The graph is too large to draw; its edges are listed.</p>"
    if any(name != number for name, number in called.items()):
        states = [(text(number), text(name)) for name, number in list(called.items())[:MAX_EDGES]]
        body += table(("number", "control state"), states, "Control states")
    left = len(plan.edges) - len(rows)
    body += table(
        ("edge", "from", "to", "guard and effects", "role"), rows, "Edges" + (f" ({left:,} left out)" if left else "")
    )
    return Part("graph", "Graph", section("graph", "The policy's graph", body))


SAYS = {"prefix": "on the way", "cycle": "on the cycle", "falls": "lowers the rank"}


def marks_of(plan: FiniteMemoryPolicy, certificate: Mapping[str, Any]) -> dict[Any, str]:
    """Return how each edge is to be drawn: on the lasso, or as one that lowers the rank of a component, at whatever depth."""
    if certificate.get("kind") in ("lasso", "goal-missed"):
        return _marked(certificate)
    marks: dict[Any, str] = {}
    agenda = list(certificate.get("components", []))
    while agenda:
        entry = agenda.pop()
        agenda += entry.get("children", [])
        marks |= dict.fromkeys(falling(plan, entry), "falls")
    return marks


def falling(plan: FiniteMemoryPolicy, entry: Mapping[str, Any]) -> list[Any]:
    """Return the edges all of whose choices lower the rank of the component."""
    potential = entry.get("potential", {})
    weights = {name: int(value) for name, value in entry.get("lambda", {}).items()}
    names = []
    for edge in plan.edges:
        if edge.source in potential and edge.target in potential:
            step = int(potential[edge.target]) - int(potential[edge.source])
            if all(_highest(plan, choice, weights) + step < 0 for choice in edge.choices):
                names.append(edge.id)
    return names


def rounds_of(plan: FiniteMemoryPolicy, certificate: Mapping[str, Any]) -> tuple[Round, ...]:
    """Return the rounds to be drawn: GenSieve's where they are told, else the levels of the ranking; none without a proof."""
    if not can_draw(plan) or certificate.get("tracked"):
        return ()
    if (trace := certificate.get("rounds")) is not None:
        return rounds_of_trace(plan, trace)
    return rounds_of_ranking(plan, certificate.get("components", []), partial(falling, plan))


def _rounds(plan: FiniteMemoryPolicy, certificate: Mapping[str, Any]) -> Part | None:
    try:
        rounds = rounds_of(plan, certificate)[:MAX_ROUNDS]
    except (KeyError, TypeError, IndexError, ValueError, AttributeError):
        return None  # what GenSieve told is not read by the checker: it may be anything
    if not rounds:
        return None
    sentence = (
        "as GenSieve told them; what is checked is the ranking"
        if "rounds" in certificate
        else "a level of the ranking each"
    )
    body = f"<p>The rounds of the proof, {sentence}. Dashed: removed in this round. Faint: gone before, or on no cycle.</p>"
    for number, one in enumerate(rounds, start=1):
        body += in_figure(round_drawing(plan, one, number), f"round {number}: {one.note}")
    return Part("rounds", "Rounds", section("rounds", "Round by round", body))


def _highest(plan: FiniteMemoryPolicy, choice: Choice, weights: Mapping[str, int]) -> float:
    """The most that a choice can add to the weighted sum."""
    most = 0.0
    for name, weight in weights.items():
        effect = plan.effect(choice, name)
        end = effect.high if weight > 0 else effect.low
        most += 0 if weight == 0 else inf if end is None else weight * end
    return most


def _marked(certificate: Mapping[str, Any]) -> dict[Any, str]:
    """Which edges are on the prefix or on the cycle of a lasso; a cycle's edge stays one."""

    def identity(item: Any) -> Any:
        return item.get("edge") if isinstance(item, dict) else item

    marks = {identity(item): "prefix" for item in certificate.get("prefix", certificate.get("steps", []))}
    for segment in certificate.get("cycle", []):
        marks |= {identity(item): "cycle" for item in segment["edges"]}
    return marks


def _ranking(certificate: Mapping[str, Any]) -> Part:
    rows: list[tuple[str, ...]] = []
    agenda = [(entry, str(k + 1)) for k, entry in enumerate(certificate["components"])]
    while agenda and len(rows) < 300:
        entry, place = agenda.pop(0)
        weights = entry.get("lambda", {})
        formula = " + ".join(f"{value} · {name}" if value != 1 else name for name, value in weights.items() if value)
        potential = ", ".join(f"{name}: {value}" for name, value in entry.get("potential", {}).items())
        rows.append((text(place), text(", ".join(map(str, entry["states"]))), text(formula or "0"), text(potential)))
        agenda += [(child, f"{place}.{k + 1}") for k, child in enumerate(entry.get("children", []))]
    body = (
        "<p>Inside each component no step raises the rank (the weighted sum of the variables plus the potential of the "
        "control state). Steps that lower it can be taken only finitely often; the others are ranked by the rows below, "
        "1.1 under 1.</p>" + table(("component", "control states", "rank", "potential"), rows, "Lexicographic ranking")
    )
    return Part("ranking", "Ranking", section("ranking", "Why it ends", body))


def _walk(items: Any) -> str:
    """Return the edges of a run in words."""
    names = [str(item.get("edge") if isinstance(item, dict) else item) for item in items]
    return " → ".join(names[:60]) + (f" … ({len(names):,} edges)" if len(names) > 60 else "") or "none"


def _missed(certificate: Mapping[str, Any]) -> Part:
    values = ", ".join(f"{name} = {value}" for name, value in certificate.get("initial_valuation", {}).items())
    rows = [("start", text(f"{certificate['initial_state']}: {values}")), ("edges", text(_walk(certificate["steps"])))]
    body = f"<p>The goal is {text(certificate['goal'])}.</p>" + table(("part", "what"), rows, "The run")
    return Part("run", "Run", section("run", "How it stops outside the goal", body))


def _lasso(certificate: Mapping[str, Any]) -> Part:
    values = ", ".join(f"{name} = {value}" for name, value in certificate.get("initial_valuation", {}).items())

    rows = [("start", text(values), "1"), ("way", text(_walk(certificate.get("prefix", []))), "1")]
    rows += [("cycle", text(_walk(one["edges"])), text(one.get("repeat", 1))) for one in certificate["cycle"][:100]]
    body = (
        "<p>A round of the cycle moves no variable against a bound or a guard on its way, so it can be repeated for ever.</p>"
        + table(("part", "edges", "times in a row"), rows, "The run that never ends")
    )
    return Part("lasso", "Lasso", section("lasso", "Why it need not end", body))
