"""`polvet permit MODEL --bound 0.1 -o SHIELD`: a maximal safe permissive scheduler, saved as a shield."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Annotated, Any

import typer

from polvet.budget import stopwatch
from polvet.cli.answer import Answer, ExitCode
from polvet.cli.limits import budget_of, said
from polvet.cli.options import Json, LogJson, MemoryLimit, Output, Seed, TimeLimit
from polvet.cli.progress import watching
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

Bound = Annotated[str, typer.Option("--bound", help="How likely failing may be: 0.1 or 1/10, read exactly.")]
Attempts = Annotated[int | None, typer.Option("--attempts", help="How many orders of additions to try.", min=1)]
Exact = Annotated[
    bool | None,
    typer.Option("--exact/--bounds", help="Fractions, or doubles with proved bounds (default: by size)."),
]
Picture = Annotated[Path | None, typer.Option("--picture", help="Draw the allowed actions over the grid (SVG).")]
Tree = Annotated[Path | None, typer.Option("--tree", help="Also save the shield as a decision tree.")]
Distributions = Annotated[
    int, typer.Option("--distributions", help="Also allow up to so many mixtures of actions per state.", min=0)
]

SEARCH_SHARE = 0.85
"""Part of the time that is left after building; the rest is for writing what was found."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("permit")(permit)


