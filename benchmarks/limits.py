"""Do limits mean what they say? Random commands with random limits over inputs too large to finish; the greatest overrun.

    python -m benchmarks.limits --commands 40 --seed 1 -o benchmarks/results/limits.json

A limit is kept where the command ends within a tenth of it and two seconds more. Both the wall clock and the CPU time of the
command's process are told: on a busy machine a command also waits.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.cli.test_limits import GOING, WIDE, plan, ring

Command = list[str]
SLACK, GRACE = 0.1, 2.0


def polvet(folder: Path, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command of polvet in the folder."""
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "polvet", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=alone, check=False, **options)


def prepare(folder: Path, rng: random.Random) -> dict[str, Command]:
    """Write models, policies, plans and certificates into the folder; return commands that they keep busy, by name."""
    polvet(folder, "domains", "--policies", "shipped")
    polvet(folder, "domains", "transport", "-o", "transport.jani")
    polvet(folder, "domains", "beluga", "jigs=8", "-o", "beluga.jani")
    polvet(folder, "domains", "comexp", "width=10", "height=10", "-o", "field.jani")
    polvet(folder, "domains", "janitor", "width=14", "height=14", "-o", "janitor.jani")
    polvet(folder, "domains", "sliding-tiles", "n=8", "-o", "tiles.jani")
    (folder / "wide.prism").write_text(WIDE)
    (folder / "go.json").write_text(json.dumps(GOING))
    (folder / "ring.json").write_text(json.dumps(plan(ring(2000, 6000, rng), 6, rng, guarded=False)))
    (folder / "small.json").write_text(json.dumps(plan(ring(6, 6, rng), 3, rng, guarded=True)))
    names = [f"n{k}" for k in range(13)]
    rules = [f"{n} > 0 -> {n}-down, {names[(k + 1) % 13]}?, {names[(k + 2) % 13]}?" for k, n in enumerate(names)]
    (folder / "sketch.txt").write_text(f"numeric {' '.join(names)}\n" + "\n".join(rules) + "\n")
    polvet(
        folder, "train", "transport.toml", "--kind", "trees", "--teacher", "random", "--runs", "50", "-o", "trees.json"
    )
    blocks = "shipped/blocksworld-4"
    polvet(folder, "verify", f"{blocks}.toml", f"{blocks}.onnx", "--method", "explicit", "-o", "listed.json")
    bird = "shipped/flappy-bird-20-10-3"
    wide = ["wide.prism", "go.json", "--fail", "bad"]
    return {
        "explore": ["explore", "transport.jani"],
        "decide": ["decide", "beluga.toml", "--all-starts"],
        "decide (diagrams)": ["decide", "transport.toml", "--all-starts", "--algorithm", "propagate-bdd"],
        "verify (start x < z)": ["verify", *wide],
        "verify (ic3, start x < z)": ["verify", *wide, "--method", "ic3"],
        "verify (explicit)": ["verify", "transport.toml", "trees.json", "--method", "explicit"],
        "verify (auto)": ["verify", "transport.toml", "trees.json"],
        "verify (abstraction)": ["verify", "transport.toml", "trees.json", "--method", "abstraction"],
        "verify (bmc)": ["verify", "transport.toml", "trees.json", "--method", "bmc"],
        "verify (projection)": ["verify", "transport.toml", "trees.json", "--method", "projection"],
        "verify (probability)": ["verify", f"{bird}.toml", f"{bird}.onnx", "--probability"],
        "evaluate": ["evaluate", "transport.toml", "trees.json", "--starts", "1000000000000"],
        "simulate": ["simulate", "transport.toml", "trees.json", "--runs", "100000000"],
        "fuzz": ["fuzz", "transport.toml", "trees.json", "--runs", "1000000000"],
        "faults": ["faults", "transport.toml", "trees.json"],
        "gate": ["gate", "transport.toml", "trees.json", "--proved"],
        "compare": ["compare", "transport.toml", "trees.json", "trees.json"],
        "debug": ["debug", "transport.toml", "trees.json", "-o", "campaign"],
        "permit": ["permit", "field.toml", "--bound", "0.3", "--attempts", "1000000", "-o", "shield.json"],
        "permit (janitor)": ["permit", "janitor.toml", "--bound", "0.1", "-o", "shield.json"],
        "learn": ["learn", "field.toml", "--cost", "energy", "--bound", "0.3"],
        "terminates (gensieve)": ["terminates", "ring.json", "--method", "gensieve"],
        "terminates (auto)": ["terminates", "ring.json"],
        "terminates (guards)": ["terminates", "small.json"],
        "terminates (sketch)": ["terminates", "sketch.txt"],
        "certify": ["certify", "listed.json", "--task", f"{blocks}.toml", "--policy", f"{blocks}.onnx"],
    }


def measure(folder: Path, name: str, command: Command, limit: float) -> dict[str, Any]:
    """Run the command under the limit; return how long it took, and how it ended."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    try:
        done = polvet(folder, *command, "--time-limit", f"{limit:.2f}", timeout=20 * limit + 120)
        code, said = done.returncode, (done.stdout + done.stderr).strip().splitlines()
    except subprocess.TimeoutExpired:
        code, said = None, ["did not end"]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    wall = time.monotonic() - begun
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    allowed = (1 + SLACK) * limit + GRACE
    return {
        "command": name, "limit": round(limit, 2), "exit": code, "wall": round(wall, 2), "cpu": round(cpu, 2),
        "overrun": round(wall - limit, 2), "kept": wall <= allowed, "said": said[0][:160] if said else "",
    }  # fmt: skip


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commands", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        commands = prepare(folder, rng)
        order: list[str] = []
        for _ in range(options.commands):
            order = order or rng.sample(list(commands), len(commands))
            chosen = order.pop()
            row = measure(folder, chosen, commands[chosen], rng.uniform(0.5, 10.0))
            rows.append(row)
            print(json.dumps(row), flush=True)
    worst = max(rows, key=lambda row: row["overrun"] - SLACK * row["limit"])
    found = {
        "commands": len(rows), "kept": sum(row["kept"] for row in rows), "load": os.getloadavg()[0],
        "greatest_overrun": worst, "rows": rows,
    }  # fmt: skip
    print(
        f"{found['kept']} of {len(rows)} limits kept; greatest overrun {worst['overrun']} s of {worst['limit']} s: {worst['command']}"
    )
    if options.output is not None:
        options.output.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
