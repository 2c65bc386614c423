"""Fuzzing and fault analysis: analyses that were out of reach, and biased against unbiased fuzzing.

Writes `results/fuzzing.json`, `results/fuzzing.md` and `results/fuzzing-ablation.svg`. Policies are trained here, by imitation:
on the lines of rules (`teachers.py`), where the state space is small of an optimal scheduler that errs, elsewhere of chance.
The domain `layers` has one action only, so there is no policy to fuzz. %Unsafe, %Goal and faults of the input policies of a
published table are in `results/debugging.md`: the first iteration.

Table     the faults of input policies of that table, on one unsafe run from each of 10,000 starts, within a time limit (`open`: states
          left undecided): rows on which a campaign's first search is not done within its own
10,000    fault analysis of 10,000 unsafe runs on four instances where the paper reports up to 13 hours or no memory
Ablation  biased and unbiased fuzzing with the same CPU time, one after the other: different faulty states on their unsafe runs
    python -m benchmarks.fuzzing [--part heavy|ablation|table] [--rows TEXT] [--work DIR] [--seconds 3] [--analysis 120]
"""

from __future__ import annotations

import argparse
import json
import math
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.grid import add_workers, run_grid
from benchmarks.teachers import line_rules, policy_of, rows
from polvet.budget import Budget
from polvet.debug.faults import find_faults
from polvet.domains import generate
from polvet.errors import LimitReached
from polvet.fuzz.packed import PackedRuns
from polvet.fuzz.rounds import Fuzzer, RoundOptions, iter_rounds
from polvet.fuzz.search import Search, find_unsafe_runs
from polvet.kernel.starts import drawable_starts
from polvet.policy.binding import load_fitted
from polvet.policy.compiled import Bound, compile_policy
from polvet.safety.decide import Decider
from polvet.sources import load_task

RESULTS = Path(__file__).parent / "results"
MEGABYTES = 8_000
MAX_STEPS = 1_000
CARELESS = (
    "--noise",
    "0.4",
    "--runs",
    "60",
    "--rounds",
    "10",
    "--depth",
    "4",
)  # the ablation needs policies with faults
TABLE = tuple(row.name for row in rows())
HEAVY = ("1 way line (30, 20)", "2 way line (40, 25)", "1 way line (30, 20) Icy", "1 way line (40, 25) Icy")
ABLATION: list[tuple[str, dict[str, Any]]] = [
    ("racetrack", {}), ("racetrack", {"slip": "1/10", "anywhere": True}), ("blocksworld", {"n": 5, "cost": 0}),
    ("blocksworld", {"n": 4}), ("sliding-tiles", {"n": 5, "cost": 0}), ("transport", {"locations": 6, "packages": 6}),
    ("beluga", {"jigs": 3}), ("beluga", {"jigs": 4}), ("one-way-line", {"n": 15, "p": 10}),
    ("one-way-line", {"n": 30, "p": 20}), ("one-way-line", {"n": 15, "p": 10, "icy": True, "park": True}),
    ("two-way-line", {"n": 15, "p": 10}), ("two-way-line", {"n": 15, "p": 10, "icy": True}),
    ("two-way-line", {"n": 30, "p": 20, "icy": True, "park": True}), ("bouncing-ball", {"tau": "0.05"}),
    ("inverted-pendulum", {"tau": "0.1"}), ("follow-car", {"tau": "0.4"}), ("flappy-bird", {}),
    ("flappy-bird", {"width": 30, "height": 10, "walls": 6}), ("janitor", {}), ("folline", {}), ("comexp", {}),
]  # fmt: skip