def permit(
    model: ModelFile,
    bound: Bound,
    domain: Domain = None,
    constants: Constants = "",
    start: Start = None,
    fail: Fail = None,
    goal: Goal = None,
    attempts: Attempts = None,
    distributions: Distributions = 0,
    exact: Exact = None,
    out_of_bounds: OutOfBounds = "error",
    max_states: MaxStates = None,
    time_limit: TimeLimit = None,
    memory_limit: MemoryLimit = None,
    seed: Seed = 0,
    output: Output = None,
    tree: Tree = None,
    picture: Picture = None,
    log_json: LogJson = None,
    json: Json = False,
) -> int:
    """Compute which actions may be allowed. Example: `polvet permit janitor.toml --bound 0.1 -o shield.json`."""
    from polvet.confirm.confirmation import about_task, confirm
    from polvet.confirm.outcome import NO_KIND
    from polvet.model.expressions import FALSE
    from polvet.shield import Impossible, build_world, make_shield
    from polvet.shield import permit as find_permitted
    from polvet.shield.file import read_shield, to_mixed_document
    from polvet.shield.mixtures import Mixed, permit_mixtures
    from polvet.shield.world import parse_bound
    from polvet.sources import load_task

    spent, budget = stopwatch(), budget_of(time_limit, memory_limit, max_states)
    limit = parse_bound(bound, Where("--bound"))
    task = load_task(model, task_options(constants, start, fail, goal, out_of_bounds, domain=domain))
    if task.fail == FALSE:
        raise InputError("nothing is to be avoided.", Where("--fail"), "Give a condition, e.g. --fail 'crashed'.")
    figures: dict[str, Any] = {}
    try:
        with watching("permit", "building", log_json) as meter:
            world = build_world(task, exact=exact, budget=budget.told(meter))
            figures |= {"states": world.mdp.states, "options": world.options, "dead_ends": _dead_ends(world)}
            if meter is not None:
                meter.tell("adding actions", states=world.mdp.states, actions=world.options)
            searching = budget.share(SEARCH_SHARE)
            mixed: Mixed | Impossible | None = None
            if distributions:
                mixed = permit_mixtures(world, limit, distributions=distributions, attempts=attempts, budget=searching)
                result = mixed.pure if isinstance(mixed, Mixed) else mixed
            else:
                result = find_permitted(world, limit, attempts=attempts, rng=random.Random(seed), budget=searching)
    except LimitReached as error:
        return Answer("unknown", ExitCode.UNKNOWN, spent(), figures, reason=said(error), seed=seed).show(as_json=json)
    if isinstance(result, Impossible):
        minimum = result.exact if result.exact is not None else result.upper
        figures |= {"minimum": float(minimum), "lower": result.lower, "upper": result.upper}
        if result.exact is not None:
            figures["minimum_exact"] = str(result.exact)
        lines = impossible_lines(world, limit, result)
        return Answer("impossible", ExitCode.FOUND, spent(), figures, lines, seed=seed, checked=NO_KIND).show(
            as_json=json
        )
    figures |= {
        "permitted": result.count, "choices": result.options, "reachable_states": len(result.sub.states),
        "value": float(result.risk), "lower": result.lower, "upper": result.upper,
        "exact": result.exact, "maximal": result.maximal, "ends_surely": result.ends_surely,
        "goal_reachable": result.goal_reachable, "attempts": result.attempts,
    }  # fmt: skip
    gap = (
        "exact"
        if result.exact
        else f"between {result.lower!r} and {result.upper!r}, gap {result.upper - result.lower:.3g}"
    )
    lines = [
        f"allowed   {result.count:,} of {result.options:,} actions in {len(result.sub.states):,} reachable states "
        f"(model: {world.mdp.states:,} states, {world.options:,} actions)",
        f"risk      {float(result.risk):.9g} of at most {limit} ({gap})",
        f"maximal   {'yes: no action can be added' if result.maximal else 'unknown: the time was up before all were tried'}",
        f"goal      {_goal_line(task.goal == FALSE, result)}",
    ]
    if figures["dead_ends"]:
        lines.append(f"dead ends {figures['dead_ends']:,} states without an applicable action: runs end there, safely")
    if isinstance(mixed, Mixed):
        shield = read_shield(to_mixed_document(task, world, mixed, limit), Where("shield"))
        figures |= {"mixtures": mixed.count, "value": float(mixed.result.risk)}
        lines.append(
            f"mixed     {mixed.count:,} distributions beside; the risk with them is {float(mixed.result.risk):.9g}"
        )
    else:
        shield = make_shield(task, world, result, limit)
    checked = confirm("permitted", shield.document, about_task(task), found=spent(), budget=budget, output=output)
    if output is not None:
        shield.save(output)
        lines.append(f"written   {output}")
    if tree is not None:
        from polvet.shield.tree import grow_tree

        grown = grow_tree(shield)
        grown.save(tree)
        figures |= {"tree_leaves": grown.leaves, "tree_depth": grown.depth}
        lines.append(f"written   {tree} ({grown.leaves:,} leaves, depth {grown.depth}, the same in every listed state)")
    if picture is not None:
        from polvet.files import write_whole
        from polvet.report.shield_pictures import draw_permissions

        write_whole(picture, draw_permissions(shield))
        lines.append(f"written   {picture}")
    certificate: Any = str(output) if output is not None else shield.document
    return Answer(
        "permitted", ExitCode.DONE, spent(), figures, lines, seed=seed, certificate=certificate, checked=checked
    ).show(as_json=json)  # fmt: skip


def impossible_lines(world: Any, limit: Any, result: Any) -> list[str]:
    """Return why nothing stays below the bound, and which bound could be met."""
    lines = [f"bound     {limit}"]
    if world.fail[world.mdp.initial].any():
        return [*lines, "minimum   1: a start state fails already; change --start or --fail"]
    if result.exact is not None:
        short = str(result.exact)
        told = f"{float(result.exact):.9g}" + (f" = {short}" if len(short) <= 40 and "/" in short else "")
    else:
        told = f"between {result.lower:.9g} and {result.upper:.9g}"
    return [*lines, f"minimum   {told}: whatever is chosen, failing is at least that likely; give a larger --bound"]


def _dead_ends(world: Any) -> int:
    """Return how many states are neither goal nor fail and yet have no applicable action; runs end there safely."""
    return int((world.ended & ~world.fail & ~world.goal).sum())


def _goal_line(without: bool, result: Any) -> str:
    if without:
        return "none is given: the shield only avoids fail"
    if result.ends_surely:
        return "every allowed run surely ends in goal or fail"
    if result.goal_reachable:
        return "allowed runs need not end (their cost may be infinite), but some scheduler surely ends"
    return "no allowed scheduler surely reaches goal or fail: costs are infinite"
