"""Do limits mean what they say? Random commands with random limits over inputs too large to finish; the greatest overrun.

    python -m benchmarks.limits --commands 200 --seed 1 -o benchmarks/results/limits.json

Every command that takes a limit is among them. A limit is kept where the command ends within a tenth of it and two seconds more,
by the wall clock (`kept`). On a busy machine a command also waits for a core; `late` is how long it computed after its limit, by its
CPU time and the share of a core that it had, and `kept_computing` compares that with the same room.
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
    polvet(folder, "domains", "bouncing-ball", "-o", "ball.jani")
    polvet(folder, "domains", "racetrack", "speed=7", "slip=1/10", "anywhere", "-o", "race.jani")
    (folder / "wide.prism").write_text(WIDE)
    (folder / "go.json").write_text(json.dumps(GOING))
    (folder / "ring.json").write_text(json.dumps(plan(ring(2000, 6000, rng), 6, rng, guarded=False)))
    (folder / "small.json").write_text(json.dumps(plan(ring(6, 6, rng), 3, rng, guarded=True)))
    names = [f"n{k}" for k in range(13)]
    rules = [f"{n} > 0 -> {n}-down, {names[(k + 1) % 13]}?, {names[(k + 2) % 13]}?" for k, n in enumerate(names)]
    (folder / "sketch.txt").write_text(f"numeric {' '.join(names)}\n" + "\n".join(rules) + "\n")
    lessons = ["--kind", "trees", "--teacher", "random", "--runs", "20"]
    for task, policy in (("transport", "trees"), ("race", "race"), ("beluga", "jigs"), ("ball", "ball")):
        polvet(folder, "train", f"{task}.toml", *lessons, "-o", f"{policy}.json")
    blocks = "shipped/blocksworld-4"
    polvet(folder, "verify", f"{blocks}.toml", f"{blocks}.onnx", "--method", "explicit", "-o", "listed.json")
    line = "shipped/one-way-line-8-5"
    polvet(folder, "faults", f"{line}.toml", f"{line}-faulty.json", "-o", "faults.json")
    (folder / "rank.json").write_text(json.dumps(ranking(4, 14)))
    (folder / "lasso.json").write_text(json.dumps(lasso(1_900_000)))
    net = ["--kind", "mlp", "--steps", "1000000000", "-o", "network.onnx"]
    bird = "shipped/flappy-bird-20-10-3"
    wide = ["wide.prism", "go.json", "--fail", "bad"]
    tree = ["transport.toml", "trees.json"]
    return {
        "explore": ["explore", "transport.jani"],
        "explore (under a policy)": ["explore", "transport.toml", "--policy", "trees.json"],
        "check": ["check", "beluga.jani", "--property", "fail"],
        "check (exact)": ["check", "field.jani", "--property", "energy", "--exact"],
        "decide": ["decide", "beluga.toml", "--all-starts"],
        "decide (diagrams)": ["decide", "transport.toml", "--all-starts", "--algorithm", "propagate-bdd"],
        "decide (goal)": ["decide", "tiles.toml", "--all-starts", "--goal-reaching"],
        "decide (certificates)": ["decide", "beluga.toml", "--all-starts", "--certificates", "decided"],
        "train (trees)": ["train", "transport.toml", "--kind", "trees", "--runs", "1000000000", "-o", "more.json"],
        "train (network)": ["train", "race.toml", *net],
        "verify (start x < z)": ["verify", *wide],
        "verify (ic3, start x < z)": ["verify", *wide, "--method", "ic3"],
        "verify (explicit)": ["verify", *tree, "--method", "explicit"],
        "verify (auto)": ["verify", *tree],
        "verify (abstraction)": ["verify", *tree, "--method", "abstraction"],
        "verify (bmc)": ["verify", *tree, "--method", "bmc"],
        "verify (projection)": ["verify", *tree, "--method", "projection"],
        "verify (induction)": ["verify", *tree, "--method", "induction"],
        "verify (grid)": ["verify", "ball.toml", "ball.json", "--method", "grid"],
        "verify (probability)": ["verify", f"{bird}.toml", f"{bird}.onnx", "--probability"],
        "evaluate": ["evaluate", *tree, "--starts", "1000000000000"],
        "evaluate (runs written)": ["evaluate", *tree, "--starts", "100000000", "-o", "unsafe.jsonl"],
        "simulate": ["simulate", *tree, "--runs", "100000000"],
        "simulate (runs written)": ["simulate", *tree, "--runs", "100000000", "-o", "runs.jsonl"],
        "fuzz": ["fuzz", *tree, "--runs", "1000000000"],
        "fuzz (runs written)": ["fuzz", *tree, "--runs", "1000000000", "-o", "fuzzed.jsonl"],
        "faults": ["faults", *tree],
        "repair": [
            "repair",
            f"{line}.toml",
            f"{line}-faulty.json",
            "--faults",
            "faults.json",
            "--keep-runs",
            "100000000",
        ],
        "fence": ["fence", "beluga.toml", "jigs.json", "-o", "fenced.json"],
        "gate": ["gate", *tree, "--proved"],
        "gate (sampled)": ["gate", "race.toml", "race.json", "--sampled", "--starts", "1000000000"],
        "compare": ["compare", *tree, "trees.json"],
        "debug": ["debug", *tree, "-o", "campaign"],
        "permit": ["permit", "field.toml", "--bound", "0.3", "--attempts", "1000000", "-o", "shield.json"],
        "permit (janitor)": ["permit", "janitor.toml", "--bound", "0.1", "-o", "shield.json"],
        "learn": ["learn", "field.toml", "--cost", "energy", "--bound", "0.3"],
        "terminates (gensieve)": ["terminates", "ring.json", "--method", "gensieve"],
        "terminates (auto)": ["terminates", "ring.json"],
        "terminates (guards)": ["terminates", "small.json"],
        "terminates (goal)": ["terminates", "small.json", "--goal", "x0 == 0"],
        "terminates (sketch)": ["terminates", "sketch.txt"],
        "certify": ["certify", "listed.json", "--task", f"{blocks}.toml", "--policy", f"{blocks}.onnx"],
        "certify (ranking)": ["certify", "rank.json"],
        "certify (lasso)": ["certify", "lasso.json"],
    }


def ranking(counters: int, last: int) -> dict[str, Any]:
    """Return a certificate about a plan that lowers its counters, which are all followed value by value."""
    names = [f"x{k}" for k in range(counters)]
    edges = [{"id": k, "from": "q", "to": "q", "choices": [{"effects": {n: -1}}]} for k, n in enumerate(names)]
    policy = {"format": "fmp/1", "variables": [{"name": n} for n in names], "control_states": ["q"], "initial": "q"}
    tracked = {name: [0, last] for name in names}
    return {"kind": "lex-rank", "fmp": {**policy, "edges": edges}, "tracked": tracked, "components": []}


def lasso(rounds: int) -> dict[str, Any]:
    """Return a certificate whose cycle has so many rounds under a guard with `!=`, which are followed one by one."""
    there = {"id": 0, "from": "q", "to": "q", "guard_dnf": [[["x", "!=", -1]]], "choices": [{"effects": {"x": 1}}]}
    policy = {
        "format": "fmp/1",
        "variables": [{"name": "x"}],
        "control_states": ["q"],
        "initial": "q",
        "edges": [there],
    }
    cycle = [{"edges": [0], "repeat": rounds}]
    return {"kind": "lasso", "fmp": policy, "initial_valuation": {"x": 0}, "prefix": [], "cycle": cycle}


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
    allowed, late = (1 + SLACK) * limit + GRACE, max(0.0, wall - limit) * cpu / wall
    return {
        "command": name, "limit": round(limit, 2), "exit": code, "wall": round(wall, 2), "cpu": round(cpu, 2),
        "overrun": round(wall - limit, 2), "kept": wall <= allowed,
        "late": round(late, 2), "kept_computing": limit + late <= allowed, "said": said[0][:160] if said else "",
    }  # fmt: skip


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commands", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    rows, loads = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        commands = prepare(folder, rng)
        order: list[str] = []
        for _ in range(options.commands):
            order = order or rng.sample(list(commands), len(commands))
            chosen = order.pop()
            row = measure(folder, chosen, commands[chosen], rng.uniform(0.5, 10.0))
            rows.append(row)
            loads.append(os.getloadavg()[0])
            print(json.dumps(row), flush=True)
    worst, latest = (max(rows, key=lambda row: row[key] - SLACK * row["limit"]) for key in ("overrun", "late"))
    found = {
        "commands": len(rows), "kept": sum(row["kept"] for row in rows), "cores": os.cpu_count(),
        "kept_computing": sum(row["kept_computing"] for row in rows), "load": round(sum(loads) / len(loads), 1),
        "greatest_overrun": worst, "latest": latest, "rows": rows,
    }  # fmt: skip
    print(f"{found['kept']} of {len(rows)} limits kept, {found['kept_computing']} by CPU time; load {found['load']}")
    for row in (worst, latest):
        print(f"{row['command']}: {row['overrun']} s over {row['limit']} s, computing for {row['late']} s of them")
    if options.output is not None:
        options.output.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
