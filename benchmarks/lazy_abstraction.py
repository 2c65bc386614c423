"""The method `abstraction` before and after it became lazy, and `ic3`, on the same instances under the same limit of CPU seconds.

*Before* is the file of an earlier revision, taken out of the history: one set of predicates, built anew with every new one. Each question
runs in a process of its own on one thread (`cpu_limited`); reading the model is not counted, and is the same for all three.
    python -m benchmarks.lazy_abstraction [--only REGEX] [--limit 8]     # writes results/lazy-abstraction.{json,md}
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.cpu_limited import answer
from benchmarks.verification_policies import FOLDER, tasks
from polvet import load
from polvet.budget import Budget
from polvet.domains.shipped import shipped_files
from polvet.policy.binding import load_fitted
from polvet.policy.compiled import Bound, compile_policy
from polvet.verify.abstraction import ABSTRACTION
from polvet.verify.ic3 import IC3
from polvet.verify.linearized import linearized
from polvet.verify.method import Method, Request
from polvet.verify.slicing import sliced

RESULTS = Path(__file__).resolve().parent / "results"
REFERENCE = "3ec25b34"
OLD_FILE = "src/polvet/verify/abstraction.py"
WHO = ("before", "after", "ic3")
READING_SECONDS = 120.0
LINES = [
    (f"one-way-line-8-5-{kind}", "one-way-line-8-5.toml", f"one-way-line-8-5-{kind}.json")
    for kind in ("faulty", "good")
]


def names(only: str) -> list[str]:
    """Return the instances that match."""
    networks = [path.stem for path in sorted(FOLDER.glob("*.onnx")) if "tanh" not in path.stem]
    return [name for name in (*networks, *(line[0] for line in LINES)) if re.search(only, name)]


def bound_of(name: str) -> Bound:
    """Return an instance."""
    for line, task_file, policy_file in LINES:
        if line == name:
            files = {file.name: file for file in shipped_files()}
            return load(files[task_file]).policy(files[policy_file]).bound
    task = next(task for instance, task in tasks() if instance == name)
    return compile_policy(load_fitted(task, FOLDER / f"{name}.onnx"))


def prepare(question: dict[str, Any]) -> Callable[[], Any]:
    """Return the verification that is measured: called in the process that has the limit."""
    part = sliced(bound_of(question["instance"])).bound
    linear = linearized(part, Budget(READING_SECONDS))
    method = _method(question["who"], question["file"])

    def ask() -> Any:
        found = method(part, Request(linear=linear))
        kept = ("refinements", "abstract_states", "blocked", "obligations")
        figures = {key: found.figures[key] for key in kept if key in found.figures}
        return {"verdict": found.verdict.value, **figures}

    return ask


def _method(who: str, file: str) -> Method:
    if who != "before":
        return ABSTRACTION if who == "after" else IC3
    spec = importlib.util.spec_from_file_location("abstraction_before", file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    method: Method = module.ABSTRACTION
    return method


def measure(only: str, limit: float) -> Iterator[dict[str, Any]]:
    """Yield a row for each instance, all three asked in turn."""
    with TemporaryDirectory() as folder:
        old = Path(folder) / "abstraction_before.py"
        old.write_bytes(subprocess.check_output(["git", "show", f"{REFERENCE}:{OLD_FILE}"]))
        for name in names(only):
            row: dict[str, Any] = {"instance": name, "limit": limit}
            for who in WHO:
                question = {"instance": name, "who": who, "file": str(old)}
                row[who] = answer("benchmarks.lazy_abstraction:prepare", question, limit)
            print(json.dumps(row), flush=True)
            yield row


def table(document: dict[str, Any]) -> str:
    """Return the figures as Markdown."""
    rows, summary = document["rows"], document["summary"]
    lines = [
        "# Lazy abstraction", "",
        f"`python -m benchmarks.lazy_abstraction`: verdict and CPU seconds, {document['limit']:g} CPU seconds for everybody, one thread. "
        f"`-`: not within the limit. *Before*: {document['reference']}, predicates for all abstract states, restarted with every new one.",
        "", "| instance | abstraction, before | abstraction | refinements | abstract states | ic3 |", "|---" * 6 + "|",
    ]  # fmt: skip
    for row in rows:
        after = row["after"]["answer"]
        told = [after.get(key, "") for key in ("refinements", "abstract_states")] if decides(row["after"]) else ["", ""]
        cells = [row["instance"], text(row["before"]), text(row["after"]), *told, text(row["ic3"])]
        lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    lines.append("| **decided** | " + f"{summary['before']} of {len(rows)} | {summary['after']} of {len(rows)} | | | "
                 f"{summary['ic3']} of {len(rows)} |")  # fmt: skip
    return "\n".join(lines) + "\n"


def decides(cell: dict[str, Any]) -> bool:
    """Return whether the verdict is safe or unsafe."""
    return isinstance(cell["answer"], dict) and cell["answer"]["verdict"] != "unknown"


def text(cell: dict[str, Any]) -> str:
    """Return verdict and seconds."""
    return f"{cell['answer']['verdict']} {cell['seconds']:.2f}" if decides(cell) else "-"


def write(rows: list[dict[str, Any]], limit: float) -> None:
    """Write the figures, and the page made of them."""
    rows = sorted(rows, key=lambda row: row["instance"])
    summary = {who: sum(decides(row[who]) for row in rows) for who in WHO}
    document = {"limit": limit, "reference": REFERENCE, "rows": rows, "summary": summary}
    (RESULTS / "lazy-abstraction.json").write_text(json.dumps(document, indent=1) + "\n")
    (RESULTS / "lazy-abstraction.md").write_text(table(document))


def main() -> None:
    """Measure what is asked for; rows measured before under the same limit are kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a regular expression for instances")
    parser.add_argument("--limit", type=float, default=8.0)
    chosen = parser.parse_args()
    file = RESULTS / "lazy-abstraction.json"
    before = json.loads(file.read_text())["rows"] if file.exists() else []
    kept = {row["instance"]: row for row in before if row["limit"] == chosen.limit}
    for row in measure(chosen.only, chosen.limit):
        kept[row["instance"]] = row
        write(list(kept.values()), chosen.limit)


if __name__ == "__main__":
    main()
