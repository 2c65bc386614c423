"""Measure deciding with structure: which share of the states of large worlds is decided, and proved, with and without smaller games.

python -m benchmarks.large_games [--states N] [--seconds S] [--only TEXT]

Random start states of the largest instances of the paper on deciding state safety and of its neighbours, decided by `polvet decide`
as it is and with `--sharpen`, one after the other with the same limit, which proving counts towards. A state is *proved* if it stands
in a certificate that the checker accepts. Results: benchmarks/results/large-games.{json,md}.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import tempfile
import time
from pathlib import Path
from typing import Any

import polvet
from polvet.domains import generate
from polvet.errors import InputError, LimitReached
from polvet.kernel.starts import drawable_starts
from polvet.model.task import state_to_names
from polvet.sources import load_task

RESULTS = Path(__file__).resolve().parent / "results"
INSTANCES: list[tuple[str, dict[str, Any]]] = [
    ("two-way-line", {"n": 40, "p": 25}), ("two-way-line", {"n": 40, "p": 25, "icy": True}),
    ("two-way-line", {"n": 70, "p": 70}), ("one-way-line", {"n": 40, "p": 25, "icy": True, "park": True}),
    ("one-way-line", {"n": 70, "p": 70, "icy": True, "park": True}), ("one-way-line", {"n": 40, "p": 25}),
    ("one-way-line", {"n": 70, "p": 70}), ("transport", {"locations": 10, "packages": 15}), ("beluga", {"jigs": 6}),
]  # fmt: skip


def measure(task: Path, states: list[dict[str, Any]], seconds: float, *, sharpen: bool) -> dict[str, Any]:
    """Return how many of the states are decided and proved within the limit, and in how much CPU time."""
    with tempfile.TemporaryDirectory() as folder:
        begun = time.process_time()
        row: dict[str, Any] = {"safe": 0, "unsafe": 0, "proved": 0}
        try:
            found = polvet.load(task).decide(states, sharpen=sharpen, time_limit=seconds, certificates=folder)
        except LimitReached as limit:
            row["reason"] = str(limit)
        else:
            row |= {name: found.figures[name] for name in ("safe", "unsafe")}
            row["reason"] = found.reason
        row["cpu_seconds"] = round(time.process_time() - begun, 1)
        begun = time.process_time()
        row |= {"kinds": [], "megabytes": 0.0}
        for file in sorted(Path(folder).glob("*.json")):
            row["megabytes"] += round(file.stat().st_size / 1e6, 1)
            try:
                accepted = polvet.certify(file, task=task).accepted
            except InputError as refusal:  # larger than files that are read
                row["reason"], accepted = str(refusal), False
            if accepted:
                certificate = json.loads(file.read_text())
                row["proved"] += len(certificate["start"])
                row["kinds"].append(certificate["kind"])
        row["check_cpu_seconds"] = round(time.process_time() - begun, 1)
        return row


def table(found: dict[str, Any]) -> str:
    """Return the figures as Markdown."""
    lines = [
        "# Large games: states decided, and proved", "",
        f"Random start states, at most {found['seconds']:g} s for deciding and proving on a busy machine; *proved*: in a "
        "certificate that the checker accepts; MB: of certificates (files above 268 MB are not read). CPU seconds include reading "
        "the model; checking is told apart. The first run of a row is the search alone, the second with smaller games (`--sharpen`).", "",
        "| world | asked | plain: decided | proved | MB | CPU s | sharpened: decided | proved | by | MB | CPU s | check CPU s |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---|---:|---:|---:|",
    ]  # fmt: skip
    for row in found["rows"]:
        plain, sharp = row["plain"], row["sharpened"]
        cells = [
            row["world"], row["asked"], plain["safe"] + plain["unsafe"], plain["proved"], plain["megabytes"], plain["cpu_seconds"],
            sharp["safe"] + sharp["unsafe"], sharp["proved"], ", ".join(sharp["kinds"]) or "-", sharp["megabytes"],
            sharp["cpu_seconds"], sharp["check_cpu_seconds"],
        ]  # fmt: skip
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--states", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=90.0)
    parser.add_argument("--only", default="", help="a regular expression for worlds; others keep their rows")
    chosen = parser.parse_args()
    file = RESULTS / "large-games.json"
    rows = json.loads(file.read_text())["rows"] if file.exists() else []
    for name, given in INSTANCES:
        world = " ".join([name, *(key if value is True else f"{key}={value}" for key, value in given.items())])
        if not re.search(chosen.only, world):
            continue
        with tempfile.TemporaryDirectory() as folder:
            _, world_file = generate(name, **given).write(Path(folder) / "world.jani")
            task = load_task(world_file)
            drawn = drawable_starts(task).sample(chosen.states, random.Random(0))
            states = [dict(state_to_names(task.network, state)) for state in dict.fromkeys(drawn)]
            row: dict[str, Any] = {"world": world, "asked": len(states), "limit": chosen.seconds}
            for way in ("plain", "sharpened"):
                row[way] = measure(world_file, states, chosen.seconds, sharpen=way == "sharpened")
        rows = [one for one in rows if one["world"] != world] + [row]
        print(json.dumps(row), flush=True)
        found = {"seconds": chosen.seconds, "rows": rows}
        file.write_text(json.dumps(found, indent=1) + "\n")
        (RESULTS / "large-games.md").write_text(table(found))


if __name__ == "__main__":
    main()
