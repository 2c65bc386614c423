"""A small campaign that was really run, and one written by hand with names full of markup."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from polvet import domains
from polvet.campaign.loop import debug
from polvet.campaign.settings import Settings
from polvet.records.journal import line_of
from polvet.sources import load_task

SHIPPED = Path(domains.__file__).parent / "policies"
LINE, FAULTY = SHIPPED / "one-way-line-8-5.toml", SHIPPED / "one-way-line-8-5-faulty.json"
EVIL = '</script><script>window.hacked=1</script><img src=x onerror="window.hacked=1">\'"&'


def real_campaign(folder: Path) -> Path:
    """Debug the shipped faulty policy on a few starts."""
    debug(load_task(LINE), FAULTY, folder, Settings(starts=300, runs=3, fuzz_runs=4))
    return folder


def hostile_campaign(folder: Path, metadata: dict[str, str] | None = None) -> Path:
    """Write a campaign in which every name, action and text tries to be markup."""
    state: dict[str, Any] = {EVIL: 1, "y": EVIL}
    fault = {"state": state, "action": EVIL, "safe_actions": [EVIL + "b"], "unsafe_outcomes": [{EVIL: 2, "y": EVIL}]}
    run = {"states": [state, {EVIL: 2, "y": "<b>"}], "actions": [EVIL], "end": EVIL}
    (folder / "faults").mkdir(parents=True)
    (folder / "faults/0.json").write_text(json.dumps({"format": "faults/1", "faults": [fault]}))
    (folder / "runs.jsonl").write_text(json.dumps(run) + "\n")
    about = {"task": EVIL, "model": EVIL, "metadata": metadata or {}, "options": {EVIL: EVIL}, "fail": EVIL}
    (folder / "about.json").write_text(json.dumps(about))
    ended = {"outcome": "improved", "reason": EVIL, "iterations": 0, "faults": 1, "policy": EVIL, "certificate": None}
    (folder / "outcome.json").write_text(json.dumps(ended))
    figures = {
        "unsafe_percent": 50.0, "unsafe_percent_interval": [40, 60.0], "goal_percent": 40.0, "seconds": 0.1,
        "goal_percent_interval": [30.0, 50.0], "undecided": 0, "unsafe_by_runs": 0, "certain": False,
    }  # fmt: skip
    counts = ("faults", "states", "safe_states", "open", "unsafe_starts", "runs", "runs_never_safe", "runs_with_fault")
    searched = {
        **dict.fromkeys((*counts, "near_ties", "unjudged", "unsafe_runs", "steps", "new_faults", "faults_so_far"), 1),
        "exhaustive": False, "ends": {EVIL: 1}, "policy_sha256": EVIL, "seconds": 0.1,
    }  # fmt: skip
    verified = {"verdict": EVIL, "method": EVIL, "reason": EVIL, "faults": 0, "seconds": 0}
    files = {"faults": {"name": "faults/0.json", "sha256": ""}, "runs": {"name": "runs.jsonl", "sha256": ""}}
    records = [
        {"format": "campaign/1", "settings": {"seed": EVIL, EVIL: 1}},
        {"iteration": 0, "step": "evaluate", "figures": figures, "files": {}},
        {"iteration": 0, "step": "search", "figures": searched, "files": files},
        {"iteration": 0, "step": "verify", "figures": verified, "files": {}},
    ]
    (folder / "journal").write_bytes(b"".join(line_of(record) for record in records))
    return folder
