"""A world with what must not happen and what should: the `Task` of the front door, and its verbs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from polvet.budget import stopwatch
from polvet.choices import one_of
from polvet.errors import InputError, Where
from polvet.files import Figures
from polvet.front.arguments import count, environment, known_options
from polvet.front.limits import Chance, Crowd, Threaded, TimedChance, Work
from polvet.front.result import why
from polvet.front.results import Exploration, Impossible, Safe, Training, Unknown, Unsafe, Value
from polvet.front.states import is_one_state, read_states
from polvet.front.workplace import keep_policy
from polvet.model.infix import dump_expression
from polvet.model.task import Task as ModelTask
from polvet.safety.algorithms import ALGORITHMS, DEFAULT

if TYPE_CHECKING:
    from polvet.front.deciding import Decisions
    from polvet.front.learning import LearnedScheduler
    from polvet.front.policy import Policy
    from polvet.front.region import SafeRegion
    from polvet.front.shield import Shield
    from polvet.shield.abstraction import AbstractionCheck
    from polvet.shield.deployment import Cost, Promise
    from polvet.shield.given_distributions import GivenDistributions

ENV_OPTIONS = ("cost", "goal_reward", "fail_reward", "max_steps")


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

    def __init__(self, model_task: ModelTask, shown: Mapping[int, Any] | None = None) -> None:
        self._task, self._shown = model_task, shown or {}

    @property
    def model_task(self) -> ModelTask:
        """The task as engines take it."""
        return self._task

    @property
    def shown(self) -> Mapping[int, Any]:
        """What an agent observes in the environment that the world was made of, by the number of the state; empty: not known."""
        return self._shown

    @property
    def max_steps(self) -> int | None:
        """After how many steps the world ends an episode: shares of runs heed it, verdicts about safety hold without it."""
        return self._task.max_steps

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

    def explore(self, policy: Any = None, **limits: Unpack[Threaded]) -> Exploration:
        """Return how many states can be reached (by a policy), goal and fail states passed through like others."""
        from polvet.kernel.compiled import Compiled, describe_limit
        from polvet.kernel.starts import Starts
        from polvet.policy.compiled import bind_policy

        work = Work.begin(limits, Threaded)
        chosen = None if policy is None else self.policy(policy)
        task = self._task if chosen is None else chosen.fitted.task
        compiled = Compiled(task.network)
        initial = None
        if self._says_start():
            initial = compiled.pack_starts(Starts.of(task, work.budget), budget=work.budget)
        exploring = stopwatch()
        followed = None if chosen is None else bind_policy(chosen.fitted, compiled).core
        space = compiled.explore(initial, budget=work.budget, policy=followed, threads=work.threads())
        seconds, states = exploring(), len(space)
        figures: Figures = {
            "states": states,
            "transitions": space.transitions,
            "deadlocks": space.deadlocks,
            "choices": space.choices,
            "operators": space.moves,
            "initial": len(space.initial),
            "explore_seconds": round(seconds, 6),
            "bytes_per_state": round(space.bytes / max(1, states), 2),
            "words_per_state": compiled.program.words,
        }
        if chosen is not None:
            figures |= {"stuck": space.stuck, "near_ties": space.near_ties, "policy": chosen.fitted.describe()}
        limit = describe_limit(space, work.budget)
        return Exploration(figures=figures, source=(compiled, space), **why(limit), **work.account())

    def check(
        self, property: str, *, policy: Any = None, exact: bool = False, gap: float = 1e-6, **limits: Unpack[Threaded]
    ) -> Value:
        """Return the value of a property (of what a policy makes of the model): its name in the model, or PRISM's notation.

        In conditions `fail` and `goal` stand for the task's.
        """
        from polvet.mdp.check import check_property
        from polvet.shield.world import started

        work = Work.begin(limits, Threaded)
        fitted = None if policy is None else self.policy(policy).fitted
        # A policy whose outputs are edges is fitted to a task with a label for each edge.
        task = self._task if fitted is None else fitted.task
        network = started(task) if self._says_start() else task.network
        wanted = self._property(property)
        answer = check_property(
            network, wanted, gap=gap, exact=exact, budget=work.budget, policy=fitted, threads=work.threads()
        )
        figures: Figures = {
            "value": number(answer.value),
            "lower": number(answer.lower),
            "upper": number(answer.upper),
            "states": answer.states,
            "choices": answer.choices,
            "transitions": answer.transitions,
            "build_seconds": round(answer.build_seconds, 6),
            "is_exact": answer.is_exact,
        }
        if answer.exact is not None:
            figures["exact"] = str(answer.exact)
        if fitted is not None:
            figures |= {"near_ties": answer.near_ties, "policy": fitted.describe()}
        return Value(
            figures=figures,
            source=(network, wanted.name, answer),
            value=answer.value,
            lower=answer.lower,
            upper=answer.upper,
            exact=answer.exact,
            **why(answer.limit),
            **work.account(),
        )

    def decide(
        self,
        states: Any = None,
        *,
        algorithm: str = DEFAULT,
        order: str = "app",
        policy: Any = None,
        share: bool | None = None,
        radius: int | None = None,
        bound: str | None = None,
        goal_reaching: bool = False,
        region: bool = False,
        sharpen: bool = False,
        output: str | Path | None = None,
        certificates: str | Path | None = None,
        **limits: Unpack[Crowd],
    ) -> Safe | Unsafe | Unknown | Decisions | SafeRegion:
        """Return whether some policy surely avoids `fail` from a state, from several (also a file of them), or from all starts.

        One state gives Safe or Unsafe with a certificate (written to `output`), several give Decisions, kept in the file `output`, where
        the same call goes on; `certificates` is a folder for evidence about all of them. With a `bound` failing may be that likely;
        with `goal_reaching` a policy is asked for that keeps the goal in reach. With `region` the answer is a SafeRegion: the start
        states from which some policy avoids `fail`, as a condition, with evidence about them and about the rest. With `sharpen` games
        over a few variables are played first; what they win or lose has evidence of its own, one for all states.
        """
        from polvet.front.deciding import Question, all_starts, decide_goal_reaching, decide_states, decide_within
        from polvet.records.state_files import iter_states

        work, alone = Work.begin(limits, Crowd), is_one_state(states)
        if region and (states is not None or bound is not None or goal_reaching):
            raise InputError(
                "a region is made of start states, and a question of its own.",
                Where("region"),
                "Leave out --state, --states, --bound and --goal-reaching.",
            )
        search = ALGORITHMS[one_of(algorithm, ALGORITHMS, "--algorithm")].search
        if sharpen and (region or bound is not None or goal_reaching or work.is_cluster or not search):
            raise InputError(
                "smaller games help a search for single states on one machine.",
                Where("sharpen"),
                "Leave out --region, --bound, --goal-reaching, a cluster, and algorithms that are no search.",
            )
        if states is None:
            listed = all_starts(self._task, work)
        elif isinstance(states, Path):
            listed = list(iter_states(self._task, states))
        else:
            listed = read_states(self._task.network, states)
        if not listed:
            raise InputError("there is no state to decide.", Where("states"), "Give states, one per line.")
        chosen = None if policy is None else self.policy(policy)
        file, folder = (None if path is None else Path(path) for path in (output, certificates))
        question = Question(listed, alone, algorithm, order, chosen, share, radius, file, folder, sharpen)
        if work.is_cluster and (bound is not None or not search):
            what = "a --bound" if bound is not None else f"the algorithm {algorithm}"
            raise InputError(f"{what} can only run on one machine.", Where("workers"), "Leave --workers out.")
        if goal_reaching:
            if bound is not None or self._task.avoid.deadlock or work.is_cluster:
                raise InputError(
                    "is a question of its own: a deadlock outside the goal does not reach it.",
                    Where("goal_reaching"),
                    "Leave out --bound, --avoid and a cluster as --workers.",
                )
            return decide_goal_reaching(self._task, question, work)
        if bound is not None:
            return decide_within(self._task, listed, str(bound), work)
        if region:
            from polvet.front.region import decide_region

            return decide_region(self._task, question, work)
        return decide_states(self._task, question, work)

    def train(
        self, kind: str, *, output: str | Path | None = None, max_states: int | None = None, **options: Any
    ) -> Training:
        """Return a policy to try things with: 'trees' that imitate a teacher, or an 'mlp' by deep Q-learning.

        `options` are those of `polvet train`: `teacher`, `runs`, `noise`, `depth`, `rounds`, `learning_rate`, `hidden`, `steps`,
        `shaping`, `max_steps`, and `time_limit`, `seed`, `progress`. `max_states` is for a teacher that searches; `output` names a file
        for the policy.
        """
        from polvet.train.course import SMALL, Course, pupil_of, shares, train

        limits = {name: options.pop(name) for name in TimedChance.__optional_keys__ & options.keys()}
        known_options(options, {one.name for one in fields(Course)} - {"kind"})
        chosen, work = Course(kind, **options), Work.begin(limits, TimedChance)
        pupil = pupil_of(self._task)
        most = SMALL if max_states is None else max_states
        trained, figures = train(pupil, chosen, seed=work.chance, budget=work.budget, max_states=most)
        target = keep_policy(trained, "policy.onnx" if kind == "mlp" else "policy.json", output)
        figures |= {
            **shares(self._task, target, seed=work.chance, max_steps=chosen.max_steps, budget=work.budget.told(None)),
            "inputs": list(pupil.policy.inputs),
            "outputs": list(pupil.policy.outputs),
        }
        return Training(figures=figures, policy=self.policy(target), **work.account())

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
        bound: float | str | Fraction | None = None,
        *,
        per_state: bool = False,
        relative: float | str | Fraction | None = None,
        horizon: int | None = None,
        budget: float | str | Fraction | None = None,
        attempts: int | None = None,
        distributions: GivenDistributions = 0,
        exact: bool | None = None,
        output: str | Path | None = None,
        **limits: Unpack[Chance],
    ) -> Shield | Impossible | Unknown:
        """Return a shield: a maximal set of actions under which failing stays at most `bound` likely.

        `per_state` and `relative` go by what each action risks when the best is done ever after: at most `bound` in every state (or the
        least there is), or so little that the factor `relative` of the best chance of not failing is left; with a `horizon`, what it
        risks within so many steps. With a `budget`, actions cost what they risk above the least, and a run may spend that together with
        the least risk from its start (`Shield.budget`).
        `distributions` also allows so many distributions over actions per state, or those of a list of weights by label that are safe
        (`[{"left": "1/2", "right": "1/2"}]`, perhaps as `{"weights": ..., "where": "x > 3"}`), or of a JSON file of it.
        `exact` chooses fractions, or doubles with proved bounds; `output` names a file for the shield.
        """
        from polvet.front.shield import Permission, find_shield

        target = None if output is None else Path(output)
        permission = Permission(bound, attempts, distributions, exact, target, per_state, relative, horizon, budget)
        return find_shield(self._task, permission, Work.begin(limits, Chance))

    def learn(
        self,
        bound: float | str | Fraction | None = None,
        cost: str | Cost | None = None,
        *,
        env: Any = None,
        shield: Shield | str | Path | None = None,
        cost_lower: Promise = 0.0,
        cost_upper: Promise | None = None,
        confidence: float | None = None,
        to_goal: bool = False,
        **options: Any,
    ) -> LearnedScheduler | Impossible | Unknown:
        """Return bounds on the least cost of a scheduler within the bound (or inside a shield), learned as costs are visited.

        `cost` is a variable of the model, or a function of a `polvet.shield.deployment.Visit`. In `env`, a Gymnasium environment or its
        id, minus the reward is the cost where no function is given. What the model does not know must be promised to be at most
        `cost_upper` (a number, or a function of a state and a label); with a `confidence`, costs may be random. `to_goal`: runs go on
        after failing, and cost what it takes to reach the goal.
        `options` are `kappa` (stop at this cost), `iterations`, `episodes`, `gap`, `deterministic`, the limits, and for `env`
        `state_of`, `labels`, and `learner`, which is handed the shielded environment in place of Q-learning.
        """
        from polvet.front.learning import Lesson, learn_inside

        own = {name: options.pop(name) for name in ("state_of", "labels", "learner") if name in options}
        lesson = Lesson(bound, cost, shield, cost_lower, cost_upper, confidence, to_goal, env, **own)
        return learn_inside(self._task, lesson, options)

    def env(self, **options: Any) -> Any:
        """Return the task as a Gymnasium environment (extra `train`); the action is the number of a label.

        Options: `cost` (a reward variable of the model, taken off), `goal_reward`, `fail_reward`, `max_steps`.
        """
        from polvet.shield.gym import model_env

        known_options(options, ENV_OPTIONS)
        return model_env(self._task, **options)

    def vec_env(self, n: int, *, sb3: bool = False, **options: Any) -> Any:
        """Return the task as `n` environments that step together in the kernel (extra `train`).

        They are a `VectorEnv` of Gymnasium, or with `sb3` a `VecEnv` of stable-baselines3. Options are those of `env`, and a
        `shield` that they stay in; `action_masks()` says what is applicable (and allowed).
        """
        from polvet.shield.vector import VectorEnv, sb3_vec_env

        shield = options.pop("shield", None)
        known_options(options, ENV_OPTIONS)
        table = getattr(shield, "table", shield)
        if table is not None and not hasattr(table, "document"):
            what = f"a {type(table).__name__} is no shield."
            raise InputError(what, Where("shield"), "Give what Task.permit returned.")
        return (sb3_vec_env if sb3 else VectorEnv)(self._task, count(n, "n"), shield=table, **options)

    def check_abstraction(self, env: Any, **options: Any) -> AbstractionCheck:
        """Return whether random runs of an environment are runs of this task, as `state_of` and `labels` tell it, and its table the task's.

        Around the environment that the task was made of (`polvet.from_gym`) neither need be given.

        Options: `state_of(observation)` (a state by names), `labels` (of each action), `runs`, `max_steps`, `seed`, `confidence`.
        """
        from polvet.shield.abstraction import check_abstraction
        from polvet.shield.guard import NO_STATE
        from polvet.worlds.observed import told_by

        given = told_by(
            self._task.network, environment(env), options.pop("state_of", None), options.pop("labels", None)
        )
        if given[0] is None:
            raise NO_STATE
        return check_abstraction(self._task, env, state_of=given[0], labels=given[1], **options)

    def flat(self, policy: Any = None) -> str:
        """Return the task, perhaps with a policy, written out: the flat text that evidence speaks of (docs/flat.md)."""
        from polvet.evidence.flatten import flatten

        return flatten(self._task, None if policy is None else self.policy(policy).fitted)

    def save(self, path: str | Path) -> Path:
        """Write the task to a `.toml` file and its model beside it, and return the `.toml` file's path.

        What was read from one folder, or made in memory, is written byte for byte, so that its digest and its certificates stay.
        """
        from polvet.front.loading import save_task

        return save_task(self._task, Path(path))

    def _property(self, text: str) -> Any:
        from polvet.front.properties import property_of_task

        if not isinstance(text, str):
            raise InputError(
                f"a {type(text).__name__} is no property.", Where("property"), "Give its name, or 'Pmax=? [F fail]'."
            )
        return property_of_task(self._task, text)

    def _says_start(self) -> bool:
        """Return whether the task itself says where runs start, not only a property of its model."""
        source = self._task.source
        is_own = self._task.options.start is not None or (source is not None and source.file.suffix == ".toml")
        return self._task.start is not None and is_own


def number(value: Any) -> Any:
    """Return the number as JSON has it: infinity, which it lacks, is written as the text `infinity`."""
    return "infinity" if value == math.inf else value
