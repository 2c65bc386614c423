"""Exploring and building by one, two and four threads: the same numbers and matrices, CPU and wall-clock seconds, in turns.

Every array of a space is compared with that of one thread. Wall-clock seconds mean what the machine had to spare; `load` is said.
`--references` does not measure: it compares the arrays on every reference model of up to 2 million states.
    python -m benchmarks.threads [--references] [--repeat 3] [--only wlan,crowds] [-o benchmarks/results/threads.json]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.exploring import BENCHMARKS, MODELS, RESULTS, exact
from benchmarks.references import MOST_STATES, references
from polvet.kernel.compiled import Compiled
from polvet.model.instantiate import instantiate
from polvet.worlds.formats import load_model

THREADS = (1, 2, 4)
COUNTS = ("expanded", "choices", "moves", "transitions", "deadlocks")


def explored(compiled: Compiled, build: bool, threads: int) -> tuple[float, float, list[Any]]:
    """Return CPU seconds, wall-clock seconds and all arrays of the space."""
    wall, cpu = time.perf_counter(), time.process_time()
    space = compiled.explore(build=build, threads=threads)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    arrays = [space.states(), np.array([getattr(space, name) for name in COUNTS])]
    if build:
        *matrix, rewards = space.take_matrix()
        arrays += [*matrix, *rewards]
    return cpu, wall, arrays


def row(file: str, constants: dict[str, Any], build: bool, repeat: int) -> dict[str, Any]:
    """Measure one model; raise where a number of threads changes anything."""
    model = load_model(BENCHMARKS / file)
    compiled = Compiled(instantiate(model, exact(constants, model)))
    best: dict[int, tuple[float, float]] = {}
    for _ in range(repeat):
        first: list[Any] = []
        for threads in THREADS:
            cpu, wall, arrays = explored(compiled, build, threads)
            first = first or arrays
            if not all(np.array_equal(one, other) for one, other in zip(first, arrays, strict=True)):
                raise SystemExit(f"{file}: {threads} threads find something else")
            before = best.get(threads, (cpu, wall))
            best[threads] = min(cpu, before[0]), min(wall, before[1])
    return {
        "model": Path(file).stem, "work": "build" if build else "explore", "states": len(first[0]),
        **{f"cpu_{n}": round(best[n][0], 3) for n in THREADS}, **{f"wall_{n}": round(best[n][1], 3) for n in THREADS},
    }  # fmt: skip


def compare_references() -> dict[str, Any]:
    """Return on how many reference models, with how many states together, all numbers of threads find the same."""
    found: dict[str, Any] = {"models": 0, "states": 0, "differ": []}
    known = {(one.file, one.constants, one.states) for one in references() if one.states}
    for file, constants, states in sorted(known, key=str):
        if states > MOST_STATES:
            continue
        model = load_model(BENCHMARKS / file)
        compiled = Compiled(instantiate(model, exact(dict(constants), model)))
        first, *others = (explored(compiled, True, threads)[2] for threads in THREADS)
        if not all(np.array_equal(a, b) for arrays in others for a, b in zip(first, arrays, strict=True)):
            found["differ"].append(f"{file} {dict(constants)}")
        found["models"] += 1
        found["states"] += len(first[0])
        print(found["models"], file, len(first[0]), flush=True)
    return found


def table(rows: list[dict[str, Any]], about: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    lines = [
        f"One, two and four threads on {about['cores']} cores, best of {about['repeat']} in turns; the machine had other work "
        f"(load {about['load_before']} before, {about['load']} after), so that wall-clock seconds say little. States, numbers, counts, "
        "matrices and rewards of two and four threads are those of one in every row.",
        "",
        "| model | work | states | CPU s, 1 | 2 | 4 | wall s, 1 | 2 | 4 |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for one in rows:
        figures = " | ".join(f"{one[f'{kind}_{n}']:.2f}" for kind in ("cpu", "wall") for n in THREADS)
        lines.append(f"| {one['model']} | {one['work']} | {one['states']:,} | {figures} |")
    more = {n: statistics.median(one[f"cpu_{n}"] / one["cpu_1"] for one in rows) for n in THREADS[1:]}
    faster = {n: statistics.median(one["wall_1"] / one[f"wall_{n}"] for one in rows) for n in THREADS[1:]}
    lines += [
        "",
        "Medians: "
        + "; ".join(
            f"{n} threads {more[n]:.2f} times the CPU time, {faster[n]:.2f} times as fast by the clock" for n in more
        )
        + ".",
    ]
    if compared := about.get("references"):
        lines += [
            "",
            f"The same was compared on {compared['models']} reference models with {compared['states']:,} states together: "
            f"{len(compared['differ'])} of them differ.",
        ]
    return "\n".join(lines)


def main() -> None:
    """Measure all models and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "threads.json")
    parser.add_argument("--references", action="store_true", help="compare all reference models, and measure nothing")
    options = parser.parse_args()
    kept = json.loads(options.output.read_text()) if options.output.exists() else {}
    if options.references:
        about = {**kept, "references": compare_references()}
        write(options.output, about.pop("rows"), about)
        return
    rows = []
    about = {"cores": os.cpu_count(), "repeat": options.repeat, "load_before": load()}
    for file, constants, _ in MODELS:
        if any(word in file for word in options.only.split(",")):
            for build in (False, True):
                rows.append(row(file, constants, build, options.repeat))
                print(rows[-1], flush=True)
    about["load"] = load()
    write(options.output, rows, about | ({"references": kept["references"]} if "references" in kept else {}))


def write(output: Path, rows: list[dict[str, Any]], about: dict[str, Any]) -> None:
    """Write the figures, and the table beside them."""
    output.write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n")
    output.with_suffix(".md").write_text(table(rows, about) + "\n")


def load() -> float | None:
    """Return how many processes wanted to run in the last minute, on average."""
    return round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None


if __name__ == "__main__":
    main()
