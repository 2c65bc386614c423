"""What has to be trusted for each kind of certificate, before and now: modules and lines that decide, that read, that are loaded.

    python -m benchmarks.trusted_base [--reference 8214df5] [-o benchmarks/results/trusted-base.json]

The words are those of `tests.check.closure`, which reads both trees. One certificate of each kind is made by today's engines; what is
loaded when it is checked is measured in a process of its own, in the reference, too, where that accepts the certificate.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from contextlib import redirect_stdout
from dataclasses import asdict
from pathlib import Path

from tests.check.closure import Base, Size, bases, shares, with_loaded
from tests.check.kinds import make_all

from benchmarks.quick import interpreter, reference_build

RESULTS = Path(__file__).resolve().parent / "results"
SORTS = ("lasso", "safe-policy", "run", "invariant")
"""Kinds about plans, states, listed states of a policy, and sets of states of a policy."""
COLUMNS = ("decides", "reads", "loaded")


def table(now: dict[str, Base], before: dict[str, Base]) -> str:
    """Return lines of code by kind, before and now, as Markdown."""
    lines = [
        "| kind | decides, before | decides | could read, before | could read | loaded, before | loaded |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for kind, base in now.items():
        old = before.get(kind)
        cells = (shown(one, column) for column in COLUMNS for one in (old, base))
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def rooms(now: dict[str, dict[str, int]], before: dict[str, dict[str, int]]) -> str:
    """Return which rooms decide how many lines, as Markdown: of one kind of each sort, before and now."""
    lines = ["| what decides | room by room, before | room by room |", "|---|---|---|"]
    for kind in SORTS:
        cells = (", ".join(f"{room} {count:,}" for room, count in one[kind].items()) for one in (before, now))
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def shown(base: Base | None, column: str) -> str:
    """Return the lines of one column; nothing where they were not measured."""
    size: Size | None = None if base is None else getattr(base, column)
    return "" if size is None else f"{size.lines:,}"


def main() -> None:
    """Measure both trees and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reference", default="8214df5", help="a revision")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "trusted-base.json")
    given = parser.parse_args()
    reference = reference_build(given.reference)
    command, environment, _ = interpreter(reference)
    with tempfile.TemporaryDirectory() as folder:
        with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
            words = make_all(Path(folder))
        now = with_loaded(bases(), words)
        before = with_loaded(bases(reference / "src"), words, command=command, environment=environment)
    by_room = shares(), shares(reference / "src")
    report = {"reference": given.reference, "now": as_data(now), "before": as_data(before), "rooms": by_room}
    given.output.write_text(json.dumps(report, indent=1) + "\n")
    text = table(now, before) + "\n" + rooms(*by_room)
    given.output.with_suffix(".md").write_text(text)
    print(text)


def as_data(found: dict[str, Base]) -> dict[str, object]:
    """Return the bases as JSON."""
    return {kind: asdict(base) for kind, base in found.items()}


if __name__ == "__main__":
    main()
