"""`polvet learn MODEL --cost NAME --bound 0.1`: a safe scheduler of least cost, where costs are known only once visited."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from polvet.cli.options import Answering, Chance, Output, PosedModel
from polvet.cli.parameters import Option
from polvet.cli.permit import Bound, impossible_lines
from polvet.files import Json

ShieldFile = Annotated[Path | None, Option("--shield", help="Learn inside this shield instead of computing some.")]
Cost = Annotated[str | None, Option("--cost", help="The reward variable that holds the cost.")]
Env = Annotated[
    str | None,
    Option("--env", help="Learn in this Gymnasium environment ('NAME?key=value'): minus its reward is the cost."),
]
Confidence = Annotated[
    float | None,
    Option("--confidence", help="With --env: costs may be random; their means are learned that surely."),
]
ToGoal = Annotated[bool, Option("--to-goal", help="Runs go on after failing, and cost what it takes to the goal.")]
CostLower = Annotated[float, Option("--cost-lower", help="No cost is below this.", min=0.0)]
CostUpper = Annotated[
    float | None, Option("--cost-upper", help="No cost is above this (needed with --env; default: the model's).")
]
Kappa = Annotated[float | None, Option("--kappa", help="Stop when the expected cost is at most this.")]
Iterations = Annotated[int, Option("--iterations", help="At most so many permissive schedulers.", min=1)]
Episodes = Annotated[
    int | None,
    Option("--episodes", help="Runs per permissive scheduler (default: 20,000; 1,000 with --env).", min=1),
]
Gap = Annotated[float, Option("--gap", help="Stop when the bounds are that close, relatively.", min=0.0)]
Deterministic = Annotated[bool, Option("--deterministic", help="Only schedulers that do not toss coins.")]
Picture = Annotated[Path | None, Option("--picture", help="Draw the bounds per iteration (SVG).")]


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """What is learned and when it is enough; `shield/learning.py` says what each means."""

    cost: Cost = None
    env: Env = None
    bound: Bound = None
    shield: ShieldFile = None
    cost_lower: CostLower = 0.0
    cost_upper: CostUpper = None
    confidence: Confidence = None
    to_goal: ToGoal = False
    kappa: Kappa = None
    iterations: Iterations = 50
    episodes: Episodes = None
    gap: Gap = 1e-6
    deterministic: Deterministic = False


def learn(
    model: PosedModel,
    lesson: Lesson,
    limits: Chance,
    answering: Answering,
    output: Output = None,
    picture: Picture = None,
) -> int:
    """Learn unknown costs safely. Example: `polvet learn janitor.toml --cost fuel --bound 0.1`."""
    from polvet.files import write_whole
    from polvet.front.results import Impossible, Unknown
    from polvet.report.shield_pictures import draw_bounds

    task = model.load()
    with answering.watch("learn", "building", limits) as within:
        learned = task.learn(**asdict(lesson), **within)
    if isinstance(learned, Unknown):
        return answering.say(learned)
    if isinstance(learned, Impossible):
        return answering.say(learned, impossible_lines(learned))
    rounds = learned.source.rounds
    lines = ["  i   seconds    allowed  visited  unconstrained        lower        upper"]
    lines += [
        f"{k + 1:>3} {one.seconds:>9.2f} {one.permitted:>10,} {one.visited:>8,} {one.unconstrained:>14.6g} "
        f"{one.lower:>12.6g} {one.upper:>12.6g}"
        for k, one in enumerate(rounds)
    ]
    lines.append(f"stopped: {learned.source.reason}")
    if lesson.confidence is not None:
        lines.append(f"bounds hold with confidence {lesson.confidence:g}")
    if learned.upper == math.inf:
        lines.append("no safe scheduler that surely ends was found: the expected cost is infinite")
    changes: Json = {}
    if learned.shield is not None and output is not None:
        changes["certificate"] = str(learned.shield.save(output))
        lines.append(
            f"written  {output} (a permissive scheduler that holds the best deterministic one found, as a shield)"
        )
    if picture is not None:
        series = {
            "upper": [one.upper for one in rounds],
            "lower": [one.lower for one in rounds],
            "unconstrained lower": [one.unconstrained for one in rounds],
        }
        write_whole(picture, draw_bounds(series))
        lines.append(f"written  {picture}")
    return answering.say(learned, lines, changes=changes)
