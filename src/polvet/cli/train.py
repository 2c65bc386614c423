"""`polvet train TASK --kind mlp|trees -o POLICY`: a policy to try things with."""

from __future__ import annotations

import random
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polvet.budget import Budget, stopwatch
from polvet.cli.answer import Answer, ExitCode
from polvet.cli.limits import budget_of
from polvet.cli.options import Json, LogJson, Mode, Output, Seed, TimeLimit
from polvet.cli.progress import watching
from polvet.cli.tasks import (
    Constants,
    Domain,
    Fail,
    Goal,
    MaxStates,
    OutOfBounds,
    Start,
    TaskFile,
    task_options,
)  # fmt: skip
from polvet.errors import InputError, Where

if TYPE_CHECKING:
    from polvet.kernel.compiled import Words
    from polvet.policy.binding import Fitted

SMALL = 500_000
EVALUATED_RUNS = 2000
START_POOL = 20_000


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("train")(train)


def train(
    task: TaskFile,
    kind: Annotated[str, typer.Option("--kind", help="mlp (deep Q-learning) or trees (imitation).")],
    output: Output = None,
    teacher: Annotated[
        str,
        typer.Option("--teacher", help="For trees: optimal, safe, random, or a policy file; auto: optimal if small."),
    ] = "auto",
    runs: Annotated[int, typer.Option("--runs", help="For trees: runs of the teacher.", min=1)] = 1000,
    noise: Annotated[
        float, typer.Option("--noise", help="For trees: how often the teacher errs at random.", min=0.0, max=1.0)
    ] = 0.0,
    depth: Annotated[int, typer.Option("--depth", help="For trees: their depth.", min=1, max=20)] = 5,
    rounds: Annotated[int, typer.Option("--rounds", help="For trees: rounds of boosting.", min=1)] = 20,
    learning_rate: Annotated[
        float | None, typer.Option("--learning-rate", help="Default 0.4 for trees, 0.001 for networks.", min=0.0)
    ] = None,
    hidden: Annotated[str, typer.Option("--hidden", help="For networks: sizes of the hidden layers.")] = "64,64",
    steps: Annotated[int, typer.Option("--steps", help="For networks: steps to learn from.", min=1)] = 200_000,
    shaping: Annotated[
        str | None, typer.Option("--shaping", help="For networks: a potential, an expression over the variables.")
    ] = None,
    max_steps: Annotated[int, typer.Option("--max-steps", help="The longest run.", min=1)] = 200,
    mode: Mode = None,
    domain: Domain = None,
    constants: Constants = "",
    start: Start = None,
    fail: Fail = None,
    goal: Goal = None,
    out_of_bounds: OutOfBounds = "error",
    max_states: MaxStates = None,
    time_limit: TimeLimit = None,
    seed: Seed = 0,
    log_json: LogJson = None,
    json: Json = False,
) -> int:
    """Train a policy. Example: `polvet train line.toml --kind trees --teacher safe -o line.json`."""
    from polvet.policy.binding import fit
    from polvet.policy.save import save_policy
    from polvet.sources import load_task
    from polvet.train.q_learning import blank_network

    spent = stopwatch()
    budget = budget_of(time_limit)
    if output is None:
        raise InputError("where shall the policy go?", Where("-o"), "Give -o POLICY.")
    loaded = load_task(task, task_options(constants, start, fail, goal, out_of_bounds, mode, domain=domain))
    network = loaded.network
    inputs = loaded.reading.inputs or tuple(v.name for v in network.variables if not v.is_location)
    outputs = loaded.reading.outputs or network.labels
    if not inputs or not outputs:
        raise InputError(
            "the model has no variables or no labels to choose.",
            Where(str(task)),
            "Give a model with variables and labelled edges, or name them in task.toml under [policy].",
        )
    if len(outputs) == 1:
        raise InputError(
            f"the only action is '{outputs[0]}': there is nothing to choose and nothing to learn.", Where(str(task)),
            "Give a model with two labels or more.",
        )  # fmt: skip
    fitted = fit(loaded, blank_network(inputs, outputs))
    with watching("train", "training", log_json, unit="steps", known_total=True) as progress:
        if kind == "trees":
            made, figures = _trees(
                fitted, teacher, runs=runs, noise=noise, depth=depth, rounds=rounds, rate=learning_rate or 0.4,
                max_steps=max_steps, seed=seed, max_states=max_states or SMALL, budget=budget,
            )  # fmt: skip
        elif kind == "mlp":
            made, figures = _network(
                fitted, hidden, steps=steps, rate=learning_rate or 1e-3, max_steps=max_steps, seed=seed,
                shaping=shaping, budget=budget.told(progress),
            )  # fmt: skip
        else:
            raise InputError(f"'{kind}' is unknown.", Where("--kind"), "Use mlp or trees.")
    save_policy(made, output)
    shares = _shares(fitted, output, seed, max_steps, budget)
    curve = figures["curve"]
    lines = [
        f"written     {output}",
        f"inputs      {', '.join(inputs[:8])}{', ...' if len(inputs) > 8 else ''}",
        f"outputs     {', '.join(outputs)}",
        *_curve_lines(curve),
        f"afterwards  {shares['goal_percent']:.2f}% of {EVALUATED_RUNS:,} runs reach the goal, "
        f"{shares['fail_percent']:.2f}% fail",
    ]
    figures |= {**shares, "inputs": list(inputs), "outputs": list(outputs)}
    return Answer("trained", ExitCode.DONE, spent(), figures, lines, None, seed, more={"policy": str(output)}).show(
        as_json=json
    )