def prepared(work: Path, domain: str, options: dict[str, Any]) -> tuple[Bound, str]:
    """Return a careless policy bound to its task, and who taught it."""
    tag = "-".join([domain, *(f"{key}{value}" for key, value in options.items())]).replace("/", "_").replace("True", "")
    task, policy = work / f"{tag}.toml", work / f"{tag}.policy"
    if not task.exists():
        generate(domain, **options).write(work / f"{tag}.jani")
    teacher = "auto"
    if domain.endswith("-line"):
        teacher = str(work / f"{tag}.rules.json")
        rules = line_rules(options["p"], two_way=domain.startswith("two"), park=options.get("park", False))
        Path(teacher).write_text(json.dumps({"format": "rules/1", "rules": list(rules)}))
    taught = work / f"{tag}.teacher"  # written last: then the policy is whole
    if not taught.exists():
        command = [sys.executable, "-m", "polvet", "train", str(task), "--kind", "trees", "--teacher", teacher]
        command += [*CARELESS, "--max-steps", "300", "-o", str(policy), "--json"]
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        if made.returncode:
            raise RuntimeError(made.stderr.strip()[-300:])
        taught.write_text(json.loads(made.stdout)["figures"]["teacher"])
    who = taught.read_text()
    return compile_policy(load_fitted(load_task(task), policy)), "rules" if who.endswith(".rules.json") else who


def some_starts(bound: Bound, count: int, seed: int) -> Any:
    """Return so many starts, packed; different ones where there are that many."""
    starts = drawable_starts(bound.task)
    if starts.count is not None and starts.count <= count:
        return bound.compiled.pack_starts(starts)
    return bound.compiled.pack(starts.sample(count, random.Random(seed), distinct=starts.count is not None))


def unsafe_runs(bound: Bound, wanted: int, seconds: float, threads: int) -> tuple[PackedRuns, int, float]:
    """Return unsafe runs, one per start, until there are so many or the time is over; the starts tried; seconds."""
    begun = time.monotonic()
    parts: list[PackedRuns] = []
    tried = found = 0
    while found < wanted and (left := seconds - (time.monotonic() - begun)) > 0:
        starts = some_starts(bound, 10_000, tried)
        fuzzed = find_unsafe_runs(
            bound, starts, Search(tried, max_steps=MAX_STEPS, threads=threads), budget=Budget(seconds=left)
        )
        parts.append(fuzzed.runs)
        tried += len(starts)
        found += len(fuzzed.runs)
        if len(starts) < 10_000 and len(parts) > 3:
            break
    return first_runs(bound, PackedRuns.joined(bound, parts), wanted), tried, time.monotonic() - begun


def first_runs(bound: Bound, runs: PackedRuns, wanted: int) -> PackedRuns:
    """Return at most so many of the runs."""
    if len(runs) <= wanted:
        return runs
    end = int(runs.begin[wanted])
    return PackedRuns(
        bound, runs.states[:end], runs.begin[: wanted + 1], runs.labels[: end - wanted], runs.ends[:wanted]
    )


def heavy_row(work: Path, name: str, analysis: float) -> dict[str, Any]:
    """Return how the analysis of 10,000 unsafe runs ended; in a process of its own, so that memory is measured."""
    bound = bound_policy(work, name)
    runs, tried, seconds = unsafe_runs(bound, 10_000, 300.0, 2)
    return {"benchmark": name, "starts tried": tried, "fuzzing s": round(seconds, 1), **analysed(bound, runs, analysis)}


def table_row(work: Path, name: str, analysis: float) -> dict[str, Any]:
    """Return the faults of a row's input policy, on one unsafe run from each of 10,000 starts where one is found."""
    bound = bound_policy(work, name)
    starts = some_starts(bound, 10_000, 0)
    begun = time.monotonic()
    runs = find_unsafe_runs(bound, starts, Search(max_steps=MAX_STEPS, threads=2), budget=Budget(seconds=60.0)).runs
    seconds = time.monotonic() - begun
    return {
        "benchmark": name,
        "starts tried": len(starts),
        "fuzzing s": round(seconds, 1),
        **analysed(bound, runs, analysis),
    }


def bound_policy(work: Path, name: str) -> Bound:
    """Return the trained policy of a row of the table, ready to run."""
    task, policy = policy_of(next(row for row in rows() if row.name == name), work)
    return compile_policy(load_fitted(load_task(task), policy))


