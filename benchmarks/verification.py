"""Measure verification: every method on every instance, and single questions against the solvers of the paper.

Run `python -m benchmarks.verification` (Marabou is left out where maraboupy is not installed); it writes
`results/verification.json` and `results/verification.md`. All methods run one after the other on the same machine;
rows measured before are kept, each with the limit it was given. The configurations Base, Mar+Z3, Mar+Z3(Mar), BnB(Mar) and Mar are
those of policy predicate abstraction (Table 1), over the predicates of start and fail, refined as our own abstraction is; `states`
counts what explicit verification visits. `benchmarks.verification_loop` verifies the final policies of the debugging loop.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import re
import time
from collections.abc import Iterator, Sequence
from math import exp, log
from pathlib import Path
from typing import Any

from benchmarks.verification_policies import FOLDER, instances
from polvet.budget import Budget
from polvet.policy.binding import load_fitted
from polvet.policy.compiled import Bound, compile_policy
from polvet.symbolic.cells import Cell
from polvet.verify.abstraction import Options, PaperTests, abstraction
from polvet.verify.box_tester import BoxTester
from polvet.verify.linearized import linearized
from polvet.verify.method import Request
from polvet.verify.methods import PAPER_CONFIGURATIONS
from polvet.verify.portfolio import verify
from polvet.verify.questions import No, Patience, Reply, Yes, answer_one_by_one
from polvet.verify.slicing import sliced

RESULTS = Path(__file__).resolve().parent / "results"
OURS = ("auto", "explicit", "induction", "ic3", "abstraction")
READING_SECONDS = 60.0
MARABOU = importlib.util.find_spec("maraboupy") is not None


def tasks() -> Iterator[tuple[str, Bound]]:
    """Yield every instance whose network is there."""
    for name, task, _, _, _ in instances():
        path = FOLDER / f"{name}.onnx"
        if path.exists():
            yield name, compile_policy(load_fitted(task, path))


def measure_methods(
    name: str, bound: Bound, methods: Sequence[str], seconds: float, paper_seconds: float
) -> list[dict[str, Any]]:
    """Return one row per method: verdict, seconds, figures."""
    rows = []
    for method in (method for method in OURS if method in methods):
        begun = time.monotonic()
        found = verify(bound, method=method, budget=Budget(seconds, 12_000), threads=2)
        rows.append(
            {
                "instance": name, "method": method, "verdict": found.verdict.value,
                "seconds": round(time.monotonic() - begun, 3), "by": found.method,
                "states": found.figures.get("states"), "reason": getattr(found, "reason", None), "limit": seconds,
            }
        )  # fmt: skip
        print(name, method, rows[-1]["verdict"], rows[-1]["seconds"], flush=True)
    part = sliced(bound).bound
    linear = linearized(part, Budget(READING_SECONDS))
    for configuration in PAPER_CONFIGURATIONS:
        if configuration not in methods or ("Mar" in configuration and not MARABOU):
            continue
        if isinstance(linear, str):
            row = {"instance": name, "method": configuration, "verdict": "unknown", "seconds": 0, "reason": linear}
            rows.append({**row, "limit": paper_seconds})
            continue
        begun = time.monotonic()
        found = abstraction(options=Options(configuration))(part, Request(Budget(paper_seconds), linear=linear))
        closed = found.figures.get("abstract_verdict") == "safe"
        verdict = "safe (their word)" if closed else found.verdict.value
        rows.append(
            {
                "instance": name, "method": configuration, "verdict": verdict,
                "seconds": round(time.monotonic() - begun, 3), "reason": getattr(found, "reason", None),
                "limit": paper_seconds,
            }
        )  # fmt: skip
        print(name, configuration, rows[-1]["verdict"], rows[-1]["seconds"], flush=True)
    return rows


class Recorder:
    """A tester that remembers what was asked."""

    def __init__(self, tester: BoxTester) -> None:
        self.tester = tester
        self.asked: list[tuple[Cell, int]] = []

    def answer_all(self, asked: Sequence[tuple[Cell, int]]) -> list[Reply]:
        return answer_one_by_one(self, asked)

    def has_state(self, cell: Cell) -> Reply:
        """Pass the question on."""
        return self.tester.has_state(cell)

    def chooses_in(self, cell: Cell, label: int) -> Reply:
        """Pass the question on, and remember it."""
        self.asked.append((cell, label))
        return self.tester.chooses_in(cell, label)


def measure_questions(name: str, bound: Bound, count: int, seconds: float) -> list[dict[str, Any]]:
    """Return per question the time and answer of our engine and of the paper's exact tests."""
    from polvet.verify.abstraction import Expansion, Stopped
    from polvet.verify.predicates import predicates_of

    part = sliced(bound).bound
    task = linearized(part, Budget(READING_SECONDS))
    if isinstance(task, str):
        print(name, task, flush=True)
        return []
    recorder = Recorder(BoxTester(part, task, Patience(Budget(20.0))))
    predicates = predicates_of((*task.fail, *task.start), task.system.bounds)
    try:
        Expansion(task, predicates, recorder, Options()).build()
    except Stopped:
        print(name, "questions up to the limit", flush=True)
    asked = list(dict.fromkeys(recorder.asked))
    asked = random.Random(0).sample(asked, min(count, len(asked)))
    testers: dict[str, Any] = {"polvet": BoxTester(part, task, Patience(each=seconds))}
    for configuration in ("Base", "Mar+Z3(Mar)", "BnB(Mar)"):
        if "Mar" not in configuration or MARABOU:
            testers[configuration] = PaperTests(part, task, Options(configuration), Patience(each=seconds))
    rows = []
    for cell, label in asked:
        row: dict[str, Any] = {"instance": name}
        for who, tester in testers.items():
            warm_up(tester)
            begun = time.perf_counter()
            reply = tester.chooses_in(cell, label)
            spent = time.perf_counter() - begun
            answer = "yes" if isinstance(reply, Yes) else "no" if isinstance(reply, No) else None
            row[who] = {"seconds": spent, "answer": answer}
        rows.append(row)
    for tester in testers.values():
        if isinstance(tester, PaperTests):
            tester.close()
    return rows