def _trees(fitted: Fitted, teacher: str, *, max_states: int, **options: Any) -> tuple[Any, dict[str, Any]]:
    from polvet.train.imitate import TreeOptions, imitate

    rows, taught, who = _lessons(fitted, teacher, max_states=max_states, **options)
    found = imitate(
        rows, taught, tuple(fitted.policy.inputs), tuple(fitted.policy.outputs),
        TreeOptions(options["depth"], options["rounds"], options["rate"], options["seed"]), options["budget"],
    )  # fmt: skip
    figures = {"teacher": who, "lessons": len(rows), "accuracy": found.accuracy, "curve": list(found.curve)}
    return found.policy, figures


def _lessons(fitted: Fitted, teacher: str, *, max_states: int, **options: Any) -> tuple[Any, Any, str]:
    import numpy as np

    from polvet.errors import LimitReached
    from polvet.policy.compiled import bind_policy
    from polvet.train.lessons import policy_lessons
    from polvet.train.teacher import explore_all, find_teacher, teacher_runs

    budget: Budget = options["budget"]
    if teacher in ("auto", "optimal", "safe"):
        try:
            compiled, space = explore_all(fitted.task, budget=budget.at_most(states=max_states))
        except LimitReached as limit:
            if teacher != "auto" or limit.kind == "time":
                raise
            teacher = "random"
        else:
            found = find_teacher(space, safe=teacher == "safe")
            seen, taught = teacher_runs(
                found,
                runs=options["runs"],
                max_steps=options["max_steps"],
                noise=options["noise"],
                seed=options["seed"],
            )
            place = {label: k for k, label in enumerate(fitted.labels)}
            known = np.array([label in place for label in taught.tolist()], dtype=bool)
            rows = bind_policy(fitted, compiled).core.rows(np.ascontiguousarray(space.states[seen[known]]))
            chosen = np.array([place[label] for label in taught[known].tolist()], dtype=np.int64)
            return rows, chosen, "safe" if teacher == "safe" else "optimal"
    rows, chosen = policy_lessons(
        fitted, None if teacher == "random" else Path(teacher), _pool(fitted, options["seed"], budget), runs=options["runs"],
        max_steps=options["max_steps"], noise=options["noise"], seed=options["seed"], budget=budget,
    )  # fmt: skip
    return rows, chosen, teacher


def _network(
    fitted: Fitted, hidden: str, *, steps: int, rate: float, max_steps: int, seed: int, shaping: str | None,
    budget: Budget,
) -> tuple[Any, dict[str, Any]]:  # fmt: skip
    from polvet.train.lessons import potential_of
    from polvet.train.q_learning import QOptions, learn

    sizes = _sizes(hidden)
    options = QOptions(hidden=sizes, steps=steps, learning_rate=rate, max_steps=max_steps, seed=seed)
    potential = None if shaping is None else potential_of(fitted, shaping, Where("--shaping"))
    found = learn(fitted, _pool(fitted, seed, budget), options, potential=potential, budget=budget)
    return found.policy, {"curve": [asdict(point) for point in found.curve]}


def _sizes(hidden: str) -> tuple[int, ...]:
    parts = [part.strip() for part in hidden.split(",") if part.strip()]
    if not parts or any(not part.isdigit() or not 1 <= int(part) <= 4096 for part in parts):
        raise InputError(f"'{hidden}' is no list of layer sizes.", Where("--hidden"), "Write 64,64.")
    return tuple(int(part) for part in parts)


def _pool(fitted: Fitted, seed: int, budget: Budget) -> Words:
    from polvet.kernel.starts import Starts
    from polvet.policy.compiled import compile_policy

    starts = Starts.of(fitted.task, budget)
    compiled = compile_policy(fitted).compiled
    if starts.count is not None and starts.count <= START_POOL:
        return compiled.pack_starts(starts, budget=budget)
    return compiled.pack(starts.sample(START_POOL, random.Random(seed), budget=budget))


def _shares(fitted: Fitted, file: Path, seed: int, max_steps: int, budget: Budget) -> dict[str, float]:
    from polvet.kernel.starts import Starts
    from polvet.policy.binding import load_fitted
    from polvet.policy.compiled import compile_policy
    from polvet.policy.runs import End, simulate

    bound = compile_policy(load_fitted(fitted.task, file))
    first = Starts.of(fitted.task, budget).sample(EVALUATED_RUNS, random.Random(seed + 1), budget=budget)
    batch = simulate(bound, bound.compiled.pack(first), max_steps=max_steps, seed=seed + 1, budget=budget)
    if batch.limit is not None:
        raise batch.limit
    return {
        "goal_percent": 100 * batch.count(End.GOAL) / EVALUATED_RUNS,
        "fail_percent": 100 * batch.count(End.FAIL) / EVALUATED_RUNS,
    }


def _curve_lines(curve: list[Any]) -> list[str]:
    if curve and isinstance(curve[0], dict):
        head = "steps       goal %   fail %   length   loss"
        rows = [
            f"{point['steps']:>10,} {point['goal_percent']:8.2f} {point['fail_percent']:8.2f} "
            f"{point['mean_length']:8.1f} {point['loss']:9.5f}"
            for point in curve
        ]
        return [head, *rows]
    return [f"loss        {' '.join(f'{loss:.3f}' for loss in curve)}"]