def analysed(bound: Bound, runs: PackedRuns, analysis: float) -> dict[str, Any]:
    """Return what the fault analysis of the runs says, and what it took."""
    result = find_faults(bound, Decider(bound.task, threads=2), runs, budget=Budget(analysis, MEGABYTES))
    return {
        "unsafe runs": len(runs), "states": result.states, "safe": result.safe_states, "faults": len(result.faults),
        "runs never safe": len(result.never_safe), "open": result.open, "analysis s": round(result.seconds, 1),
        "peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }  # fmt: skip


def faulty_states(
    bound: Bound, decider: Decider, *, biased: bool, seconds: float, analysis: float, seed: int
) -> tuple[int, int, int]:
    """Return different faulty states, unsafe runs and runs tried, after so many CPU seconds of fuzzing on one thread."""
    fuzzer = Fuzzer(bound, RoundOptions(seed, biased=biased, max_steps=MAX_STEPS))
    runs: dict[Any, Any] = {}
    tried = 0
    begun = time.process_time()
    for found in iter_rounds(fuzzer):
        tried += found.tried
        runs.update({(run.states, run.actions): run for run in found.runs})
        if time.process_time() - begun > seconds or len(runs) > 30_000:
            break
    result = find_faults(bound, decider, list(runs.values()), budget=Budget(analysis, MEGABYTES))
    return len(result.faults), len(runs), tried


def ablation_row(work: Path, domain: str, options: dict[str, Any], seconds: float, analysis: float) -> dict[str, Any]:
    """Return what biased and unbiased fuzzing find on one instance in the same time, summed over two seeds."""
    name = " ".join([domain, *(key if value is True else f"{key}={value}" for key, value in options.items())])
    bound, teacher = prepared(work, domain, options)
    sums = {True: [0, 0, 0], False: [0, 0, 0]}
    decider = Decider(bound.task)
    for seed in (0, 1):
        for biased in (True, False) if seed == 0 else (False, True):
            found = faulty_states(bound, decider, biased=biased, seconds=seconds, analysis=analysis, seed=seed)
            sums[biased] = [a + b for a, b in zip(sums[biased], found, strict=True)]
    (faults, unsafe, tried), (plain_faults, plain_unsafe, plain_tried) = sums[True], sums[False]
    return {
        "instance": name, "teacher": teacher, "faulty states biased": faults, "unbiased": plain_faults,
        "unsafe runs biased": unsafe, "unsafe runs unbiased": plain_unsafe, "runs biased": tried,
        "runs unbiased": plain_tried, "at least as many": faults >= plain_faults,
    }  # fmt: skip


def plot(rows: list[dict[str, Any]]) -> str:
    """Return a picture of the ablation: one dot per instance, biased above the diagonal."""
    size, left, top = 320.0, 60.0, 30.0
    most = max([10, *(max(row["faulty states biased"], row["unbiased"]) for row in rows)])
    scale = size / math.log10(most + 1)

    def at(value: int) -> float:
        return math.log10(value + 1) * scale

    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" width="440" height="400" font-family="sans-serif" font-size="11">',
        f'<rect x="{left}" y="{top}" width="{size}" height="{size}" fill="none" stroke="#888"/>',
        f'<line x1="{left}" y1="{top + size}" x2="{left + size}" y2="{top}" stroke="#bbb"/>',
        f'<text x="{left + size / 2 - 60}" y="{top + size + 34}">faulty states, unbiased</text>',
        f'<text x="14" y="{top + size / 2 + 60}" transform="rotate(-90 14 {top + size / 2 + 60})">faulty states, biased</text>',
    ]
    for power in range(int(math.log10(most + 1)) + 1):
        tick = at(10**power)
        parts.append(f'<text x="{left + tick - 8:.0f}" y="{top + size + 16}">{10**power}</text>')
        parts.append(f'<text x="{left - 34}" y="{top + size - tick + 4:.0f}">{10**power}</text>')
    for row in rows:
        x, y = left + at(row["unbiased"]), top + size - at(row["faulty states biased"])
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="#1f77b4"><title>{row["instance"]}</title></circle>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def markdown(results: dict[str, Any]) -> str:
    """Return the tables as Markdown."""
    about = "Policies are trained" + (__doc__ or "").split("Policies are trained")[1].split("    python -m")[0].rstrip()
    parts = [f"# Fuzzing and fault analysis\n\n{about}\n"]
    for title, found in results.items():
        if not found:
            continue
        keys = list(dict.fromkeys(key for row in found for key in row))
        parts += [f"## {title}\n", "| " + " | ".join(keys) + " |", "|" + "---|" * len(keys)]
        parts += ["| " + " | ".join(str(row.get(key, "")) for key in keys) + " |" for row in found]
        parts.append("")
    ablation = results.get("Ablation", [])
    if ablation:
        good = [row for row in ablation if "at least as many" in row]
        wins = sum(row["at least as many"] for row in good)
        biased, plain = sum(row["faulty states biased"] for row in good), sum(row["unbiased"] for row in good)
        parts.append(f"At least as many on {wins} of {len(good)} instances; {biased:,} against {plain:,} in total.\n")
        parts.append("![fuzzing-ablation.svg](fuzzing-ablation.svg)\n")
    return "\n".join(parts)


