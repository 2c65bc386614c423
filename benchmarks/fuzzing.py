"""Fuzzing and fault analysis: the rows of a published table, analyses that were out of reach, biased against unbiased.

Writes `results/fuzzing.json`, `results/fuzzing.md` and `results/fuzzing-ablation.svg`. Policies are trained here, by imitation:
tree ensembles of 20 rounds, depth 5, learning rate 0.4, as in Cascioli and others, Safety debugging of tree-ensemble action
policies, 2026, but from fewer and noisier runs (300, on two-way lines 60), so that they have faults. On the lines the teacher
is a list of rules that errs now and then, where the state space is small an optimal scheduler that errs, elsewhere chance. The
paper's policies are not public, so figures beside each other are figures of *different* policies; only what is asked is the same.

Table 2   %Unsafe and %Goal of the input policy, and its faults on one unsafe run from each of `--starts` debug starts (if found)
10,000    fault analysis of 10,000 unsafe runs on four instances where the paper reports up to 13 hours or no memory
Ablation  biased and unbiased fuzzing with the same CPU time, one after the other: different faulty states on their unsafe runs
    python -m benchmarks.fuzzing [--part table|heavy|ablation] [--work DIR] [--seconds 3] [--analysis 120]
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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.grid import add_workers, run_grid
from polvet.debug.evaluate import evaluate, evaluation_starts
from polvet.debug.faults import find_faults
from polvet.domains import generate
from polvet.errors import LimitReached
from polvet.fuzz.packed import PackedRuns
from polvet.fuzz.rounds import Fuzzer, RoundOptions, iter_rounds
from polvet.fuzz.search import find_unsafe_runs
from polvet.kernel.compiled import Limits
from polvet.kernel.starts import drawable_starts
from polvet.load import load_task
from polvet.policy.binding import Bound, load_fitted
from polvet.safety.decide import Decider

RESULTS = Path(__file__).parent / "results"
MEGABYTES = 8_000
MAX_STEPS = 1_000
TEACHING = ("--noise", "0.3", "--runs", "300")
TWO_WAYS = ("--noise", "0.4", "--runs", "60")  # what learns more from the rules hardly ever leaves the line
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
Row = tuple[str, str, dict[str, Any], str, str, str]


def lines(domain: str, name: str, figures: dict[tuple[int, int, str], tuple[str, str, str]]) -> list[Row]:
    """Return the rows of one family of lines with the paper's %Unsafe, %Goal and number of faults."""
    rows = []
    for (n, p, kind), (unsafe, goal, faults) in figures.items():
        options = {"n": n, "p": p, "icy": "Icy" in kind, "park": "Park" in kind}
        rows.append((f"{name} ({n}, {p}) {kind}".strip(), domain, options, unsafe, goal, faults))
    return rows


ONE = {
    (15, 10, ""): ("100.0", "0.0", "8053"), (17, 10, ""): ("1.1", "98.9", "30"), (20, 10, ""): ("100.0", "0.0", "3797"),
    (30, 20, ""): ("100.0", "0.0", "11349"), (40, 25, ""): ("-", "0.0", "OOM"),
    (15, 10, "Icy + Park"): ("99.6", "91.6", "27"), (17, 10, "Icy + Park"): ("99.5", "90.2", "46"),
    (20, 10, "Icy + Park"): ("99.5", "91.5", "54"), (30, 20, "Icy + Park"): ("99.9", "46.2", "2431"),
    (40, 25, "Icy + Park"): ("54.4", "44.5", "209"), (15, 10, "Icy"): ("100.0", "88.2", "23"),
    (17, 10, "Icy"): ("100.0", "87.2", "8"), (20, 10, "Icy"): ("100.0", "90.8", "19"),
    (30, 20, "Icy"): ("100.0", "49.7", "OOM"), (40, 25, "Icy"): ("100.0", "54.0", "OOM"),
}  # fmt: skip
TWO = {
    (15, 10, ""): ("100.0", "0.0", "9511"), (17, 10, ""): ("1.1", "98.9", "13"), (20, 10, ""): ("100.0", "0.0", "7304"),
    (30, 20, ""): ("80.9", "0.0", "14185"), (40, 25, ""): ("100.0", "0.0", "9967"),
    (15, 10, "Icy + Park"): ("100.0", "17.9", "1259"), (17, 10, "Icy + Park"): ("100.0", "18.2", "911"),
    (20, 10, "Icy + Park"): ("100.0", "17.9", "1483"), (30, 20, "Icy + Park"): ("70.4", "0.0", "5250"),
    (40, 25, "Icy + Park"): ("65.6", "0.7", "573"), (15, 10, "Icy"): ("100.0", "17.2", "989"),
    (17, 10, "Icy"): ("100.0", "16.9", "1884"), (20, 10, "Icy"): ("100.0", "17.7", "2264"),
    (30, 20, "Icy"): ("11.3", "4.5", "3"), (40, 25, "Icy"): ("100.0", "0.8", "8856"),
}  # fmt: skip
TABLE: list[Row] = [
    ("8Blocks CI", "blocksworld", {"n": 8, "cost": 0}, "1.1", "92.0", "1"),
    ("8Blocks CA", "blocksworld", {"n": 8, "cost": 12}, "1.3", "91.8", "15"),
    ("Transport", "transport", {"locations": 10, "packages": 15}, "2.3", "0.0", "26"),
    *((f"Beluga ({k} Jigs)", "beluga", {"jigs": k}, *figures) for k, figures in (
        (3, ("100.0", "82.3", "33")), (4, ("100.0", "85.0", "203")), (5, ("100.0", "69.4", "2574")),
        (6, ("98.7", "86.1", "6196")), (8, ("100.0", "70.7", "20420")))),
    *lines("one-way-line", "1 way line", ONE),
    *lines("two-way-line", "2 way line", TWO),
    *((f"Bouncing Ball ({t})", "bouncing-ball", {"tau": t}, *figures) for t, figures in (
        ("0.01", ("4.9", "95.1", "531")), ("0.05", ("2.8", "97.2", "292")), ("0.5", ("0.1", "99.9", "5")))),
    *((f"Inverted Pendulum ({t})", "inverted-pendulum", {"tau": t}, *figures) for t, figures in (
        ("0.01", ("-", "0.0", "OOM")), ("0.05", ("0.5", "99.5", "OOM")), ("0.1", ("2.9", "97.1", "357")))),
    *((f"Follow Car ({t})", "follow-car", {"tau": t}, *figures) for t, figures in (
        ("0.01", ("-", "0.0", "OOM")), ("0.05", ("-", "19.3", "OOM")), ("0.4", ("22.4", "77.6", "2224")))),
]  # fmt: skip
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


