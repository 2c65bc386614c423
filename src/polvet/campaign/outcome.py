"""How a campaign ends, in the words of the paper's Fig. 1, and `outcome.json`, which says so in its folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from polvet.errors import Where
from polvet.files import read_json
from polvet.records.shape import later, record_from_json, record_to_json


class Outcome(Enum):
    """How a campaign ended."""

    SAFE = "safe"  # verified, with a certificate
    GOAL_LOST = "safe, goal lost"  # the same, but the goal is reached less often than the budget allows
    GOAL_FAULTS = "safe, goal faults remain"  # the same; asked to mend goal faults as well, it could not mend them all
    IMPROVED = "improved"  # no new fault is found; verification reached a limit or was not wanted
    STOPPED = "stopped"  # the task is unsafe: from some start no policy is safe; no fault is left to fix
    IMPOSSIBLE = "impossible"  # from some start no policy keeps the bound on the risk; the least risky policy is left
    FAULTS_REMAIN = "faults remain"  # a repair left faults, or the iterations are used up
    LIMIT = "limit"  # of time or memory: run the command again to go on

    @property
    def is_proof(self) -> bool:
        """Return whether there is a proof that the final policy is safe."""
        return self in (Outcome.SAFE, Outcome.GOAL_LOST, Outcome.GOAL_FAULTS)


@dataclass(frozen=True, slots=True)
class OutcomeRecord:
    """The content of `outcome.json`; files are named as in the campaign's folder."""

    outcome: Outcome
    reason: str | None
    iterations: int
    faults: int
    policy: str
    certificate: str | None
    checked: bool | None = None  # whether the checker accepted the certificate; None: there is none
    not_checked: str | None = None  # why it was not asked
    warning: str | None = later()


def dump_outcome(record: OutcomeRecord, figures: Mapping[str, Any]) -> str:
    """Return the text of `outcome.json`; what the final policy is good for, and risks, stands beside how the campaign ended."""
    return json.dumps({**record_to_json(record), **figures}, ensure_ascii=False) + "\n"


def read_outcome(folder: Path) -> OutcomeRecord | None:
    """Return how the campaign in the folder ended; None while it has not."""
    path = folder / "outcome.json"
    return record_from_json(OutcomeRecord, read_json(path), Where(str(path))) if path.is_file() else None
