"""Verify the final policy of every campaign of the debugging loop: verdict, method, seconds, memory, is the evidence accepted?

python -m benchmarks.verification_loop [--folder out/table-2] [--rows TEXT] [--seconds S]

`benchmarks.debugging` makes the folders; a row whose campaign is not there is left out. `polvet verify` and `polvet certify` run in
processes of their own, with the same limits; CPU seconds and the greatest resident memory are theirs. Rows that the paper verifies, and
those where its verification ran out of time or memory, are marked. Rows with real values are those of `benchmarks.control`.
Results: benchmarks/results/verification-loop.{json,md}.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from benchmarks.control import DOMAINS
from benchmarks.teachers import rows

RESULTS = Path(__file__).parent / "results"
MEGABYTES = 8_000
VERIFIED = (
    "8Blocks CI", "Beluga (3 Jigs)", "Beluga (4 Jigs)", "Beluga (5 Jigs)", "1 way line (15, 10) Icy + Park",
    "1 way line (17, 10) Icy + Park", "2 way line (15, 10) Icy + Park", "2 way line (15, 10) Icy", "2 way line (17, 10) Icy",
)  # fmt: skip
"""Rows of Table 2 with the outcome Safe."""
NOT_VERIFIED = (
    "Beluga (6 Jigs)", "Beluga (8 Jigs)", "1 way line (40, 25)", "1 way line (30, 20) Icy", "1 way line (40, 25) Icy",
    "Inverted Pendulum (0.01)", "Inverted Pendulum (0.05)", "Follow Car (0.01)", "Follow Car (0.05)",
)  # fmt: skip
"""Rows whose loop ended before verification; all others end in a time or memory limit of verification, or before it."""


def main() -> None:
    """Verify what is asked for and write the table; rows already measured are kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("out/table-2"))
    parser.add_argument("--rows", default="", help="only rows whose name matches this regular expression")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--results", type=Path, default=RESULTS / "verification-loop.json")
    chosen = parser.parse_args()
    found: dict[str, Any] = json.loads(chosen.results.read_text()) if chosen.results.exists() else {}
    for row in rows():
        if row.domain[0] in DOMAINS:
            continue
        task, campaign = chosen.folder / f"{row.slug}.toml", chosen.folder / f"{row.slug}-default"
        policy = campaign / "policy.json"
        if row.name in found or not re.search(chosen.rows, row.name) or not policy.exists():
            continue
        found[row.name] = {
            "loop": outcome_of(campaign),
            "paper": paper_of(row.name),
            **measure(task, policy, chosen.seconds),
        }
        print(row.name, json.dumps(found[row.name]), flush=True)
        chosen.results.write_text(json.dumps(found, indent=1) + "\n")
    chosen.results.with_suffix(".md").write_text(table(found))


def outcome_of(campaign: Path) -> str:
    """Return how the loop ended."""
    file = campaign / "outcome.json"
    return str(json.loads(file.read_text())["outcome"]) if file.exists() else "not finished"


def paper_of(name: str) -> str:
    """Return what the paper's verification said about its policy of that row."""
    return "safe" if name in VERIFIED else "not reached" if name in NOT_VERIFIED else "not decided"


def measure(task: Path, policy: Path, seconds: float) -> dict[str, Any]:
    """Return the figures of one verification and of the check of its evidence."""
    with tempfile.TemporaryDirectory() as folder:
        certificate = Path(folder) / "certificate.json"
        begun = time.monotonic()
        code, text, used, megabytes = run(
            "verify", str(task), str(policy), "--json", "-o", str(certificate), "--time-limit", str(seconds),
            "--memory-limit", str(MEGABYTES),
        )  # fmt: skip
        elapsed = time.monotonic() - begun
        if code not in (0, 10, 20):
            return {"verdict": "error", "reason": text[-300:], "seconds": round(elapsed, 1)}
        answer = json.loads(text)
        one = {
            "verdict": answer["verdict"], "method": answer["figures"]["method"], "reason": answer.get("reason"),
            "states": answer["figures"].get("states"), "seconds": round(elapsed, 1), "cpu_seconds": round(used, 1),
            "megabytes": round(megabytes),
        }  # fmt: skip
        if certificate.exists():
            listed = json.loads(certificate.read_text())
            one["evidence"] = listed["kind"]
            if listed["kind"] == "reachable-set" and "states" not in listed:
                one["checked"] = "not listed"  # the checker would explore again, in the slow interpreter
            else:
                code, _, used, _ = run("certify", str(certificate), "--task", str(task), "--policy", str(policy))
                one |= {
                    "checked": {0: "accepted", 10: "rejected"}.get(code, "failed"),
                    "check_cpu_seconds": round(used, 1),
                }
        return one


def run(*arguments: str, seconds: float = 86_400) -> tuple[int, str, float, float]:
    """Return exit code (-9: killed at the limit), output, CPU seconds and the greatest resident megabytes of a command of polvet."""
    with tempfile.TemporaryFile("w+") as out:
        child = subprocess.Popen([sys.executable, "-m", "polvet", *arguments], stdout=out, stderr=subprocess.STDOUT)
        alarm = threading.Timer(seconds, os.kill, (child.pid, signal.SIGKILL))
        alarm.start()
        _, status, usage = os.wait4(child.pid, 0)
        alarm.cancel()
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        return child.returncode, out.read(), usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def table(found: dict[str, Any]) -> str:
    """Return the figures as Markdown."""
    lines = [
        "# Verification of the debugging loop's final policies", "",
        "Policies are trained and repaired here, so they are not the paper's. *Loop*: how the campaign ended (`limit`: it was stopped, so",
        "unsafe runs may remain). *Paper*: what its verification said of its own policy, within days.", "",
        "| benchmark | paper | loop | verdict | method | s | CPU s | MB | evidence | checked (CPU s) |",
        "|---|---|---|---|---|---:|---:|---:|---|---|",
    ]  # fmt: skip
    for name, one in found.items():
        checked = (
            f"{one.get('checked', '')} ({one['check_cpu_seconds']})"
            if "check_cpu_seconds" in one
            else one.get("checked", "")
        )
        lines.append(
            f"| {name} | {one['paper']} | {one['loop']} | {one['verdict']} | {one.get('method', '')} | {one['seconds']} "
            f"| {one.get('cpu_seconds', '')} | {one.get('megabytes', '')} | {one.get('evidence', '')} | {checked} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
