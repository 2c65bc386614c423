"""Table 2 of the paper on safety debugging: `polvet debug` on every row, with policies trained here (`teachers.py`).

python -m benchmarks.debugging [--rows TEXT] [--seconds S] [--variants default,penalty,unkept,milp] [--resume|--fractions] [--folder DIR]
python -m benchmarks.debugging --rows "Beluga (8" --free 5,6 --seconds S

Variants   default: leaf values by linear programs, retention, safe actions; penalty: a tree per fault (section 5.1);
           unkept: no retention, the nearest to the paper; milp: the paper's big-M program
Free       Beluga with all parts but so many in their places: all orders of these, to debug and to evaluate on
Fractions  the input policy repaired with a part of the campaign's faults only, as in the paper's Fig. 2
Each row's campaign has the same time limit; one that is not done then counts as it stands (outcome `limit`). Figures
differ from the paper's, since the policies do. Results: benchmarks/results/debugging.{json,md}, debugging-fractions.{json,svg}.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
import tomllib
from math import factorial
from pathlib import Path
from typing import Any

from benchmarks.fault_fractions import Curve, curves, fractions, parts_table
from benchmarks.published import TABLE
from benchmarks.teachers import Row, policy_of, rows
from polvet.policy.binding import load_fitted
from polvet.records.fault_files import read_faults
from polvet.repair.repair import Options
from polvet.sources import load_task

RESULTS = Path(__file__).parent / "results"
VARIANTS: dict[str, tuple[str, ...]] = {
    "default": (),
    "penalty": ("--method", "penalty", "--keep", "0"),
    "unkept": ("--keep", "0", "--max-goal-loss", "100"),
    "milp": ("--method", "milp"),
}

EVALUATED = 10_000
"""Start states that are evaluated on where the task has so many; rows with fewer have no undecided ones."""
STARTS = {"Beluga (8 Jigs)": 300}
"""Start states to debug and to evaluate on, where not 10,000: deciding the states of one order of arrival takes a third of a second."""


def main() -> None:
    """Run what is asked for and write the table; rows already measured are kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default="", help="only rows whose name contains this")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--variants", default="default,penalty")
    parser.add_argument(
        "--free", default="", help="numbers of parts that come in any order, the others in their places"
    )
    parser.add_argument("--folder", type=Path, default=Path("out/table-2"))
    parser.add_argument("--results", type=Path, default=RESULTS / "debugging.json")
    parser.add_argument("--resume", action="store_true", help="go on with campaigns that reached the time limit")
    parser.add_argument(
        "--fractions", action="store_true", help="repair with parts of the faults of finished campaigns"
    )
    chosen = parser.parse_args()
    if chosen.fractions:
        write_fractions([row for row in rows() if chosen.rows in row.name], chosen.folder)
        return
    found: dict[str, Any] = json.loads(chosen.results.read_text()) if chosen.results.exists() else {}
    for row in rows():
        if chosen.rows not in row.name:
            continue
        task, policy = policy_of(row, chosen.folder)
        free = [f"{count}-free" for count in filter(None, chosen.free.split(","))]
        for variant in free or chosen.variants.split(","):
            known = found.get(row.name, {}).get(variant)
            if known is not None and not (chosen.resume and known.get("outcome") == "limit"):
                continue
            given = with_free_parts(task, int(variant.removesuffix("-free"))) if variant in free else task
            measured = measure(row, given, policy, variant, chosen.seconds, chosen.folder, known)
            found.setdefault(row.name, {})[variant] = measured
            chosen.results.write_text(json.dumps(found, indent=1) + "\n")
            print(row.name, variant, json.dumps(measured), flush=True)
    chosen.results.with_suffix(".md").write_text(table(found))


def with_free_parts(task: Path, free: int) -> Path:
    """Write the Beluga task with all parts but the first `free` ones in their places, and return its file."""
    written = tomllib.loads(task.read_text())
    places = [f"jig_{part}" for part in range(free, written["start"].count("front_jig_"))]
    start = " && ".join([written["start"], *(f"{place} == {place.removeprefix('jig_')}" for place in places)])
    file = task.with_name(f"{task.stem}-{free}-free.toml")
    file.write_text("".join(f"{key} = {value!r}\n" for key, value in (written | {"start": start}).items()))
    return file