def line_rules(places: int, *, two_way: bool, park: bool) -> dict[str, Any]:
    """Return a driver for the lines as rules: collect everything on the way, at walking pace; deliver; stay."""
    last = places - 1
    rules = [(f"truck_0 == {k} && truck_vel_0 == 0 && location_load_{k} >= 1", "pick_up_truck_0") for k in range(last)]
    rules.append((f"truck_0 == {last} && truck_vel_0 == 0 && truck_load_0 >= 1", "drop_truck_0"))
    if park:
        rules.append((f"truck_0 == {last} && truck_vel_0 == 0", "park_truck_0"))
    if two_way:
        rules += [
            (f"truck_0 == {last} && truck_vel_0 == 0", "dec_truck_0"),
            ("truck_vel_0 < 0 && truck_0 <= 1", "acc_truck_0"),
        ]
    rules += [("truck_vel_0 == 0", "acc_truck_0"), ("truck_vel_0 >= 1", "dec_truck_0"), ("true", "acc_truck_0")]
    return {"format": "rules/1", "rules": [{"when": when, "action": action} for when, action in rules]}


def prepared(
    work: Path, domain: str, options: dict[str, Any], training: Sequence[str] | None = None
) -> tuple[Bound, str]:
    """Return a trained policy bound to its task, and who taught it."""
    training = training or (TWO_WAYS if domain == "two-way-line" else TEACHING)
    tag = "-".join([domain, *(f"{key}{value}" for key, value in options.items() if value not in (False,))])
    tag = tag.replace("/", "_").replace("True", "") + "".join(training).replace("--", "-")
    task, policy = work / f"{tag}.toml", work / f"{tag}.policy"
    if not task.exists():
        generate(domain, **options).write(work / f"{tag}.jani")
    teacher = "auto"
    if domain.endswith("-line"):
        rules = work / f"{tag}.rules"
        two_way = domain.startswith("two")
        rules.write_text(json.dumps(line_rules(options["p"], two_way=two_way, park=options.get("park", False))))
        teacher = str(rules)
    taught = work / f"{tag}.teacher"  # written last: then the policy is whole
    if not taught.exists():
        command = [sys.executable, "-m", "polvet", "train", str(task), "--kind", "trees", "--teacher", teacher]
        command += [*training, "--max-steps", "300", "-o", str(policy), "--json"]
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        if made.returncode:
            raise RuntimeError(made.stderr.strip()[-300:])
        taught.write_text(json.loads(made.stdout)["figures"]["teacher"])
    who = taught.read_text()
    return load_fitted(load_task(task), policy).compile(), "rules" if who.endswith(".rules") else who


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
            bound, starts, seed=tried, max_steps=MAX_STEPS, threads=threads, limits=Limits(seconds=left)
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


