"""The gate: may this policy be shipped? Every threshold with what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from polvet.confirm.outcome import confirmation_json
from polvet.errors import InputError, Where, suggest
from polvet.front.arguments import count, steps
from polvet.front.limits import Crowd, Work
from polvet.front.loading import TaskLike, load
from polvet.front.results import Gate
from polvet.front.task import Task

if TYPE_CHECKING:
    from polvet.acceptance.judge import Thresholds

MOST_STATES = 10_000_000
NUMBERS = {"max_faults", "max_unsafe", "min_goal", "max_goal_loss"}


def gate(
    task: TaskLike,
    policy: Any,
    *,
    before: Any = None,
    starts: int = 1_000,
    runs: int = 100,
    max_steps: int | None = None,
    **options: Any,
) -> Gate:
    """Return whether the policy may be shipped: every threshold with what was measured.

    Thresholds are `max_faults`, `max_unsafe`, `min_goal`, `max_risk` (a probability such as "0.05", read exactly), `proved`, and
    `sampled` where samples are enough; with a policy `before`,
    %Goal may be at most `max_goal_loss` points below that one's; it counts runs of at most `max_steps` steps (absent: as the world
    allows, else 10,000), and the others runs of any length. The limits are those of all verbs.
    """
    from polvet.acceptance.judge import Passing, Sampling, judge_bound

    thresholds, limits = _thresholds(options)
    work = Work.begin(limits, Crowd, max_states=MOST_STATES)
    starts, runs = count(starts, "starts"), count(runs, "runs")
    world = task if isinstance(task, Task) else load(task)
    one, earlier = world.policy(policy), None if before is None else world.policy(before)
    sampling = Sampling(starts, runs, steps(max_steps), work.chance, work.threads(starts), work.budget)
    judged = judge_bound(one.bound, thresholds, sampling, None if earlier is None else earlier.bound, one.file)
    checks = tuple(
        {"name": each.name, "passing": each.passing.value, "says": each.says, **confirmation_json(each.checked)}
        for each in judged.checks
    )
    unknown = [each.says for each in judged.checks if each.passing is Passing.UNKNOWN]
    reason = "; ".join(unknown) if judged.passing is Passing.UNKNOWN else None
    if thresholds.unstated and judged.runs is not None and judged.runs.useless is not None:
        reason = judged.runs.useless
    figures = {} if judged.runs is None else judged.runs.figures()
    figures |= {key: value for each in judged.checks for key, value in each.figures.items()}
    return Gate(
        figures=figures,
        reason=reason,
        passing=judged.passing.value,
        checks=checks,
        source=judged,
        only_goal_lost=judged.only_goal_lost,
        confirmation=judged.checked,
        **work.account(),
    )


def _thresholds(options: Mapping[str, Any]) -> tuple[Thresholds, Mapping[str, Any]]:
    from polvet.acceptance.judge import Thresholds

    known = [one.name for one in fields(Thresholds)]
    limits = {name: value for name, value in options.items() if name not in known}
    for name in limits.keys() - Crowd.__optional_keys__:
        raise InputError(f"there is no threshold '{name}'.", Where(name), suggest(name, known))
    for name in NUMBERS & options.keys():
        if options[name] is not None and (
            isinstance(options[name], bool) or not isinstance(options[name], int | float)
        ):
            raise InputError(f"{options[name]!r} is no number.", Where(name), "Give a number, or leave it out.")
    return Thresholds(**{name: value for name, value in options.items() if name in known}), limits