def measure(
    row: Row, task: Path, policy: Path, variant: str, seconds: float, folder: Path, known: dict[str, Any] | None
) -> dict[str, Any]:
    """Debug the row's policy in a fresh folder, or go on with a campaign, and return the figures before and after."""
    here = folder / f"{row.slug}-{variant}"
    if known is None:
        shutil.rmtree(here, ignore_errors=True)
    begun = time.monotonic()
    done = subprocess.run(
        [
            sys.executable, "-m", "polvet", "debug", str(task), str(policy), "-o", str(here), "--json",
            "--time-limit", str(seconds), "--memory-limit", "8000", *VARIANTS.get(variant, ()),
            *(("--starts", str(STARTS[row.name])) if row.name in STARTS and variant in VARIANTS else ()),
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode not in (0, 10, 20):
        return {"error": done.stderr.strip()[-300:]}
    answer = json.loads(done.stdout)
    rounds = answer["figures"]["iterations"]
    judged = [one for one in rounds if "unsafe_percent" in one]
    repaired = [one for one in rounds if "repair_seconds" in one]
    return {
        "outcome": answer["outcome"], "reason": answer["reason"],
        "unsafe_before": judged[0]["unsafe_percent"] if judged else None,
        "unsafe_after": judged[-1]["unsafe_percent"] if judged else None,
        "undecided_after": judged[-1]["undecided"] if judged else None,
        "goal_before": judged[0]["goal_percent"] if judged else None,
        "goal_after": judged[-1]["goal_percent"] if judged else None,
        "undecided_before": judged[0]["undecided"] if judged else None,
        "faults_at_first": rounds[0].get("new_faults"), "unsafe_runs_at_first": rounds[0].get("unsafe_runs"),
        "unsafe_starts": max(one.get("unsafe_starts", 0) for one in rounds),
        "faults": answer["figures"]["faults"], "repairs": len(repaired),
        "trees_added": sum(one["trees_added"] for one in repaired) + sum(_fence(one) for one in rounds),
        "fenced": any(_fence(one) for one in rounds),
        "longest_repair_seconds": max((one["repair_seconds"] for one in repaired), default=0.0),
        "verification": next((one["verification"]["method"] for one in rounds if "verification" in one), None),
        "seconds": round(time.monotonic() - begun + (0.0 if known is None else known["seconds"]), 1),
    }  # fmt: skip


def _fence(one: dict[str, Any]) -> int:
    """How many trees the fence has that the policy got in this iteration."""
    figures = one.get("strengthened", {})
    return int(figures.get("fence_trees", 0)) if figures.get("taken") else 0


def table(found: dict[str, Any]) -> str:
    """Return the figures as Markdown, the paper's beside ours."""
    names = [row.name for row in rows() if row.name in found]
    good = [name for name in names if meets(name, found[name].get("default", {}))]
    defaults = {
        name: found[name]["default"] for name in names if "error" not in found[name].get("default", {"error": ""})
    }
    harmless = [name for name, one in defaults.items() if one["unsafe_before"] == 0]
    aimless = [name for name, one in defaults.items() if one["goal_before"] < 5]
    telling = set(names) - set(harmless) - set(aimless)
    head = (
        "# The debugging loop on the rows of Table 2\n\n"
        "Policies are trained here (`benchmarks/teachers.py`), so figures differ from the paper's; its figures stand in brackets. "
        "%Unsafe and %Goal on starts that were not debugged on, where the task has 20,000. `open`: evaluation starts that "
        "neither a run shows unsafe nor a search within its limits safe (none where the outcome is *safe*: a proof covers all "
        "starts). `met`: %Unsafe after, open starts counted as unsafe, is at most 1 or the paper's, or "
        "from some start no policy is safe; and %Goal fell by at most one point.\n\n"
        "The input policies are learnt carelessly (20 runs of the teacher, a third of the actions by chance, 10 rounds), not by the "
        "paper's recipe: that is [another table](table-two.md). "
        f"{len(harmless)} rows start at 0% unsafe, so that nothing is shown by them; {len(aimless)} start below 5% of the goal.\n\n"
        f"Met on {len(good)} of {len(names)} rows; on {len(telling & set(good))} of the {len(telling)} that are neither.\n\n"
        "| benchmark | %Unsafe before | after | open | %Goal before | after | faults at first | in all | repairs | trees added "
        "| longest repair s | outcome | s | met | |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|---:|---|---|\n"
    )
    lines = [_line(name, found[name]["default"], name in good) for name in names if "default" in found[name]]
    return head + "\n".join(lines) + "\n" + _free(names, found) + _variants(names, found) + _parts()


def _free(names: list[str], found: dict[str, Any]) -> str:
    """Return what became of Beluga with some parts in their places."""
    lines = [
        "\n## Some parts in their places\n",
        "The task with all orders of so many parts, the others in their places in the aircraft: all these starts are debugged "
        "and evaluated on, as in the paper, and the policy is verified on them.\n",
        "| benchmark | free parts | orders | %Unsafe before | after | %Goal before | after | faults | repairs | trees added "
        "| longest repair s | outcome | s |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|---:|",
    ]
    known = len(lines)
    for name in names:
        for variant, one in found[name].items():
            if variant.endswith("-free") and "error" not in one:
                free = int(variant.removesuffix("-free"))
                lines.append(
                    f"| {name} | {free} | {factorial(free):,} | {_percent(one['unsafe_before'])} | {_percent(one['unsafe_after'])} "
                    f"| {_percent(one['goal_before'])} | {_percent(one['goal_after'])} | {one['faults']:,} | {one['repairs']} "
                    f"| {one['trees_added']} | {one['longest_repair_seconds']:.1f} | {one['outcome']} | {one['seconds']:.0f} |"
                )
    return "\n".join(lines) + "\n" if len(lines) > known else ""


def _parts() -> str:
    """Return what repairs with parts of the faults came to, where that was measured."""
    file = RESULTS / "debugging-fractions.json"
    if not file.exists():
        return ""
    lines = [
        "\n## Parts of the faults\n",
        "The input policy, repaired once with a part of the faults that its campaign found (the paper's Fig. 2): %Unsafe / %Goal on 1,000 "
        "starts.\n",
        *parts_table(json.loads(file.read_text())),
    ]
    return "\n".join([*lines, "\n![%Unsafe and %Goal over the part of the faults](debugging-fractions.svg)\n"])


def is_proved(one: dict[str, Any]) -> bool:
    """Whether a proof covers all start states."""
    return one["outcome"] in ("safe", "safe, goal lost")


def meets(name: str, one: dict[str, Any]) -> bool:
    """Whether the row is as good as asked: hardly unsafe, or no policy is safe; and about as often at the goal.

    A start that is not decided counts as unsafe, unless a proof covers it.
    """
    if one.get("unsafe_after") is None:
        return False
    paper = TABLE[name].unsafe_after
    undecided = 0.0 if is_proved(one) else 100 * one["undecided_after"] / EVALUATED
    hardly = one["unsafe_after"] + undecided <= max(1.0, paper or 0.0)
    safe = one["outcome"] == "stopped" or bool(one.get("unsafe_starts")) or hardly
    return bool(safe and one["goal_after"] >= one["goal_before"] - 1.0)


def remark(one: dict[str, Any]) -> str:
    """Return what makes the row say less than it seems to."""
    said = ["starts at 0% unsafe"] if one["unsafe_before"] == 0 else []
    return "; ".join([*said, *(["starts below 5% of the goal"] if one["goal_before"] < 5 else [])])


def _line(name: str, one: dict[str, Any], good: bool) -> str:
    if "error" in one:
        return f"| {name} | error: {one['error'][:80]} ||||||||||||||"
    paper = TABLE[name]
    proved = is_proved(one)
    fence = " with a fence" if one.get("fenced") else ""
    shown = f"{name}, {STARTS[name]} starts" if name in STARTS else name
    cells = [
        shown, _beside(one["unsafe_before"], paper.unsafe), _beside(one["unsafe_after"], paper.unsafe_after),
        "0" if proved else f"{one['undecided_after']:,}",
        _beside(one["goal_before"], paper.goal), _beside(one["goal_after"], paper.goal_after),
        f"{one['faults_at_first'] or 0:,}", f"{one['faults']:,} ({paper.faults:,})", str(one["repairs"]),
        f"{one['trees_added']} ({paper.trees_added})", f"{one['longest_repair_seconds']:.1f}",
        f"{one['outcome']}{fence} ({paper.outcome})", f"{one['seconds']:.0f}", "yes" if good else "no", remark(one),
    ]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def _variants(names: list[str], found: dict[str, Any]) -> str:
    """Return what the other variants came to, beside the default."""
    several = [
        name
        for name in names
        if len(VARIANTS.keys() & found[name]) > 1 and "error" not in found[name].get("default", {"error": ""})
    ]
    if not several:
        return ""
    used = [variant for variant in VARIANTS if any(variant in found[name] for name in several)]
    parts = [
        "\n## Variants\n",
        "%Unsafe / %Goal after the loop, and trees added; all but the default with a limit of 60 s.\n",
    ]
    parts += ["| benchmark | before | " + " | ".join(used) + " |", "|---|" + "---|" * (len(used) + 1)]
    for name in several:
        first = found[name]["default"]
        cells = [name, f"{_percent(first['unsafe_before'])} / {_percent(first['goal_before'])}"]
        for variant in used:
            one = found[name].get(variant, {})
            shown = f"{_percent(one.get('unsafe_after'))} / {_percent(one.get('goal_after'))}, {one.get('trees_added')}"
            cells.append(shown if "unsafe_after" in one else "")
        parts.append("| " + " | ".join(cells) + " |")
    return "\n".join(parts) + "\n"


def _beside(value: float | None, paper: float | None) -> str:
    return f"{_percent(value)} ({'-' if paper is None else paper})"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def write_fractions(chosen: list[Row], folder: Path) -> None:
    """Repair input policies with parts of their campaigns' faults; write figures and a picture."""
    found: dict[str, Curve] = {}
    for row in chosen:
        file = folder / f"{row.slug}-default" / "faults.json"
        if file.exists():
            task, policy = policy_of(row, folder)
            fitted = load_fitted(load_task(task), policy)
            found[row.name] = fractions(fitted, read_faults(fitted.task, file).faults, Options())
    (RESULTS / "debugging-fractions.json").write_text(json.dumps(found, indent=1) + "\n")
    (RESULTS / "debugging-fractions.svg").write_text(curves(found))


if __name__ == "__main__":
    main()
