"""Table 2 of the paper on safety debugging: `polvet debug` on every row, with policies trained here (`teachers.py`).

python -m benchmarks.debugging [--rows TEXT] [--seconds S] [--variants default,penalty,unkept,milp] [--folder DIR]

Variants   default: leaf values by linear programs, retention, safe actions; penalty: a tree per fault (section 5.1);
           unkept: no retention, the nearest to the paper; milp: the paper's big-M program
Each row's campaign has the same time limit; one that is not done then counts as it stands (outcome `limit`). Figures
differ from the paper's, since the policies do. Results: benchmarks/results/debugging.{json,md}.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.teachers import Row, policy_of, rows

RESULTS = Path(__file__).parent / "results"
VARIANTS: dict[str, tuple[str, ...]] = {
    "default": (),
    "penalty": ("--method", "penalty", "--keep", "0"),
    "unkept": ("--keep", "0", "--max-goal-loss", "100"),
    "milp": ("--method", "milp"),
}


def main() -> None:
    """Run what is asked for and write the table; rows already measured are kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default="", help="only rows whose name contains this")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--variants", default="default,penalty")
    parser.add_argument("--folder", type=Path, default=Path("out/table-2"))
    parser.add_argument("--results", type=Path, default=RESULTS / "debugging.json")
    chosen = parser.parse_args()
    found: dict[str, Any] = json.loads(chosen.results.read_text()) if chosen.results.exists() else {}
    for row in rows():
        if chosen.rows not in row.name:
            continue
        task, policy = policy_of(row, chosen.folder)
        for variant in chosen.variants.split(","):
            if variant in found.get(row.name, {}):
                continue
            measured = measure(row, task, policy, variant, chosen.seconds, chosen.folder)
            found.setdefault(row.name, {"paper": row.paper})[variant] = measured
            chosen.results.write_text(json.dumps(found, indent=1) + "\n")
            print(row.name, variant, json.dumps(measured), flush=True)
    chosen.results.with_suffix(".md").write_text(table(found))


def measure(row: Row, task: Path, policy: Path, variant: str, seconds: float, folder: Path) -> dict[str, Any]:
    """Debug the row's policy in a fresh folder and return the figures before and after."""
    here = folder / f"{row.slug}-{variant}"
    shutil.rmtree(here, ignore_errors=True)
    begun = time.monotonic()
    done = subprocess.run(
        [
            sys.executable, "-m", "polvet", "debug", str(task), str(policy), "-o", str(here), "--json",
            "--time-limit", str(seconds), "--memory-limit", "8000", *VARIANTS[variant],
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
        "faults": answer["figures"]["faults"], "repairs": len(repaired),
        "trees_added": sum(one["trees_added"] for one in repaired),
        "longest_repair_seconds": max((one["repair_seconds"] for one in repaired), default=0.0),
        "verification": next((one["verification"]["method"] for one in rounds if "verification" in one), None),
        "seconds": round(time.monotonic() - begun, 1),
    }  # fmt: skip


def table(found: dict[str, Any]) -> str:
    """Return the figures as Markdown."""
    head = (
        "# The debugging loop on the rows of Table 2\n\n"
        "Policies are trained here (`benchmarks/teachers.py`), so figures differ from the paper's. %Unsafe and %Goal on "
        "starts that were not debugged on, where the task has 20,000.\n\n"
        "| benchmark | variant | %Unsafe before | after | paper after | %Goal before | after | faults | repairs | trees added "
        "| longest repair s | outcome | s |\n|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|---:|\n"
    )
    lines = []
    for name, row in found.items():
        for variant, one in row.items():
            if variant == "paper":
                continue
            if "error" in one:
                lines.append(f"| {name} | {variant} | error: {one['error'][:80]} ||||||||||| ")
                continue
            lines.append(
                f"| {name} | {variant} | {_percent(one['unsafe_before'])} | {_percent(one['unsafe_after'])} "
                f"| {_percent(row['paper'].get('unsafe'))} | {_percent(one['goal_before'])} | {_percent(one['goal_after'])} "
                f"| {one['faults']:,} | {one['repairs']} | {one['trees_added']} | {one['longest_repair_seconds']:.1f} "
                f"| {one['outcome']} | {one['seconds']:.0f} |"
            )
    return head + "\n".join(lines) + "\n"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


if __name__ == "__main__":
    main()
