"""`polvet learn MODEL --cost NAME --bound 0.1`: a safe scheduler of least cost, where costs are known only once visited."""

from __future__ import annotations

import math
import random
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polvet.budget import stopwatch
from polvet.cli.answer import Answer, ExitCode
from polvet.cli.limits import budget_of, said
from polvet.cli.options import Json, LogJson, MemoryLimit, Output, Seed, TimeLimit
from polvet.cli.permit import impossible_lines
from polvet.cli.progress import Meter, watching
from polvet.cli.tasks import (
    Constants,
    Domain,
    Fail,
    Goal,
    MaxStates,
    ModelFile,
    OutOfBounds,
    Start,
    task_options,
)  # fmt: skip
from polvet.errors import InputError, LimitReached, Where

if TYPE_CHECKING:
    from polvet.shield.learning import Round

Bound = Annotated[str | None, typer.Option("--bound", help="How likely failing may be: 0.1 or 1/10, read exactly.")]
ShieldFile = Annotated[
    Path | None, typer.Option("--shield", help="Learn inside this shield instead of computing some.")
]
Cost = Annotated[str, typer.Option("--cost", help="The reward variable that holds the cost.")]
CostLower = Annotated[float, typer.Option("--cost-lower", help="No cost is below this.", min=0.0)]
CostUpper = Annotated[float | None, typer.Option("--cost-upper", help="No cost is above this (default: the model's).")]
Kappa = Annotated[float | None, typer.Option("--kappa", help="Stop when the expected cost is at most this.")]
Iterations = Annotated[int, typer.Option("--iterations", help="At most so many permissive schedulers.", min=1)]
Episodes = Annotated[int, typer.Option("--episodes", help="Runs per permissive scheduler.", min=1)]
Gap = Annotated[float, typer.Option("--gap", help="Stop when the bounds are that close, relatively.", min=0.0)]
Deterministic = Annotated[bool, typer.Option("--deterministic", help="Only schedulers that do not toss coins.")]
Picture = Annotated[Path | None, typer.Option("--picture", help="Draw the bounds per iteration (SVG).")]

