"""`polvet permit MODEL --bound 0.1 -o SHIELD`: a maximal safe permissive scheduler, saved as a shield."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from polvet.cli.options import Answering, Chance, Output, PosedModel
from polvet.cli.parameters import Option
from polvet.files import Json

if TYPE_CHECKING:
    from polvet.front.results import Impossible
    from polvet.front.shield import Shield

Bound = Annotated[str | None, Option("--bound", help="How likely failing may be: 0.1 or 1/10, read exactly.")]
PerState = Annotated[
    bool, Option("--per-state", help="The bound is for every state and action, if the best is done ever after.")
]
Relative = Annotated[
    str | None,
    Option("--relative", help="Allow actions that leave this factor of the best chance of not failing."),
]
Horizon = Annotated[
    int | None,
    Option("--horizon", help="With --per-state or --relative: risks of failing within so many steps.", min=1),
]
RiskBudget = Annotated[
    str | None,
    Option("--budget", help="How likely failing may be in all; riskier actions are paid for along a run."),
]
Attempts = Annotated[int | None, Option("--attempts", help="How many orders of additions to try.", min=1)]
Exact = Annotated[
    bool | None, Option("--exact/--bounds", help="Fractions, or doubles with proved bounds (default: by size).")
]
Picture = Annotated[Path | None, Option("--picture", help="Draw the allowed actions over the grid (SVG).")]
Tree = Annotated[Path | None, Option("--tree", help="Also save the shield as a decision tree.")]
Distributions = Annotated[
    str,
    Option(
        "--distributions",
        help="Also allow so many distributions over actions per state, or those of a JSON file that are safe.",
    ),
]
ConflictFile = Annotated[
    Path | None, Option("--conflict", help="Where the bound is impossible: write the states that explain it.")
]
SHOWN = 8
"""How many states of a conflict are printed."""


@dataclass(frozen=True, kw_only=True)
class Demand:
    """How likely failing may be, and how a shield is looked for that sees to it."""

    bound: Bound = None
    per_state: PerState = False
    relative: Relative = None
    horizon: Horizon = None
    budget: RiskBudget = None
    attempts: Attempts = None
    distributions: Distributions = "0"
    exact: Exact = None


def permit(
    model: PosedModel,
    demand: Demand,
    limits: Chance,
    answering: Answering,
    output: Output = None,
    tree: Tree = None,
    picture: Picture = None,
    conflict: ConflictFile = None,
) -> int:
    """Compute which actions may be allowed. Example: `polvet permit janitor.toml --bound 0.1 -o shield.json`."""
    from polvet.files import write_whole
    from polvet.front.results import Impossible, Unknown
    from polvet.model.expressions import FALSE
    from polvet.report.shield_pictures import draw_permissions
    from polvet.shield.tree import grow_tree

    task = model.load()
    with answering.watch("permit", "building", limits) as within:
        shield = task.permit(**asdict(demand), output=output, **within)
    if isinstance(shield, Unknown):
        return answering.say(shield)
    if isinstance(shield, Impossible):
        return _say_impossible(answering, shield, conflict)
    ruled = "rule" in shield.figures
    lines = _rule_lines(shield) if ruled else _lines(shield, without_goal=task.model_task.goal == FALSE)
    changes: Json = {}
    assert shield.table is not None
    if output is not None:
        lines.append(f"written   {output}")
    if tree is not None:
        grown = grow_tree(shield.table)
        grown.save(tree)
        changes["figures"] = {**shield.figures, "tree_leaves": grown.leaves, "tree_depth": grown.depth}
        lines.append(f"written   {tree} ({grown.leaves:,} leaves, depth {grown.depth}, the same in every listed state)")
    if picture is not None:
        write_whole(picture, draw_permissions(shield.table))
        lines.append(f"written   {picture}")
    return answering.say(shield, lines, changes=changes)


def _say_impossible(answering: Answering, impossible: Impossible, conflict: Path | None) -> int:
    lines, changes = impossible_lines(impossible), {}
    if conflict is not None and impossible.certificate is not None:
        lines.append(f"written   {impossible.save(conflict)}")
        changes["certificate"] = str(conflict)
    return answering.say(impossible, lines, changes=changes)


def impossible_lines(impossible: Impossible) -> list[str]:
    """Return why nothing stays below the bound, and which bound could be met."""
    world, limit, result = impossible.source
    lines = [f"bound     {limit}"]
    if world.fail[world.mdp.initial].any():
        return [*lines, "minimum   1: a start state fails already; change --start or --fail"]
    if result.exact is not None:
        short = str(result.exact)
        shown = f"{float(result.exact):.9g}" + (f" = {short}" if len(short) <= 40 and "/" in short else "")
    else:
        shown = f"between {result.lower:.9g} and {result.upper:.9g}"
    lines.append(f"minimum   {shown}: whatever is chosen, failing is at least that likely; give a larger --bound")
    return lines + _conflict_lines(impossible)


def _conflict_lines(impossible: Impossible) -> list[str]:
    """Return the states that explain why the bound is impossible."""
    if not (states := impossible.conflict):
        return []
    few = impossible.figures["conflict"]
    why = "without any one of them it would not be" if few["irreducible"] else "perhaps fewer do"
    lines = [f"conflict  {len(states):,} states explain it: in them alone failing is {few['value']:.9g} likely; {why}"]
    for state, value in islice(states.items(), SHOWN):
        lines.append(f"          {state}  {float(value):.6g}")
    if len(states) > SHOWN:
        lines.append(f"          and {len(states) - SHOWN:,} more (--conflict FILE writes them)")
    return lines


def _rule_lines(shield: Shield) -> list[str]:
    figures = shield.figures
    within = f" within {figures['horizon']} steps" if "horizon" in figures else ""
    allowed = f"allowed   {shield.permitted:,} of {shield.choices:,} actions in {figures['states']:,} states"
    if figures["rule"] == "budget":
        rest = float(Fraction(figures["threshold"])) - figures["least"]
        return [
            f"{allowed} for free; the others cost what they risk above the least",
            f"budget    {rest:.9g} = {figures['threshold']} less the least risk {figures['least']:.9g} from the start (exact)",
        ]
    if figures["rule"] == "relative":
        rule = f"rule      at least {figures['threshold']} of the best chance of not failing{within} is left"
    else:
        rule = f"rule      risk{within} at most {figures['threshold']} if the best is done ever after, in every state"
        if figures["above"]:
            rule += f"; in {figures['above']:,} states nothing is that good: the least risky actions"
    start = f"start     risk{within} {figures['least']:.9g} at best; in all, {figures['value']:.9g} under the worst allowed actions (exact)"
    return [allowed, rule, start]


def _lines(shield: Shield, *, without_goal: bool) -> list[str]:
    figures, result = shield.figures, shield.source
    gap = f"between {result.lower!r} and {result.upper!r}, gap {result.upper - result.lower:.3g}"
    lines = [
        f"allowed   {shield.permitted:,} of {shield.choices:,} actions in {figures['reachable_states']:,} reachable states "
        f"(model: {figures['states']:,} states, {figures['options']:,} actions)",
        f"risk      {float(result.risk):.9g} of at most {shield.bound} ({'exact' if result.exact else gap})",
        f"maximal   {'yes: no action can be added' if shield.maximal else f'not known: {result.untested:,} actions untested'}",
        f"goal      {_goal_line(without_goal, result)}",
    ]
    if figures["dead_ends"]:
        lines.append(f"dead ends {figures['dead_ends']:,} states without an applicable action: runs end there, safely")
    if "mixtures" in figures:
        lines.append(
            f"mixed     {figures['mixtures']:,} distributions beside; the risk with them is {figures['value']:.9g}"
        )
    return lines


def _goal_line(without: bool, result: Any) -> str:
    if without:
        return "none is given: the shield only avoids fail"
    if result.ends_surely:
        return "every allowed run surely ends in goal or fail"
    if result.goal_reachable:
        return "allowed runs need not end (their cost may be infinite), but some scheduler surely ends"
    return "no allowed scheduler surely reaches goal or fail: costs are infinite"