def one(part: str, number: int, options: argparse.Namespace) -> dict[str, Any]:
    """Return one row; what goes wrong is said in the row."""
    work = Path(options.work)
    name = ABLATION[number][0] if part == "ablation" else (HEAVY if part == "heavy" else TABLE)[number]
    try:
        if part == "heavy":
            return heavy_row(work, name, max(options.analysis, 600.0))
        if part == "table":
            return table_row(work, name, options.analysis)
        return ablation_row(work, *ABLATION[number], options.seconds, options.analysis)
    except (LimitReached, RuntimeError, MemoryError) as error:
        return {"instance" if part == "ablation" else "benchmark": name, "note": str(error)}


def in_process(options: argparse.Namespace, cell: tuple[str, int]) -> dict[str, Any]:
    """Return one row, made in a process of its own."""
    part, number = cell
    command = [sys.executable, "-m", "benchmarks.fuzzing", "--one", f"{part}:{number}", "--work", options.work]
    command += ["--seconds", str(options.seconds), "--analysis", str(options.analysis)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        return {"benchmark": f"{part} {number}", "note": made.stderr.strip().splitlines()[-1][:200]}
    found: dict[str, Any] = json.loads(made.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Run all parts and write the results after each row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=["heavy", "ablation", "table"], action="append")
    parser.add_argument("--work", default=None, help="where tasks and policies are kept")
    parser.add_argument("--seconds", type=float, default=3.0, help="fuzzing time per side of the ablation")
    parser.add_argument("--analysis", type=float, default=120.0, help="seconds of fault analysis per instance")
    parser.add_argument("--rows", default="", help="only rows of the table whose name contains this")
    add_workers(parser)
    parser.add_argument("--one", default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        part, number = options.one.split(":")
        print(json.dumps(one(part, int(number), options), ensure_ascii=False))
        return
    with tempfile.TemporaryDirectory() as scratch:
        options.work = options.work or scratch
        Path(options.work).mkdir(parents=True, exist_ok=True)
        file = RESULTS / "fuzzing.json"
        results: dict[str, list[dict[str, Any]]] = (
            json.loads(file.read_text()) if options.part and file.exists() else {}
        )
        numbers = {
            "heavy": ("Fault analysis of 10,000 unsafe runs", list(range(len(HEAVY)))),
            "ablation": ("Ablation", list(range(len(ABLATION)))),
            "table": ("Faults of input policies", [k for k, name in enumerate(TABLE) if options.rows in name]),
        }
        for part in options.part or list(numbers):
            title, wanted = numbers[part]
            results[title] = results.get(title, []) if part == "table" else []
            cells = [(part, number) for number in wanted]
            for row in run_grid(in_process, options, cells, options.workers):
                results[title].append(row)
                print(json.dumps(results[title][-1], ensure_ascii=False), flush=True)
                file.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
                if part == "ablation":
                    drawn = [row for row in results[title] if "unbiased" in row]
                    (RESULTS / "fuzzing-ablation.svg").write_text(plot(drawn), encoding="utf-8")
                (RESULTS / "fuzzing.md").write_text(markdown(results), encoding="utf-8")
        text = markdown(results)
        (RESULTS / "fuzzing.md").write_text(text, encoding="utf-8")
        print(text)


if __name__ == "__main__":
    main()
