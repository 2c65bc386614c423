"""The pytest plugin: `pytest --polvet task.toml --polvet-policy policy.json`, and the fixture `polvet_policy`.

The two options (or `polvet` and `polvet_policy` in the ini file) add one test per threshold. A test of one's own:

    def test_policy(polvet_policy):
        polvet_policy.check(max_faults=0, min_goal=90)

polvet itself is imported when the first such test runs, so that other test suites pay nothing for the plugin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from polvet.acceptance.judge import Check, GateResult
    from polvet.model.task import Task

OPTIONS = (
    ("--polvet", "polvet", str, "The task.toml (or model) that a policy is vetted on."),
    ("--polvet-policy", "polvet_policy", str, "The policy that is vetted."),
    ("--polvet-max-faults", "polvet_max_faults", int, "At most so many faults; 0 without any threshold."),
    ("--polvet-max-unsafe", "polvet_max_unsafe", float, "At most so many percent of the starts unsafe."),
    ("--polvet-min-goal", "polvet_min_goal", float, "At least so many percent of the runs reach the goal."),
    ("--polvet-max-risk", "polvet_max_risk", str, "Runs fail with at most this probability, at worst."),
)
CHECKS = {"max_faults": "faults", "max_unsafe": "unsafe", "min_goal": "goal", "max_risk": "risk"}
"""The check that each threshold asks for."""
JUDGED: pytest.StashKey[GateResult] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options, each also as an ini value."""
    group = parser.getgroup("polvet", "vetting action policies")
    for option, name, kind, meaning in OPTIONS:
        group.addoption(option, dest=name, type=kind, default=None, help=meaning)
        parser.addini(name, meaning)
    group.addoption("--polvet-allow-code", action="store_true", help="Run the Python functions that the task names.")


def _option(config: pytest.Config, name: str) -> Any:
    value = config.getoption(name)
    if value is not None:
        return value
    kind = next(kind for _, known, kind, _ in OPTIONS if known == name)
    text = config.getini(name)
    return kind(text) if text else None


@dataclass(frozen=True, slots=True)
class VettedPolicy:
    """A policy and its task, ready for questions; `check` asserts, `judge` returns all checks."""

    task: Task
    policy: Path
    seed: int = 0
    sampling: Mapping[str, Any] = field(default_factory=dict)  # fields of `Sampling`

    def judge(self, **thresholds: Any) -> GateResult:
        """Return all checks: `max_faults`, `max_unsafe`, `min_goal`, `max_risk`, `proved`, `sampled`."""
        from polvet.acceptance.judge import Sampling, Thresholds, judge

        return judge(self.task, self.policy, Thresholds(**thresholds), Sampling(seed=self.seed, **self.sampling))

    def check(self, **thresholds: Any) -> None:
        """Fail the test where a check fails or stays unknown."""
        self.accept(self.judge(**thresholds))

    def accept(self, judged: GateResult) -> None:
        """Fail the test where one of the checks failed or stayed unknown."""
        from polvet.acceptance.judge import Passing

        if judged.passing is not Passing.PASSED:
            pytest.fail(_failure_text(judged, self.task), pytrace=False)


@pytest.fixture(scope="session")
def polvet_policy(request: pytest.FixtureRequest) -> VettedPolicy:
    """The policy of `--polvet-policy` on the task of `--polvet`."""
    return _vetted(request.config)


def _vetted(config: pytest.Config) -> VettedPolicy:
    task, policy = _option(config, "polvet"), _option(config, "polvet_policy")
    if task is None or policy is None:
        missing = "--polvet TASK" if task is None else "--polvet-policy POLICY"
        pytest.fail(f"polvet_policy needs {missing}, on the command line or in the ini file", pytrace=False)
    from polvet.model.options import TaskOptions
    from polvet.sources import load_task

    options = TaskOptions(allow_code=config.getoption("--polvet-allow-code"))
    return VettedPolicy(load_task(task, options), Path(policy))


class GateItem(pytest.Item):
    """One threshold as a test; the policy is judged once, by all of them."""

    def __init__(self, *, own: str, thresholds: Mapping[str, Any], **more: Any) -> None:
        super().__init__(**more)
        self.own, self.thresholds = own, thresholds

    def runtest(self) -> None:
        """Vet the policy: by the check of the threshold, and by those that are no threshold's."""
        vetted, stash = _vetted(self.config), self.config.stash
        if JUDGED not in stash:
            stash[JUDGED] = vetted.judge(**self.thresholds)
        others = {CHECKS[name] for name in self.thresholds if name != self.own}
        vetted.accept(replace(stash[JUDGED], checks=tuple(c for c in stash[JUDGED].checks if c.name not in others)))

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return where it comes from: the policy's file."""
        return Path(_option(self.config, "polvet_policy")), None, self.name


def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add a test per threshold where a task and a policy are given."""
    if _option(config, "polvet") is not None and _option(config, "polvet_policy") is not None:
        added = list(_gate_items(session, config))
        items.extend(added)
        # GameVerdicts like any collector's findings, so that pytest counts them: "collected 1 item".
        config.hook.pytest_collectreport(report=pytest.CollectReport("polvet", "passed", None, list(added)))


def _gate_items(session: pytest.Session, config: pytest.Config) -> Iterator[GateItem]:
    options = {name: _option(config, f"polvet_{name}") for name in CHECKS}
    limits = {name: value for name, value in options.items() if value is not None}
    for name, value in limits.items():
        yield GateItem.from_parent(session, name=f"polvet[{name}={value}]", own=name, thresholds=limits)
    if not limits:
        yield GateItem.from_parent(session, name="polvet", own="", thresholds={})


def _failure_text(judged: GateResult, task: Task) -> str:
    from polvet.acceptance.findings import fault_text

    def line(check: Check) -> str:
        return f"{check.name}: {check.passing.value}: {check.says}"

    shown = [f"  {fault_text(task, one)}" for one in judged.faults[:5]]
    if len(judged.faults) > len(shown):
        shown.append(f"  ... and {len(judged.faults) - len(shown):,} more faults")
    runs = [] if judged.runs is None else [f"runs: {judged.runs.text()}"]
    return "\n".join([*map(line, judged.checks), *runs, *shown])
