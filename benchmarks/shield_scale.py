"""Shields of 10,000 states and more: `polvet permit` to the end, then `polvet certify`, each in a process of its own.

The bound of a row lies half-way between the least risk there is and the greatest, so that it binds: allowing everything would break it.
Times are processor time of the whole command (`permit` also checks what it says), memory is its greatest resident size.
    python -m benchmarks.shield_scale [--limit 600] [--only 0,1]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from polvet.domains import generate
from polvet.mdp import Reach, solve
from polvet.shield import build_world

RESULTS = Path(__file__).resolve().parent / "results"
POLVET = Path(sys.executable).parent / "polvet"
WORLDS: list[tuple[str, dict[str, int]]] = [
    ("folline", {"length": 300, "width": 31}),
    ("janitor", {"width": 10, "height": 10}),
    ("folline", {"length": 550, "width": 51}),
    ("folline", {"length": 1000, "width": 101}),
    ("folline", {"length": 1000, "width": 201, "stray": 20}),
    ("janitor", {"width": 18, "height": 18}),
    ("comexp", {"width": 66, "height": 66, "distance": 6}),
    ("folline", {"length": 10_000, "width": 101}),
]


@dataclass(frozen=True)
class Run:
    """One command: its exit code, what it printed, processor seconds and megabytes."""

    code: int
    text: str
    seconds: float
    megabytes: int


@dataclass(frozen=True)
class Row:
    """One shield."""

    world: str
    limit: float  # of `permit`, by the clock
    bound: str
    states: int
    actions: int
    allowed: int | None
    maximal: bool
    untested: int | None
    search_seconds: float
    search_megabytes: int
    certify: str
    certify_seconds: float
    certify_megabytes: int


def run(*words: str) -> Run:
    """Run a command of polvet and measure it."""
    with subprocess.Popen([str(POLVET), *words], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        text = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return Run(process.returncode, text, used.ru_utime + used.ru_stime, used.ru_maxrss // 1024)


def middle_bound(name: str, sizes: dict[str, int]) -> str:
    """Return a bound half-way between the least and the greatest risk, with three digits."""
    world = build_world(generate(name, **sizes).task(), exact=False)
    least = solve(world.mdp, Reach(goal=world.fail, minimise=True)).upper
    greatest = solve(world.mdp, Reach(goal=world.fail)).lower
    bound = f"{(least + greatest) / 2:.2e}"
    assert least < float(bound) < greatest
    return bound


def measure(name: str, sizes: dict[str, int], limit: float) -> Row:
    """Return the row of one world."""
    bound = middle_bound(name, sizes)
    with tempfile.TemporaryDirectory() as folder:
        task, shield = f"{folder}/m.toml", f"{folder}/shield.json"
        run("domains", name, *(f"{key}={value}" for key, value in sizes.items()), "-o", f"{folder}/m.jani")
        search = run("permit", task, "--bound", bound, "--time-limit", str(limit), "-o", shield, "--json")
        answer = json.loads(search.text)
        figures = answer["figures"]
        checked = run("certify", shield, "--task", task, "--json") if Path(shield).is_file() else None
    return Row(
        f"{name} {','.join(map(str, sizes.values()))}", limit, bound, figures.get("states", 0), figures.get("choices", 0),
        figures.get("permitted"), bool(figures.get("maximal")), figures.get("untested"), search.seconds, search.megabytes,
        "no shield" if checked is None else json.loads(checked.text)["verdict"],
        checked.seconds if checked else 0.0, checked.megabytes if checked else 0,
    )  # fmt: skip


def table(rows: list[Row]) -> str:
    """Return the rows as Markdown."""
    lines = [
        "# Shields at scale", "",
        "Every bound binds: it lies half-way between the least and the greatest risk. Processor seconds and greatest resident size of",
        "whole commands; `permit` has a limit by the clock and checks its shield, too, before it says so.", "",
        "| world | states | bound | allowed actions | maximal | limit, s | permit, CPU s | MB | certify | CPU s | MB |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for row in rows:
        maximal = "yes" if row.maximal else f"no ({row.untested:,} untested)" if row.untested is not None else "-"
        allowed = "-" if row.allowed is None else f"{row.allowed:,} of {row.actions:,}"
        lines.append(
            f"| {row.world} | {row.states:,} | {row.bound} | {allowed} | {maximal} | {row.limit:g} | {row.search_seconds:.1f} "
            f"| {row.search_megabytes} | {row.certify} | {row.certify_seconds:.1f} | {row.certify_megabytes} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure the rows that are asked for, keep the others, and write both files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=float, default=600.0)
    parser.add_argument("--only", default=",".join(map(str, range(len(WORLDS)))))
    options = parser.parse_args()
    file = RESULTS / "shield-scale.json"
    known = {row["world"]: Row(**row) for row in json.loads(file.read_text())["rows"]} if file.is_file() else {}
    for number in map(int, options.only.split(",")):
        row = measure(*WORLDS[number], options.limit)
        print(row, flush=True)
        known[row.world] = row
        rows = sorted(known.values(), key=lambda row: row.states)
        file.write_text(json.dumps({"rows": [asdict(row) for row in rows]}, indent=1) + "\n")
        (RESULTS / "shield-scale.md").write_text(table(rows))


if __name__ == "__main__":
    main()
