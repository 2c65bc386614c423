"""Debugging a table policy in worlds that are given state by state: CPU seconds of `polvet debug` as the table grows.

Rings of 750 to 24,000 edges (three actions per state; one in four states has no failing action), and Gymnasium's Taxi with a
table of random actions; the least of three runs each. Start-up is the same command on a world of six edges; it is taken off, growth
is against the row before.
    python -m benchmarks.table_worlds [-o benchmarks/results/table-worlds.json]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import polvet
from polvet.model.tables import Outcome, TransitionTable
from polvet.worlds.table import build_table

RESULTS = Path(__file__).resolve().parent / "results"
REPEAT = 3
EDGES = (750, 1_500, 3_000, 6_000, 12_000, 24_000)


def ring(edges: int) -> TransitionTable:
    """Return a ring with three actions per state: on, on or far away, and one that fails in three of four states."""
    states, sure, half = edges // 3, Fraction(1), Fraction(1, 2)
    rows: dict[tuple[int, int], tuple[Outcome, ...]] = {}
    for s in range(states):
        rows[s, 0] = (Outcome(sure, (s + 1) % states),)
        rows[s, 1] = (Outcome(half, (s + 1) % states), Outcome(half, (7 * s + 3) % states))
        rows[s, 2] = (Outcome(sure, s, event="failed" if s % 4 else "reached"),)
    return TransitionTable("ring", states, ("on", "jump", "stop"), rows, tuple(range(states)))


def debugged(task: polvet.Task, table: dict[int, str]) -> dict[str, Any]:
    """Return what `polvet debug` said of the table in the world, and the CPU seconds it took."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        task.save(folder / "world.toml")
        rows = [{"state": {"s": s}, "action": action} for s, action in table.items()]
        policy = {"format": "table/1", "inputs": ["s"], "outputs": list(task.labels), "rows": rows}
        (folder / "policy.json").write_text(json.dumps(policy), encoding="utf-8")
        # As for a user, modules are compiled once.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = str(Path(tempfile.gettempdir()) / "polvet-bytecode")
        command = [sys.executable, "-m", "polvet", "debug", "world.toml", "policy.json", "-o", "campaign", "--json"]
        seconds = []
        for _ in range(REPEAT):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            said = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
            shutil.rmtree(folder / "campaign")
    answer = json.loads(said.stdout)
    return {"verdict": answer["verdict"], "cpu_seconds": round(min(seconds), 2)}


def main() -> None:
    """Measure all worlds and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "table-worlds.json")
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for edges in (6, *EDGES):
        task = polvet.load(build_table(ring(edges)), fail="failed", goal="reached")
        found = debugged(task, {s: ("on", "jump", "jump", "on", "stop")[s % 5] for s in range(edges // 3)})
        rows.append({"world": "ring", "edges": edges, **found})
        print(json.dumps(rows[-1]), flush=True)
    taxi, chance = polvet.load("gym:Taxi-v4"), random.Random(0)
    found = debugged(taxi, {s: chance.choice(taxi.labels) for s in range(500)})
    rows.append({"world": "Taxi", "edges": len(taxi.model_task.network.edges), **found})
    start_up = rows[0]["cpu_seconds"]
    for one in rows:
        one["above_start_up"] = round(one["cpu_seconds"] - start_up, 2)
    for before, one in pairwise(rows[1:-1]):
        one["growth"] = round(one["above_start_up"] / max(before["above_start_up"], 0.01), 2)
    given.output.write_text(json.dumps({"unit": "CPU seconds", "rows": rows}, indent=1) + "\n", encoding="utf-8")
    lines = [
        "# Debugging in worlds given by a table",
        "",
        f"CPU seconds, user and system, of the whole command `polvet debug`, the least of {REPEAT} runs; *above start-up*:",
        "less what the same command takes in a world of six edges. Every campaign ends with a certificate that was checked.",
        "",
        "| world | edges | verdict | CPU seconds | above start-up | times the row before |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {one['world']} | {one['edges']:,} | {one['verdict']} | {one['cpu_seconds']:.2f} | {one['above_start_up']:.2f} | "
        f"{one.get('growth', '')} |"
        for one in rows
    ]
    given.output.with_suffix(".md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