SEARCH_SHARE = 0.85
"""Part of the time that is left after building; the rest is for writing what was found."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("learn")(learn)


def learn(
    model: ModelFile,
    cost: Cost,
    bound: Bound = None,
    shield: ShieldFile = None,
    domain: Domain = None,
    constants: Constants = "",
    start: Start = None,
    fail: Fail = None,
    goal: Goal = None,
    cost_lower: CostLower = 0.0,
    cost_upper: CostUpper = None,
    kappa: Kappa = None,
    iterations: Iterations = 50,
    episodes: Episodes = 20_000,
    gap: Gap = 1e-6,
    deterministic: Deterministic = False,
    out_of_bounds: OutOfBounds = "error",
    max_states: MaxStates = None,
    time_limit: TimeLimit = None,
    memory_limit: MemoryLimit = None,
    seed: Seed = 0,
    output: Output = None,
    picture: Picture = None,
    log_json: LogJson = None,
    json: Json = False,
) -> int:
    """Learn unknown costs safely. Example: `polvet learn janitor.toml --cost fuel --bound 0.1`."""
    from polvet.shield import Impossible, build_world, make_shield
    from polvet.shield.file import load_shield
    from polvet.shield.learning import LearningOptions
    from polvet.shield.learning import learn as run_loop
    from polvet.shield.world import parse_bound
    from polvet.sources import load_task

    spent, budget = stopwatch(), budget_of(time_limit, memory_limit, max_states)
    if (bound is None) == (shield is None):
        raise InputError("give either a bound or a shield.", Where("--bound"), "Use --bound 0.1 or --shield FILE.")
    given = None if shield is None else load_shield(shield)
    limit = parse_bound(bound, Where("--bound")) if bound is not None else given.bound  # type: ignore[union-attr]
    task = load_task(model, task_options(constants, start, fail, goal, out_of_bounds, domain=domain))
    figures: dict[str, Any] = {}
    try:
        with watching("learn", "building", log_json) as meter:
            world = build_world(task, cost=cost, budget=budget.told(meter))
            figures |= {"states": world.mdp.states, "choices": world.mdp.choices}
            if meter is not None:
                meter.tell("learning", states=world.mdp.states)
            searching = budget.share(SEARCH_SHARE)
            how = LearningOptions(
                iterations=iterations, episodes=episodes, gap=gap, kappa=kappa, randomised=not deterministic
            )
            result = run_loop(
                world, limit, cost_lower=cost_lower, cost_upper=cost_upper, options=how, budget=searching,
                inside=None if given is None else _inside(task, world, given, str(shield)), rng=random.Random(seed),
                on_round=None if meter is None else partial(_tell, meter),
            )  # fmt: skip
    except LimitReached as error:
        return Answer("unknown", ExitCode.UNKNOWN, spent(), figures, reason=said(error), seed=seed).show(as_json=json)
    seconds = spent()
    if isinstance(result, Impossible):
        minimum = result.exact if result.exact is not None else result.upper
        figures["minimum"] = float(minimum)
        lines = impossible_lines(world, limit, result)
        return Answer("impossible", ExitCode.FOUND, seconds, figures, lines, seed=seed).show(as_json=json)
    history = [
        {
            "iteration": k + 1, "seconds": round(one.seconds, 6), "permitted": one.permitted, "visited": one.visited,
            "unconstrained": _number(one.unconstrained), "lower": _number(one.lower),
            "upper_deterministic": _number(one.upper_deterministic), "upper": _number(one.upper),
        }
        for k, one in enumerate(result.rounds)
    ]  # fmt: skip
    figures |= {
        "lower": _number(result.lower), "upper": _number(result.upper), "iterations": len(result.rounds),
        "history": history,
        "upper_deterministic": _number(result.rounds[-1].upper_deterministic) if result.rounds else "infinity",
    }  # fmt: skip
    lines = ["  i   seconds    allowed  visited  unconstrained        lower        upper"]
    lines += [
        f"{k + 1:>3} {one.seconds:>9.2f} {one.permitted:>10,} {one.visited:>8,} {one.unconstrained:>14.6g} "
        f"{one.lower:>12.6g} {one.upper:>12.6g}"
        for k, one in enumerate(result.rounds)
    ]
    lines.append(f"stopped: {result.reason}")
    if result.upper == math.inf:
        lines.append("no safe scheduler that surely ends was found: the expected cost is infinite")
    certificate: Any = None
    if result.permissive is not None:
        document = make_shield(task, world, result.permissive, limit)
        if output is not None:
            document.save(output)
            certificate = str(output)
            lines.append(
                f"written  {output} (a permissive scheduler that holds the best deterministic one found, as a shield)"
            )
    if picture is not None:
        from polvet.files import write_whole
        from polvet.report.shield_pictures import draw_bounds

        series = {
            "upper": [one.upper for one in result.rounds], "lower": [one.lower for one in result.rounds],
            "unconstrained lower": [one.unconstrained for one in result.rounds],
        }  # fmt: skip
        write_whole(picture, draw_bounds(series))
        lines.append(f"written  {picture}")
    if result.optimal:
        verdict, code = "optimal", ExitCode.DONE
    elif (kappa is not None and result.upper <= kappa) or (given is not None and result.upper < math.inf):
        verdict, code = "learned", ExitCode.DONE
    else:
        verdict, code = "unknown", ExitCode.UNKNOWN
    reason = result.reason if verdict == "unknown" else None
    return Answer(verdict, code, seconds, figures, lines, reason, seed, certificate).show(as_json=json)


def _tell(meter: Meter, one: Round) -> None:
    meter.tell(visited=one.visited, allowed=one.permitted, lower=_number(one.lower), upper=_number(one.upper))


def _inside(task: Any, world: Any, shield: Any, name: str) -> Any:
    """Return the options that the shield allows; states it does not know allow nothing."""
    import numpy as np

    from polvet.records.state_json import state_to_json

    if shield.document.get("model_sha256") != task.sha256:
        raise InputError("was made for another model.", Where(name), "Use the model the shield was computed for.")
    permitted = np.zeros(world.options, dtype=bool)
    starts = world.option_start.tolist()
    for number, state in enumerate(world.states):
        key = shield.key(state_to_json(task, state))
        for option in range(starts[number], starts[number + 1]):
            permitted[option] = world.label_of(option) in shield.actions.get(key, ())
    return permitted


def _number(value: float) -> float | str:
    """JSON has no infinity: it is written as the text `infinity`."""
    return "infinity" if value == math.inf else value
