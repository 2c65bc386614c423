"""`verify --method auto` under short limits: does it decide what one of its methods decides alone in a sixth of the limit?

*Alone*: the quickest method of the portfolio on every instance of `benchmarks.verification` (and, with the shortest limit, of Table 2 of
`benchmarks.predicate_abstraction`), each in a process of its own on one thread, with the sixth part of the longest limit, and stopped
where one before was quicker. *Auto*: the portfolio with each limit. Limits are CPU seconds, also inside kernels (`cpu_clock`); start-up
and loading are not counted.
    python -m benchmarks.portfolio [--label after] [--only REGEX]     # writes results/portfolio.{json,md}
Rows with another label are those of an earlier revision of `verify/portfolio.py`, measured by this file; rows measured before are kept.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.cpu_clock import with_cpu_clock
from benchmarks.cpu_limited import Say, forked
from benchmarks.lazy_abstraction import bound_of
from polvet.budget import Budget
from polvet.policy.compiled import Bound
from polvet.verify import methods as registry
from polvet.verify.portfolio import verify

RESULTS = Path(__file__).resolve().parent / "results"
FILE = RESULTS / "portfolio.json"
METHODS = ("explicit", "projection", "induction", "abstraction", "ic3")
LIMITS = (3.0, 10.0, 60.0)
PART = 6
MEGABYTES = 4_000
GRACE = 0.5
"""Seconds beyond the limit after which a method that did not look at the clock is stopped."""
LABELS = ("before", "after")


def instances() -> Iterator[tuple[str, tuple[float, ...]]]:
    """Yield the instances of `benchmarks.verification` with all limits, and those of Table 2 alone with the shortest."""
    rows = json.loads((RESULTS / "verification.json").read_text(encoding="utf-8"))["methods"]
    names = dict.fromkeys(row["instance"] for row in rows)
    yield from ((name, LIMITS) for name in names)
    others = json.loads((RESULTS / "predicate-abstraction.json").read_text(encoding="utf-8"))
    table = dict.fromkeys(row["instance"] for row in others if row["part"] == "lengths")
    yield from ((name, LIMITS[:1]) for name in table if name not in names)


def measure(bound: Bound, method: str, limit: float) -> dict[str, Any]:
    """Return verdict and CPU seconds of a method with a limit."""

    def work(_: Say) -> dict[str, Any]:
        result = verify(bound, method=method, budget=Budget(limit, MEGABYTES))
        return {"verdict": result.verdict.value, "by": result.method, "reason": getattr(result, "reason", None)}

    answer, seconds = forked(work, limit + 2 * GRACE)
    verdict = (
        "unknown" if answer is None or seconds > limit + GRACE else answer["verdict"]
    )  # it is late by a grace at most
    told = {key: answer and answer[key] for key in ("by", "reason")}
    return {"verdict": verdict, "seconds": round(seconds, 3), **told}


def key(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return what tells a row apart."""
    return row["instance"], row["method"], row["limit"], row.get("label")


def missing(label: str, only: str, rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the rows that have not been measured, measured."""
    known = {key(row): row for row in rows}
    for name, limits in instances():
        if not re.search(only, name):
            continue
        heads = [{"instance": name, "method": method, "limit": limits[-1] / PART} for method in METHODS]
        heads += [{"instance": name, "method": "auto", "limit": limit, "label": label} for limit in limits]
        if all(key(head) in known for head in heads):
            continue
        bound, best = bound_of(name), limits[-1] / PART
        for head in heads:
            row = known.get(key(head))
            if row is None:
                row = head | measure(bound, head["method"], head["limit"] if head["method"] == "auto" else best)
                yield row
            if head["method"] != "auto" and row["verdict"] != "unknown":
                best = min(best, row["seconds"])


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the figures as Markdown."""
    by_key = {key(row): row for row in rows}
    labels = [label for label in LABELS if any(row.get("label") == label for row in rows)]
    columns = [(limit, label) for limit in LIMITS for label in labels]
    alone = f"{LIMITS[-1] / PART:g}"
    lines = [
        "# The portfolio under short limits", "",
        "`python -m benchmarks.portfolio`: CPU seconds, one thread. `-`: not decided within the limit; empty: not asked. "
        f"*Alone*: the quickest method, with {alone} s (where *auto* has only {LIMITS[0]:g} s, {LIMITS[0] / PART:g}). *Owed*: "
        "instances that some method decides alone in a sixth of the limit; *kept*: how many of these `auto` decides. *Before*: the "
        "shares as they were (explicit 0.3 of what is left, projection 0.3, induction 0.2, abstraction 0.2, ic3 0.4, then explicit "
        "again).", "",
        "| limit | `auto` | decided | owed | kept | CPU s |", "|---:|---|---:|---:|---:|---:|",
    ]  # fmt: skip
    for limit, label in columns:
        mine = [row for row in rows if row["method"] == "auto" and row["limit"] == limit and row["label"] == label]
        decided = [row for row in mine if row["verdict"] != "unknown"]
        owed = [row for row in mine if (best := quickest(row["instance"], by_key)) and best["seconds"] <= limit / PART]
        kept = [row for row in owed if row["verdict"] != "unknown"]
        spent = sum(row["seconds"] for row in mine)
        lines.append(
            f"| {limit:g} | {label} | {len(decided)} of {len(mine)} | {len(owed)} | {len(kept)} | {spent:.1f} |"
        )
    heads = [f"{limit:g} s, {label}" for limit, label in columns]
    lines += ["", "| instance | alone | " + " | ".join(heads) + " |", "|---" * (len(heads) + 2) + "|"]
    for name in dict.fromkeys(row["instance"] for row in rows):
        best = quickest(name, by_key)
        cells = [name, f"{best['method']} {best['seconds']:.2f}" if best else "-"]
        cells += [cell(by_key.get((name, "auto", limit, label))) for limit, label in columns]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def quickest(name: str, rows: dict[Any, dict[str, Any]]) -> dict[str, Any] | None:
    """Return the row of the method that decides first alone."""
    mine = [row for row in rows.values() if row["instance"] == name and row["method"] != "auto"]
    decided = [row for row in mine if row["verdict"] != "unknown"]
    return min(decided, key=lambda row: row["seconds"], default=None)


def cell(row: dict[str, Any] | None) -> str:
    """Return who decided, and when."""
    if row is None:
        return ""
    return "-" if row["verdict"] == "unknown" else f"{row['by']} {row['seconds']:.2f}"


def main() -> None:
    """Measure what is missing, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--label", choices=LABELS, default="after")
    parser.add_argument("--only", default="", help="a regular expression for instances")
    options = parser.parse_args()
    with_cpu_clock()
    for name in METHODS:  # imported here, so that no measurement pays for it
        registry.METHODS[name]
    rows: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else []
    for row in missing(options.label, options.only, list(rows)):
        print(json.dumps(row), file=sys.stderr, flush=True)
        rows.append(row)
        FILE.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    (RESULTS / "portfolio.md").write_text(table(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
