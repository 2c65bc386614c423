"""The answers, one enumeration for engines, results and commands: *safe* is the same word of a state, a policy and a plan."""

from __future__ import annotations

from enum import Enum


class Verdict(Enum):
    """What may be said: the three values of a question, and what else commands answer; deliberately no truth value."""

    SAFE = "safe"
    UNSAFE = "unsafe"
    UNKNOWN = "unknown"
    TERMINATING = "terminating"
    NONTERMINATING = "nonterminating"
    GOAL_REACHING = "goal-reaching"
    GOAL_MISSED = "goal-missed"
    SOLVED = "solved"
    HOLDS = "holds"
    REFUTED = "refuted"
    STRONG_CYCLIC = "strong-cyclic"
    NOT_STRONG_CYCLIC = "not-strong-cyclic"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    FAULTS = "faults"
    NO_FAULTS = "no faults"
    FAULTS_REMAIN = "faults remain"
    FAULTS_ADDED = "faults added"
    EQUAL = "equal"
    DIFFERENT = "different"
    REPAIRED = "repaired"
    IMPROVED = "improved"
    PERMITTED = "permitted"
    IMPOSSIBLE = "impossible"
    OPTIMAL = "optimal"
    LEARNED = "learned"
    PASSED = "passed"
    FAILED = "failed"
    EXPLORED = "explored"
    EVALUATED = "evaluated"
    SIMULATED = "simulated"
    FUZZED = "fuzzed"
    TRAINED = "trained"
    READ = "read"
    GENERATED = "generated"
    WRITTEN = "written"
    DONE = "done"

    def __bool__(self) -> bool:
        raise TypeError("a verdict is no truth value: write `result.verdict is polvet.Verdict.SAFE`")
