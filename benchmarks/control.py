"""Real-valued control, nine rows: is the trained policy safe, is the debugged one, by which proof, does the checker accept it?

python -m benchmarks.control [--folder out/table-2] [--rows TEXT] [--seconds S] [--again] [--regions]

The folder is that of `benchmarks.debugging`: policies are trained where they are missing, and what a row's campaign (`ROW-default`) left is
verified beside the trained policy, if there is one. One process, CPU seconds for everybody, also as the limit, so that other
work on the machine ends no row early. Beside the checker's word, runs are simulated from 10,000 start states.
With --regions, only the starts from which unsafe trained policies are safe are sought (`polvet verify --region`), in rows that are
there already; what these hold besides stays. Results: benchmarks/results/control.{json,md}.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.teachers import Row, policy_of, rows
from polvet.budget import Budget
from polvet.check.checker import Accepted, Subjects, check
from polvet.errors import Where
from polvet.kernel.starts import drawable_starts
from polvet.policy.binding import load_fitted
from polvet.policy.compiled import Bound, compile_policy
from polvet.policy.runs import End, simulate
from polvet.policy.trees import TreeEnsemble
from polvet.sources import load_task
from polvet.verify.certificates import certificate_of
from polvet.verify.portfolio import verify
from polvet.verify.safe_starts import find_safe_starts
from polvet.verify.verdicts import Safe, Unknown, Unsafe

RESULTS = Path(__file__).parent / "results"
DOMAINS = ("bouncing-ball", "inverted-pendulum", "follow-car")
MEGABYTES = 3_000
SAMPLED = 10_000


def main() -> None:
    """Measure what is asked for and write the table; rows already measured are kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("out/table-2"))
    parser.add_argument("--rows", default="", help="only rows whose name matches this regular expression")
    parser.add_argument("--seconds", type=float, default=120, help="CPU seconds for each verification")
    parser.add_argument("--again", action="store_true", help="measure rows anew")
    parser.add_argument("--regions", action="store_true", help="only the safe start regions of unsafe trained policies")
    parser.add_argument("--results", type=Path, default=RESULTS / "control.json")
    chosen = parser.parse_args()
    found: dict[str, Any] = json.loads(chosen.results.read_text()) if chosen.results.exists() else {}
    for row in control_rows():
        if not re.search(chosen.rows, row.name):
            continue
        if chosen.regions:
            if not is_unsafe(found.get(row.name)) or ("region" in found[row.name] and not chosen.again):
                continue
            found[row.name]["region"] = measure_region(row, chosen.folder, chosen.seconds)
        elif row.name in found and not chosen.again:
            continue
        else:
            found[row.name] = measure(row, chosen.folder, chosen.seconds)
        print(row.name, json.dumps(found[row.name]), flush=True)
        ordered = {one.name: found[one.name] for one in control_rows() if one.name in found}
        chosen.results.write_text(json.dumps(ordered, indent=1) + "\n")
    chosen.results.with_suffix(".md").write_text(table(json.loads(chosen.results.read_text())))


def control_rows() -> list[Row]:
    """Return the rows with real values."""
    return [row for row in rows() if row.domain[0] in DOMAINS]


def measure(row: Row, folder: Path, seconds: float) -> dict[str, Any]:
    """Return the figures of the trained policy, and of the debugged one where its campaign is there."""
    task, policy = policy_of(row, folder)
    measured: dict[str, Any] = {"limit": seconds, "trained": judge(task, policy, seconds)}
    campaign = folder / f"{row.slug}-default"
    if (campaign / "outcome.json").exists():
        outcome = json.loads((campaign / "outcome.json").read_text())
        steps = [json.loads(line) for line in (campaign / "figures.jsonl").read_text().splitlines()]
        measured["loop"] = {
            "outcome": outcome["outcome"],
            "repairs": sum(step["step"] == "repair" for step in steps),
            "fence": any(step["step"] == "strengthen" and not step.get("reason") for step in steps),
        }
        measured["debugged"] = judge(task, campaign / "policy.json", seconds)
    return measured


def judge(task: Path, policy: Path, seconds: float) -> dict[str, Any]:
    """Return verdict, evidence and its check, and how many of so many sampled runs fail."""
    bound = compile_policy(load_fitted(load_task(task), policy))
    begun = time.process_time()
    result = verify(bound, budget=Budget(seconds, MEGABYTES, clock=time.process_time))
    one: dict[str, Any] = {
        "verdict": result.verdict.value,
        "method": result.method,
        "cpu_seconds": round(time.process_time() - begun, 1),
        "nodes": nodes_of(bound),
    }
    if isinstance(result, Unknown):
        one["reason"] = result.reason
    if isinstance(result, Safe | Unsafe):
        document = json.dumps(certificate_of(bound, result))
        certificate = json.loads(document)
        one |= {"evidence": certificate["kind"], "kilobytes": round(len(document) / 1000, 1)}
        if "cells" in certificate:
            one |= {"cells": result.figures["cells"], "fenced": "won" in result.figures["tried"][-1]}
        begun = time.process_time()
        said = check(certificate, Subjects(task, policy), Where("certificate"))
        one["checked"] = "accepted" if isinstance(said, Accepted) else "rejected"
        one["check_cpu_seconds"] = round(time.process_time() - begun, 1)
    starts = drawable_starts(bound.task).sample(SAMPLED, random.Random(1))
    ended = simulate(bound, bound.compiled.pack(starts), max_steps=1_000, seed=1)
    one["sampled_failing"] = int(np.sum(ended.ends == End.FAIL))
    return one


