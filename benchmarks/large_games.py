"""Measure deciding with structure: which share of the states of large worlds is decided, and proved, with and without smaller games.

python -m benchmarks.large_games [--states N] [--seconds S] [--megabytes M] [--only REGEX]

Random start states (and states on random runs) of the largest instances of the paper on deciding state safety and of its neighbours,
decided by `polvet decide` as it is and with `--sharpen`, one after the other with the same limits, which proving counts towards. Time is
CPU time of one thread in a process of its own, which also may take no more than so many megabytes of addresses beyond what it begins
with. A state is *proved* if it stands in a certificate that the checker accepts. Results: benchmarks/results/large-games.{json,md}.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import re
import resource
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import polvet
from polvet.budget import Budget
from polvet.domains import generate
from polvet.errors import InputError, LimitReached
from polvet.kernel.starts import drawable_starts
from polvet.model.semantics import Semantics, State
from polvet.model.task import Task, state_to_names
from polvet.sources import load_task
from polvet.system import memory_limited

RESULTS = Path(__file__).resolve().parent / "results"
LINE = {"n": 70, "p": 70}
INSTANCES: list[tuple[str, dict[str, Any], bool]] = [  # whether states on runs are asked about in the place of starts
    ("blocksworld", {"n": 10, "cost": 20}, False), ("blocksworld", {"n": 12, "cost": 20}, False),
    ("transport", {"locations": 10, "packages": 15}, False), ("transport", {"locations": 40, "packages": 60}, False),
    ("one-way-line", {"n": 40, "p": 25}, False), ("one-way-line", {"n": 40, "p": 25, "icy": True, "park": True}, False),
    ("one-way-line", LINE, False), ("one-way-line", LINE, True),
    ("one-way-line", {**LINE, "icy": True}, False), ("one-way-line", {**LINE, "icy": True}, True),
    ("one-way-line", {**LINE, "park": True}, False), ("one-way-line", {**LINE, "icy": True, "park": True}, False),
    ("one-way-line", {"n": 50, "p": 80}, True), ("two-way-line", {"n": 40, "p": 25, "icy": True}, False),
    ("two-way-line", LINE, False), ("beluga", {"jigs": 6}, False), ("beluga", {"jigs": 8}, False),
    ("flappy-bird", {"width": 1000, "height": 30, "walls": 100}, False), ("sliding-tiles", {}, False),
]  # fmt: skip
RUN = 120


def states_of(task: Task, count: int, *, on_runs: bool) -> list[State]:
    """Return distinct random start states, or states on random runs from them."""
    chance = random.Random(0)
    starts = list(dict.fromkeys(drawable_starts(task).sample(count, chance)))
    if not on_runs:
        return starts
    semantics = Semantics(task.network)
    ends = [semantics.compile(condition) for condition in (task.fail, task.goal)]
    seen: dict[State, None] = {}
    for state in starts * 5:
        for _ in range(chance.randrange(1, RUN)):
            seen[state] = None
            outcomes = [outcome.state for move in semantics.moves(state) for outcome in move.outcomes]
            if not outcomes or any(end(state) for end in ends):
                break
            state = chance.choice(outcomes)
    drawn = list(seen)
    chance.shuffle(drawn)
    return drawn[:count]


def measure(task: Path, states: list[dict[str, Any]], seconds: float, megabytes: int, sharpen: bool) -> dict[str, Any]:
    """Return how many of the states are decided and proved within the limits, in how much CPU time and memory."""
    row: dict[str, Any] = {"safe": 0, "unsafe": 0, "proved": 0, "kinds": [], "megabytes": 0.0, "reason": None}
    with tempfile.TemporaryDirectory() as folder, memory_limited(megabytes):
        begun = time.process_time()
        try:
            budget = Budget(seconds, megabytes, clock=time.process_time)
            decided = polvet.load(task).decide(states, sharpen=sharpen, within=budget, workers=1, certificates=folder)
        except (LimitReached, MemoryError) as limit:
            row["reason"] = str(limit) or "out of memory"
        else:
            row |= {name: decided.figures[name] for name in ("safe", "unsafe")}
            row["reason"] = decided.reason
        row["cpu_seconds"] = round(time.process_time() - begun, 1)
        row["peak_megabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        begun = time.process_time()
        for file in sorted(Path(folder).glob("*.json")):
            row["megabytes"] = round(row["megabytes"] + file.stat().st_size / 1e6, 2)
            try:
                accepted = polvet.certify(file, task=task, time_limit=3 * seconds).accepted
            except (InputError, LimitReached, MemoryError) as refusal:  # larger than files that are read
                row["reason"], accepted = str(refusal), False
            if accepted:
                certificate = json.loads(file.read_text())
                row["proved"] += len(certificate["start"])
                row["kinds"].append(certificate["kind"])
        row["check_cpu_seconds"] = round(time.process_time() - begun, 1)
        return row


def alone(*question: Any) -> dict[str, Any]:
    """Return what `measure` does, in a process of its own; that the system ended it is a row, too."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        try:
            return pool.submit(measure, *question).result()
        except BrokenProcessPool:
            nothing = {"safe": 0, "unsafe": 0, "proved": 0, "kinds": [], "megabytes": 0.0, "cpu_seconds": None}
            return {**nothing, "reason": "the process died", "peak_megabytes": None, "check_cpu_seconds": 0.0}


