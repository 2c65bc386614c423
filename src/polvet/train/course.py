"""A course: a policy made for a task, trees that imitate a teacher or a network by deep Q-learning, and how well it does."""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from polvet.budget import UNLIMITED, Budget
from polvet.errors import InputError, LimitReached, Where
from polvet.files import Figures
from polvet.kernel.compiled import Words
from polvet.kernel.starts import Starts
from polvet.model.task import Task
from polvet.policy.binding import Fitted, fit, load_fitted
from polvet.policy.boosting import Growth
from polvet.policy.compiled import bind_policy, compile_policy
from polvet.policy.protocol import Policy
from polvet.policy.runs import End, simulate
from polvet.train.imitate import imitate
from polvet.train.lessons import policy_lessons, potential_of
from polvet.train.q_learning import QOptions, blank_network, learn
from polvet.train.teacher import explore_all, find_teacher, teacher_runs

SMALL = 500_000
EVALUATED_RUNS = 2000
START_POOL = 20_000


@dataclass(frozen=True, slots=True)
class Course:
    """How a policy is made: `kind` is trees or mlp; a learning rate of None is the kind's own."""

    kind: str
    teacher: str = "auto"
    runs: int = 1000
    noise: float = 0.0
    depth: int = 5
    rounds: int = 20
    learning_rate: float | None = None
    hidden: str = "64,64"
    steps: int = 200_000
    shaping: str | None = None
    max_steps: int = 200


def pupil_of(task: Task) -> Fitted:
    """Return the task with a network that knows nothing: the columns of the policy to be made."""
    network, place = task.network, "model" if task.source is None else str(task.source.file)
    network.require_choices(Where(place))
    inputs = task.reading.inputs or tuple(v.name for v in network.variables if not v.is_location)
    outputs = task.reading.outputs or network.labels
    if not inputs or not outputs:
        raise InputError(
            "the model has no variables or no labels to choose.",
            Where(place),
            "Give a model with variables and labelled edges, or name them in task.toml under [policy].",
        )
    if len(outputs) == 1:
        raise InputError(
            f"the only action is '{outputs[0]}': there is nothing to choose and nothing to learn.",
            Where(place),
            "Give a model with two labels or more.",
        )
    return fit(task, blank_network(inputs, outputs))


def train(
    pupil: Fitted, course: Course, *, seed: int, budget: Budget = UNLIMITED, max_states: int = SMALL
) -> tuple[Policy, Figures]:
    """Return the policy and the figures of its making; a teacher that searches stores at most so many states."""
    match course.kind:
        case "trees":
            return _trees(pupil, course, seed, budget.told(None), max_states)
        case "mlp":
            return _network(pupil, course, seed, budget)
        case _:
            raise InputError(f"'{course.kind}' is unknown.", Where("kind"), "Use mlp or trees.")


def shares(task: Task, file: Path, *, seed: int, max_steps: int, budget: Budget = UNLIMITED) -> dict[str, float]:
    """Return how many percent of the runs of the policy in the file reach the goal, and fail."""
    bound = compile_policy(load_fitted(task, file))
    first = Starts.of(task, budget).sample(EVALUATED_RUNS, random.Random(seed + 1), budget=budget)
    batch = simulate(bound, bound.compiled.pack(first), max_steps=max_steps, seed=seed + 1, budget=budget)
    if batch.limit is not None:
        raise batch.limit
    return {
        "goal_percent": 100 * batch.count(End.GOAL) / EVALUATED_RUNS,
        "fail_percent": 100 * batch.count(End.FAIL) / EVALUATED_RUNS,
    }


def _trees(pupil: Fitted, course: Course, seed: int, budget: Budget, max_states: int) -> tuple[Policy, Figures]:
    rows, taught, who = _lessons(pupil, course, seed, budget, max_states)
    growth = Growth(course.depth, course.rounds, course.learning_rate or 0.4, seed)
    imitation = imitate(rows, taught, tuple(pupil.policy.inputs), tuple(pupil.policy.outputs), growth, budget)
    figures = {"teacher": who, "lessons": len(rows), "accuracy": imitation.accuracy, "curve": list(imitation.curve)}
    return imitation.policy, figures


def _lessons(pupil: Fitted, course: Course, seed: int, budget: Budget, max_states: int) -> tuple[Any, Any, str]:
    teacher = course.teacher
    how: Any = {"runs": course.runs, "max_steps": course.max_steps, "noise": course.noise, "seed": seed}
    if teacher in ("auto", "optimal", "safe"):
        try:
            compiled, space = explore_all(pupil.task, budget=budget.at_most(states=max_states))
        except LimitReached as limit:
            if teacher != "auto" or limit.kind == "time":
                raise
            teacher = "random"
        else:
            seen, taught = teacher_runs(find_teacher(space, safe=teacher == "safe"), **how)
            place = {label: k for k, label in enumerate(pupil.labels)}
            known = np.array([label in place for label in taught.tolist()], dtype=bool)
            rows = bind_policy(pupil, compiled).core.rows(np.ascontiguousarray(space.states[seen[known]]))
            chosen = np.array([place[label] for label in taught[known].tolist()], dtype=np.int64)
            return rows, chosen, "safe" if teacher == "safe" else "optimal"
    file = None if teacher == "random" else Path(teacher)
    rows, chosen = policy_lessons(pupil, file, _pool(pupil, seed, budget), budget=budget, **how)
    return rows, chosen, teacher


def _network(pupil: Fitted, course: Course, seed: int, budget: Budget) -> tuple[Policy, Figures]:
    options = QOptions(
        hidden=_sizes(course.hidden),
        steps=course.steps,
        learning_rate=course.learning_rate or 1e-3,
        max_steps=course.max_steps,
        seed=seed,
    )
    potential = None if course.shaping is None else potential_of(pupil, course.shaping, Where("shaping"))
    learnt = learn(pupil, _pool(pupil, seed, budget.told(None)), options, potential=potential, budget=budget)
    return learnt.policy, {"curve": [asdict(point) for point in learnt.curve]}


def _sizes(hidden: str) -> tuple[int, ...]:
    parts = [part.strip() for part in hidden.split(",") if part.strip()]
    if not parts or any(not part.isdigit() or not 1 <= int(part) <= 4096 for part in parts):
        raise InputError(f"'{hidden}' is no list of layer sizes.", Where("hidden"), "Write 64,64.")
    return tuple(int(part) for part in parts)


def _pool(pupil: Fitted, seed: int, budget: Budget) -> Words:
    starts, compiled = Starts.of(pupil.task, budget), compile_policy(pupil).compiled
    if starts.count is not None and starts.count <= START_POOL:
        return compiled.pack_starts(starts, budget=budget)
    return compiled.pack(starts.sample(START_POOL, random.Random(seed), budget=budget))
