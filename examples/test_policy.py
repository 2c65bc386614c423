"""A gate in a test suite. Run: pytest examples/test_policy.py --polvet task.toml --polvet-policy policy.json."""

from typing import Any


def test_the_policy_has_no_fault_and_still_works(polvet_policy: Any) -> None:
    """`polvet_policy` comes with the plugin that installing polvet installs."""
    polvet_policy.check(max_faults=0, max_risk="0.05", min_goal=90)


def test_the_policy_is_proved_safe(polvet_policy: Any) -> None:
    """A proof, not a sample."""
    polvet_policy.check(proved=True)
