"""The three answers to whether something is safe: a state under some policy (`safety/`), or a policy from all start states (`verify/`)."""

from __future__ import annotations

from enum import Enum


class Verdict(Enum):
    """Safe, unsafe or not known; deliberately no bool."""

    SAFE, UNSAFE, UNKNOWN = "safe", "unsafe", "unknown"

    def __bool__(self) -> bool:
        raise TypeError("a verdict has three values: write `result.verdict is Verdict.SAFE`")