def is_unsafe(row: dict[str, Any] | None) -> bool:
    """Return whether the row was measured, and its trained policy shown unsafe."""
    return row is not None and row["trained"]["verdict"] == "unsafe"


def measure_region(row: Row, folder: Path, seconds: float) -> dict[str, Any]:
    """Return which share of the starts is proved safe, which lies in boxes with a start that fails, which is open; and the check."""
    task, policy = policy_of(row, folder)
    bound = compile_policy(load_fitted(load_task(task), policy))
    begun = time.process_time()
    region, certificate = find_safe_starts(bound, budget=Budget(seconds, MEGABYTES, clock=time.process_time))
    assert region.volume is not None
    one: dict[str, Any] = {
        "limit": seconds,
        "cpu_seconds": round(time.process_time() - begun, 1),
        "volume": asdict(region.volume),
        "drawn": region.figures["drawn"],
        "drawn_failing": region.figures["drawn_failing"],
        "runs": sum(rest.run is not None for rest in region.rest),
        "grids": [{key: value for key, value in one.items() if key != "seconds"} for one in region.figures["tried"]],
        "reason": region.reason,
    }
    if certificate is not None:
        document = json.dumps(certificate)
        begun = time.process_time()
        said = check(json.loads(document), Subjects(task, policy), Where("certificate"))
        one |= {
            "boxes": len(region.boxes),
            "kilobytes": round(len(document) / 1000, 1),
            "checked": "accepted" if isinstance(said, Accepted) else "rejected",
            "check_cpu_seconds": round(time.process_time() - begun, 1),
        }
    return one


def nodes_of(bound: Bound) -> int:
    """Return how many nodes the trees have."""
    policy = bound.fitted.policy
    assert isinstance(policy, TreeEnsemble)
    return sum(len(tree.feature) for tree in policy.trees)


def table(found: dict[str, Any]) -> str:
    """Return the figures as Markdown."""
    safe = sum(best_of(row)["verdict"] == "safe" for row in found.values())
    lines = [
        "# Real-valued control", "",
        "`python -m benchmarks.control`: tree ensembles trained here, and what `polvet debug` made of those that fail.",
        f"{safe} of {len(found)} rows end proved safe. *Fenced*: the proof is over the cells in which some action always stays; the",
        f"policy takes no exit from them. *Failing*: of {SAMPLED:,} sampled start states, those from which the simulated run fails,",
        "a second opinion. Campaigns debug on 2,000 start states. All times are CPU seconds, measured on a busy machine.", "",
        "| row | policy | loop | nodes | verdict | method | CPU s | cells | evidence (kB) | checked (CPU s) | failing |",
        "|---|---|---|---:|---|---|---:|---:|---|---|---:|",
    ]  # fmt: skip
    for name, row in found.items():
        for which in ("trained", "debugged"):
            if which not in row:
                continue
            one = row[which]
            loop = row.get("loop", {}) if which == "debugged" else {}
            told = f"{loop['outcome']}, {loop['repairs']} repairs{', fence' if loop['fence'] else ''}" if loop else ""
            method = one["method"] + (" (fenced)" if one.get("fenced") else "")
            evidence = f"{one['evidence']} ({one['kilobytes']})" if "evidence" in one else ""
            checked = f"{one['checked']} ({one['check_cpu_seconds']})" if "checked" in one else ""
            cells = f"{one['cells']:,}" if "cells" in one else ""
            lines.append(
                f"| {name} | {which} | {told} | {one['nodes']:,} | {one['verdict']} | {method} | {one['cpu_seconds']} "
                f"| {cells} | {evidence} | {checked} | {one['sampled_failing']:,} |"
            )
    open_ = [(name, best_of(row)) for name, row in found.items() if best_of(row)["verdict"] == "unknown"]
    lines += ["", *(f"{name} is open after {one['cpu_seconds']} CPU seconds: {one['reason']}." for name, one in open_)]
    if any("region" in row for row in found.values()):
        lines += ["", *region_table(found)]
    return "\n".join(lines).rstrip() + "\n"


def region_table(found: dict[str, Any]) -> list[str]:
    """Return the table of safe start regions."""
    lines = [
        "## Safe start regions", "",
        "`python -m benchmarks.control --regions`: from which starts are policies safe that are unsafe as trained? *Proved*: the share of",
        "the start set's volume that one `safe-region` certificate is about. *Unsafe*: in cells in which an executed run from some start",
        "fails. *Open*: neither. *Drawn failing*: of that many drawn start states those whose run fails, a second opinion on what can",
        "be proved at most.", "",
        "| row | proved | unsafe | open | drawn failing | boxes | runs told | limit | CPU s | evidence (kB) | checked (CPU s) |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---|---:|",
    ]  # fmt: skip
    for name, row in found.items():
        if "region" not in row:
            continue
        one = row["region"]
        shares = " | ".join(f"{100 * one['volume'][part]:.2f}%" for part in ("proved", "unsafe", "open"))
        evidence = f"safe-region ({one['kilobytes']})" if "kilobytes" in one else ""
        checked = f"{one['checked']} ({one['check_cpu_seconds']})" if "checked" in one else ""
        lines.append(
            f"| {name} | {shares} | {one['drawn_failing']:,} of {one['drawn']:,} | {one.get('boxes', 0):,} | {one['runs']:,} "
            f"| {one['limit']:g} | {one['cpu_seconds']} | {evidence} | {checked} |"
        )
    lines += ["", *(f"{name}: {row['region']['reason']}." for name, row in found.items() if "region" in row)]
    return lines


def best_of(row: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of the debugged policy, of the trained one where there is none."""
    best: dict[str, Any] = row.get("debugged", row["trained"])
    return best


if __name__ == "__main__":
    main()