def table_row(work: Path, row: Row, analysis: float, starts: int) -> dict[str, Any]:
    """Return the columns of Table 2 for one instance."""
    name, domain, options, unsafe, goal, faults = row
    found: dict[str, Any] = {"benchmark": name}
    bound, teacher = prepared(work, domain, options)
    sample = evaluation_starts(bound.task, max(200, starts // 10), 1)
    judged = evaluate(
        bound, sample, runs=10, max_steps=MAX_STEPS, threads=2, limits=Limits(10.0, MEGABYTES // 2, 5_000_000)
    )
    begun = time.monotonic()
    first = some_starts(bound, starts, 2)
    fuzzed = find_unsafe_runs(
        bound,
        np.tile(first, (-(-starts // len(first)), 1))[:starts],
        max_steps=MAX_STEPS,
        threads=2,
        limits=Limits(seconds=min(analysis, 10.0)),
    )
    seconds = time.monotonic() - begun
    judge = Decider(bound.task)
    result = find_faults(bound, judge, fuzzed.runs, limits=Limits(analysis, MEGABYTES))
    return found | {
        "teacher": teacher, "%Unsafe": round(100 * judged.unsafe, 1), "undecided": judged.open,
        "%Goal": round(100 * judged.goal, 1), "unsafe runs": len(fuzzed.runs), "faults": len(result.faults),
        "runs never safe": len(result.never_safe), "states": result.states, "open": result.open,
        "fuzzing s": round(seconds, 1), "analysis s": round(result.seconds, 1),
        "paper %Unsafe": unsafe, "paper %Goal": goal, "paper faults": faults,
    }  # fmt: skip


def heavy_row(work: Path, row: Row, analysis: float) -> dict[str, Any]:
    """Return how the analysis of 10,000 unsafe runs ended; in a process of its own, so that memory is measured."""
    name, domain, options, *_ = row
    bound, teacher = prepared(work, domain, options)
    runs, tried, seconds = unsafe_runs(bound, 10_000, 300.0, 2)
    result = find_faults(bound, Decider(bound.task), runs, limits=Limits(analysis, MEGABYTES))
    return {
        "benchmark": name, "teacher": teacher, "unsafe runs": len(runs), "starts tried": tried,
        "states": result.states, "safe": result.safe_states, "faults": len(result.faults),
        "runs never safe": len(result.never_safe), "open": result.open, "fuzzing s": round(seconds, 1),
        "analysis s": round(result.seconds, 1),
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
    result = find_faults(bound, decider, list(runs.values()), limits=Limits(analysis, MEGABYTES))
    return len(result.faults), len(runs), tried


def ablation_row(work: Path, domain: str, options: dict[str, Any], seconds: float, analysis: float) -> dict[str, Any]:
    """Return what biased and unbiased fuzzing find on one instance in the same time, summed over two seeds."""
    name = " ".join([domain, *(key if value is True else f"{key}={value}" for key, value in options.items())])
    bound, teacher = prepared(work, domain, options, CARELESS)
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
    for title, rows in results.items():
        if not rows:
            continue
        keys = list(dict.fromkeys(key for row in rows for key in row))
        parts += [f"## {title}\n", "| " + " | ".join(keys) + " |", "|" + "---|" * len(keys)]
        parts += ["| " + " | ".join(str(row.get(key, "")) for key in keys) + " |" for row in rows]
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
    name = ABLATION[number][0] if part == "ablation" else TABLE[number][0]
    try:
        if part == "table":
            return table_row(work, TABLE[number], options.analysis, options.starts)
        if part == "heavy":
            return heavy_row(work, TABLE[number], max(options.analysis, 600.0))
        return ablation_row(work, *ABLATION[number], options.seconds, options.analysis)
    except (LimitReached, RuntimeError, MemoryError) as error:
        return {"instance" if part == "ablation" else "benchmark": name, "note": str(error)}


def in_process(options: argparse.Namespace, cell: tuple[str, int]) -> dict[str, Any]:
    """Return one row, made in a process of its own."""
    part, number = cell
    command = [sys.executable, "-m", "benchmarks.fuzzing", "--one", f"{part}:{number}", "--work", options.work]
    command += ["--seconds", str(options.seconds), "--analysis", str(options.analysis), "--starts", str(options.starts)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        return {"benchmark": f"{part} {number}", "note": made.stderr.strip().splitlines()[-1][:200]}
    found: dict[str, Any] = json.loads(made.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Run all parts and write the results after each row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=["table", "heavy", "ablation"], action="append")
    parser.add_argument("--work", default=None, help="where tasks and policies are kept")
    parser.add_argument("--seconds", type=float, default=3.0, help="fuzzing time per side of the ablation")
    parser.add_argument("--analysis", type=float, default=120.0, help="seconds of fault analysis per instance")
    parser.add_argument("--starts", type=int, default=10_000, help="debug starts per row of Table 2")
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
        names = [row[0] for row in TABLE]
        numbers = {
            "heavy": ("Fault analysis of 10,000 unsafe runs", [names.index(name) for name in HEAVY]),
            "ablation": ("Ablation", list(range(len(ABLATION)))),
            "table": ("Table 2, input policies", list(range(len(TABLE)))),
        }
        for part in options.part or list(numbers):
            title, wanted = numbers[part]
            results[title] = []
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
