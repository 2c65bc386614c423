"""Exploring and building by one, two and four threads: the same numbers and matrices, CPU and wall-clock seconds, in turns.

Every array of a space is compared with that of one thread. Wall-clock seconds mean what the machine had to spare; `load` is said.
    python -m benchmarks.threads [--repeat 3] [--only wlan,crowds] [-o benchmarks/results/threads.json]
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.exploring import BENCHMARKS, MODELS, RESULTS, exact
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


def main() -> None:
    """Measure all models and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "threads.json")
    given = parser.parse_args()
    rows = []
    for file, constants, _ in MODELS:
        if any(word in file for word in given.only.split(",")):
            for build in (False, True):
                rows.append(row(file, constants, build, given.repeat))
                print(rows[-1], flush=True)
    load = os.getloadavg()[1] if hasattr(os, "getloadavg") else None
    given.output.write_text(json.dumps({"cores": os.cpu_count(), "load": load, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