def warm_up(tester: Any) -> None:
    """Start the solvers' processes where they do not run, so that no question pays for it."""
    if isinstance(tester, PaperTests):
        tester.z3.worker.ask({"query": "(assert false)"}, 60)
        if tester.marabou is not None:
            tester.marabou.worker.ask(tester.marabou.worker.setup or {}, 60)


def geometric_mean(values: list[float]) -> float:
    """Return the geometric mean."""
    return exp(sum(map(log, values)) / len(values))


def summarize(questions: list[dict[str, Any]]) -> dict[str, Any]:
    """Return per solver: how many answered, how much slower than polvet on commonly answered ones, and contradictions."""
    found: dict[str, Any] = {}
    for who in ("polvet", "Base", "Mar+Z3(Mar)", "BnB(Mar)"):
        mine = [row for row in questions if who in row]
        answered = [row for row in mine if row[who]["answer"] is not None]
        both = [row for row in answered if row["polvet"]["answer"] is not None]
        found[who] = {
            "asked": len(mine), "answered": len(answered),
            "ratio": round(geometric_mean([r[who]["seconds"] / r["polvet"]["seconds"] for r in both]), 1) if both else None,
            "differing": sum(row[who]["answer"] != row["polvet"]["answer"] for row in both),
        }  # fmt: skip
    return found


def write(rows: list[dict[str, Any]], questions: list[dict[str, Any]], seconds: float, paper_seconds: float) -> None:
    """Write the figures and the page made of them."""
    RESULTS.mkdir(exist_ok=True)
    document = {
        "limit": seconds,
        "paper_limit": paper_seconds,
        "methods": rows,
        "questions": questions,
        "summary": summarize(questions),
    }
    (RESULTS / "verification.json").write_text(json.dumps(document, indent=1) + "\n")
    (RESULTS / "verification.md").write_text(table(document))


def table(document: dict[str, Any]) -> str:
    """Return the figures as Markdown."""
    rows, summary = document["methods"], document["summary"]
    methods = [method for method in (*OURS, *PAPER_CONFIGURATIONS) if any(row["method"] == method for row in rows)]
    lines = [
        "# Verification", "",
        f"Verdict and seconds; limits of {_span(rows, OURS)} s (our methods) and {_span(rows, PAPER_CONFIGURATIONS)} s (the paper's "
        "configurations, predicates of start and fail, refined), on a busy machine. `-`: not decided, empty: not asked, *not read*: the "
        "model was not read as linear data in a minute. *Safe (their word)*: the abstraction closes with answers of Z3 or Marabou.", "",
        "| instance | " + " | ".join(methods) + " |", "|---" * (len(methods) + 1) + "|",
    ]  # fmt: skip
    for name in sorted({row["instance"] for row in rows}):
        shown = []
        for method in methods:
            row = next((r for r in rows if r["instance"] == name and r["method"] == method), None)
            if row is None:
                shown.append("")
            else:
                unread = "linear data" in (row["reason"] or "") and row["seconds"] == 0
                told = (
                    "not read"
                    if unread
                    else "-"
                    if row["verdict"] == "unknown"
                    else f"{row['verdict']} {row['seconds']:.2f}"
                )
                shown.append(told)
        lines.append(f"| {name} | " + " | ".join(shown) + " |")
    lines += ["", "Single questions (does the policy choose this label in this cell?), asked of all in turn:", "",
              "| solver | asked | answered | times slower than polvet (geometric mean, commonly answered) | other answer |",
              "|---|---|---|---|---|"]  # fmt: skip
    for who, one in summary.items():
        lines.append(f"| {who} | {one['asked']} | {one['answered']} | {one['ratio']} | {one['differing']} |")
    return "\n".join(lines) + "\n"


def _span(rows: list[dict[str, Any]], methods: Sequence[str]) -> str:
    """Return the least and greatest limits of the methods' rows."""
    limits = [row["limit"] for row in rows if row["method"] in methods]
    return f"{min(limits):g} to {max(limits):g}"


def main() -> None:
    """Measure everything."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--paper-seconds", type=float, default=60.0)
    parser.add_argument("--questions", type=int, default=12)
    parser.add_argument("--methods", default=",".join((*OURS, *PAPER_CONFIGURATIONS)), help="a list with commas")
    parser.add_argument("--only", default="", help="a regular expression for instances")
    options = parser.parse_args()
    file = RESULTS / "verification.json"
    before = json.loads(file.read_text()) if file.exists() else {"methods": [], "questions": []}
    rows, questions = before["methods"], before["questions"]
    methods = options.methods.split(",")
    for name, bound in tasks():
        if not re.search(options.only, name):
            continue
        if options.questions:
            asked = measure_questions(name, bound, options.questions, options.paper_seconds)
            questions = [row for row in questions if row["instance"] != name] + asked
        fresh = measure_methods(name, bound, methods, options.seconds, options.paper_seconds)
        done = {(row["instance"], row["method"]) for row in fresh}
        rows = [row for row in rows if (row["instance"], row["method"]) not in done] + fresh
        write(rows, questions, options.seconds, options.paper_seconds)
    write(rows, questions, options.seconds, options.paper_seconds)


if __name__ == "__main__":
    main()