def table(found: dict[str, Any]) -> str:
    """Return the figures as Markdown."""
    lines = [
        "# Large games: states decided, and proved", "",
        f"`python -m benchmarks.large_games`. Random start states, or states on random runs, at most {found['seconds']:g} s of CPU time "
        f"(one thread) and {found['megabytes']:,} MB for deciding and proving; *proved*: in a certificate that the checker accepts; MB: of "
        "certificates, then the most that the process held. CPU seconds include reading the model; checking once more is told apart. "
        "The first half of a row is the search alone, the second with smaller games (`--sharpen`).", "",
        "| world | asked | plain: safe + unsafe | proved | MB | held MB | CPU s | check CPU s "
        "| sharpened: safe + unsafe | proved | by | MB | held MB | CPU s | check CPU s |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|---:|---:|---:|---:|",
    ]  # fmt: skip
    for row in found["rows"]:
        cells = [row["world"], row["asked"]]
        for way in ("plain", "sharpened"):
            one = row[way]
            cells += [f"{one['safe']} + {one['unsafe']}", one["proved"]]
            cells += [", ".join(one["kinds"]) or "-"] if way == "sharpened" else []
            cells += [one["megabytes"], one["peak_megabytes"], one["cpu_seconds"], one["check_cpu_seconds"]]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--states", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--megabytes", type=int, default=4000)
    parser.add_argument("--only", default="", help="a regular expression for worlds; others keep their rows")
    chosen = parser.parse_args()
    file = RESULTS / "large-games.json"
    rows = json.loads(file.read_text())["rows"] if file.exists() else []
    for name, given, on_runs in INSTANCES:
        words = [name, *(key if value is True else f"{key}={value}" for key, value in given.items())]
        world = " ".join([*words, "(on runs)"] if on_runs else words)
        if not re.search(chosen.only, world):
            continue
        with tempfile.TemporaryDirectory() as folder:
            _, world_file = generate(name, **given).write(Path(folder) / "world.jani")
            task = load_task(world_file)
            states = [
                dict(state_to_names(task.network, one)) for one in states_of(task, chosen.states, on_runs=on_runs)
            ]
            row: dict[str, Any] = {"world": world, "asked": len(states), "limit": chosen.seconds}
            for way in ("plain", "sharpened"):
                row[way] = alone(world_file, states, chosen.seconds, chosen.megabytes, way == "sharpened")
        rows = [one for one in rows if one["world"] != world] + [row]
        print(json.dumps(row), flush=True)
        found = {"seconds": chosen.seconds, "megabytes": chosen.megabytes, "rows": rows}
        file.write_text(json.dumps(found, indent=1) + "\n")
        (RESULTS / "large-games.md").write_text(table(found))


if __name__ == "__main__":
    main()
