"""A world with what must not happen and what should: the `Task` of the front door, and its verbs."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polvet.budget import Budget, stopwatch
from polvet.errors import InputError, LimitReached, Where
from polvet.front.limits import budget_of, threads_of
from polvet.front.results import Decisions, Exploration, Impossible, Safe, Unknown, Unsafe, Value, with_check
from polvet.front.states import is_one_state, read_states
from polvet.model.infix import dump_expression
from polvet.model.task import Task as ModelTask
from polvet.model.task import state_to_names

if TYPE_CHECKING:
    from polvet.front.policy import Policy
    from polvet.front.shield import LearnedScheduler, Shield
    from polvet.model.semantics import State

MOST_STARTS = 10_000_000


class Task:
    """A model with `start`, `fail` and `goal`; made by `polvet.load`.

    >>> import polvet
    >>> m = polvet.ModelBuilder("walk")
    >>> x = m.int("x", 0, 9, initial=4)
    >>> for label, step in (("left", -1), ("right", 1)):
    ...     m.edge(label, guard=(x > 0) & (x < 9), to={x: x + step})
    >>> task = polvet.load(m, fail="x == 0", goal="x == 9")
    >>> task.explore().states, task.decide({"x": 4}).verdict.value
    (10, 'safe')
    >>> policy = task.policy({1: "left", 2: "left", 3: "left", 4: "left", 5: "right", 6: "right", 7: "right", 8: "right"})
    >>> result = policy.verify()
    >>> result.verdict.value, result.run.actions
    ('unsafe', ('left', 'left', 'left', 'left'))
    """

    def __init__(self, model_task: ModelTask) -> None:
        self._task = model_task

    @property
    def model_task(self) -> ModelTask:
        """The task as engines take it."""
        return self._task

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the variables, in the model's order; arrays of states have their columns so."""
        return tuple(variable.name for variable in self._task.network.variables)

    @property
    def labels(self) -> tuple[str, ...]:
        """What a policy chooses among."""
        return tuple(self._task.network.labels)

    @property
    def digest(self) -> str | None:
        """The SHA-256 of what the task was read from; certificates name it."""
        return self._task.sha256

    def __repr__(self) -> str:
        name = self._task.network.model.name
        return f"Task({name!r}, fail={dump_expression(self._task.fail)!r}, goal={dump_expression(self._task.goal)!r})"

    def explore(
        self,
        *,
        max_states: int | None = None,
        time_limit: float | None = None,
        memory_limit: int | None = None,
        progress: bool | Callable[[int, int], Any] = False,
    ) -> Exploration:
        """Return how many states can be reached, goal and fail states passed through like others."""
        from polvet.kernel.compiled import Compiled, describe_limit
        from polvet.kernel.starts import Starts

        within = budget_of(time_limit, memory_limit, max_states, progress)
        compiled = Compiled(self._task.network)
        initial = None
        if self._task.start is not None:
            initial = compiled.pack_starts(Starts.of(self._task, within), budget=within)
        space = compiled.explore(initial, budget=within)
        limit = describe_limit(space, within)
        figures = {
            "states": len(space),
            "transitions": space.transitions,
            "deadlocks": space.deadlocks,
            "choices": space.choices,
            "initial": len(space.initial),
        }
        return Exploration(
            figures, None, None if limit is None else str(limit), len(space), space.transitions, space.deadlocks
        )

    def check(
        self,
        property: str,
        *,
        exact: bool = False,
        gap: float = 1e-6,
        max_states: int | None = None,
        time_limit: float | None = None,
        memory_limit: int | None = None,
        progress: bool | Callable[[int, int], Any] = False,
    ) -> Value:
        """Return the value of a property: its name in the model, or PRISM's notation, where `fail` and `goal` may stand in conditions."""
        from polvet.mdp.check import check_property
        from polvet.shield.world import started

        found = check_property(
            started(self._task),
            self._property(property),
            relative_gap=gap,
            exact=exact,
            budget=budget_of(time_limit, memory_limit, max_states, progress),
        )
        figures = {"states": found.states, "choices": found.choices, "transitions": found.transitions}
        reason = None if found.limit is None else str(found.limit)
        return Value(figures, None, reason, found.value, found.lower, found.upper, found.exact)

    def decide(
        self,
        states: Any = None,
        *,
        algorithm: str = "lazy",
        max_states: int | None = None,
        time_limit: float | None = None,
        memory_limit: int | None = None,
        workers: int | str | None = None,
        seed: int = 0,
        progress: bool | Callable[[int, int], Any] = False,
    ) -> Safe | Unsafe | Unknown | Decisions:
        """Return whether some policy surely avoids `fail` from a state, from several, or (None) from all start states.

        One state gives Safe or Unsafe with a certificate, several give Decisions.
        """
        from polvet.safety import Decider, Verdict, prove
        from polvet.safety.batch import decide_states
        from polvet.safety.confirmed import confirm_answers, confirm_states

        spent = stopwatch()
        within = budget_of(time_limit, memory_limit, max_states, progress)
        asked = self._starts(within) if states is None else read_states(self._task.network, states)
        threads = max(1, min(threads_of(workers), len(asked) // 256))
        answers = decide_states(self._task, asked, algorithm, threads=threads, seed=seed, budget=within)
        reason = next((str(answer.limit) for answer in answers if answer.limit is not None), None)
        words = {Verdict.SAFE: True, Verdict.UNSAFE: False, Verdict.UNKNOWN: None}
        figures: dict[str, Any] = {"expanded": sum(answer.expanded for answer in answers), "algorithm": algorithm}
        if states is None or not is_one_state(states):
            safe = tuple(words[answer.verdict] for answer in answers)
            counts = {name: safe.count(word) for name, word in (("safe", True), ("unsafe", False), ("unknown", None))}
            named = tuple(state_to_names(self._task.network, state) for state in asked)
            checked = confirm_answers(self._task, asked, answers, found=spent(), budget=within)
            return with_check(Decisions({**counts, **figures}, None, reason, named, safe), checked)
        (answer,) = answers
        if answer.verdict is Verdict.UNKNOWN:
            return Unknown(figures, None, reason, algorithm)
        make = partial(prove, Decider(self._task), verdict=answer.verdict, budget=within)
        certificate, checked = confirm_states(
            self._task, answer.verdict.value, asked, make, found=spent(), budget=within
        )
        said = Safe if answer.verdict is Verdict.SAFE else Unsafe
        return with_check(said(figures, certificate, None, algorithm), checked)

    def policy(self, what: Any, *, mode: str | None = None) -> Policy:
        """Return a policy for this task: a file's path, or an object.

        Objects: an XGBoost or LightGBM booster or classifier, a scikit-learn estimator, a stable-baselines3 model, a torch
        module, a function of a state that returns a label or scores, a dictionary from states to labels, or an array of
        scores by state. See docs/python.md.
        """
        from polvet.front.policy import open_policy

        return open_policy(self, what, mode)

    def with_mode(self, mode: str) -> Task:
        """Return the task in which policies are read 'filtered' (the best applicable label) or 'raw' (the best label)."""
        from polvet.front.loading import load

        return load(self, mode=mode)

    def permit(
        self,
        bound: float | str | Fraction,
        *,
        attempts: int | None = None,
        max_states: int | None = None,
        time_limit: float | None = None,
        memory_limit: int | None = None,
        seed: int = 0,
        progress: bool | Callable[[int, int], Any] = False,
    ) -> Shield | Impossible:
        """Return a shield: a maximal set of actions under which failing stays at most `bound` likely."""
        from polvet.front.shield import find_shield

        within = budget_of(time_limit, memory_limit, max_states, progress)
        return find_shield(self._task, bound, attempts, random.Random(seed), within)

    def learn(
        self,
        bound: float | str | Fraction,
        cost: str,
        *,
        iterations: int = 50,
        episodes: int = 20_000,
        max_states: int | None = None,
        time_limit: float | None = None,
        memory_limit: int | None = None,
        seed: int = 0,
        progress: bool | Callable[[int, int], Any] = False,
    ) -> LearnedScheduler | Impossible:
        """Return bounds on the least cost of a scheduler that stays below the bound, learned as costs are visited."""
        from polvet.front.shield import learn_inside

        within = budget_of(time_limit, memory_limit, max_states, progress)
        return learn_inside(self._task, bound, cost, iterations, episodes, random.Random(seed), within)

    def env(self, **options: Any) -> Any:
        """Return the task as a Gymnasium environment (extra `train`); the action is the number of a label.

        Options: `cost` (a reward variable of the model, taken off), `goal_reward`, `fail_reward`, `max_steps`.
        """
        from polvet.shield.gym import model_env

        return model_env(self._task, **options)

    def vec_env(self, n: int, *, sb3: bool = False, **options: Any) -> Any:
        """Return the task as `n` environments that step together in the kernel (extra `train`).

        They are a `VectorEnv` of Gymnasium, or with `sb3` a `VecEnv` of stable-baselines3. Options are those of `env`;
        `action_masks()` says what is applicable.
        """
        from polvet.shield.vector import VectorEnv, sb3_vec_env

        return (sb3_vec_env if sb3 else VectorEnv)(self._task, n, **options)

    def save(self, path: str | Path) -> Path:
        """Write the task to a `.toml` file and its model beside it, and return the `.toml` file's path.

        What was read from one folder, or made in memory, is written byte for byte, so that its digest and its certificates stay.
        """
        from polvet.front.loading import save_task

        return save_task(self._task, Path(path))

    def _property(self, text: str) -> Any:
        from polvet.sources import property_of_task

        if not isinstance(text, str):
            raise InputError(
                f"a {type(text).__name__} is no property.", Where("property"), "Give its name, or 'Pmax=? [F fail]'."
            )
        return property_of_task(self._task, text)

    def _starts(self, budget: Budget) -> list[State]:
        from polvet.kernel.starts import Starts

        starts = Starts.of(self._task, budget)
        if starts.count is None or starts.count > MOST_STARTS:
            raise LimitReached("there are too many start states to decide them all; give states")
        return list(starts.states(budget=budget))
