"""`polvet train TASK --kind mlp|trees -o POLICY`: a policy to try things with."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any

from polvet.cli.options import Answering, MaxStates, Mode, Output, Posed, TimedChance
from polvet.cli.parameters import Option
from polvet.errors import InputError, Where

EVALUATED_RUNS = 2000


@dataclass(frozen=True, kw_only=True)
class Pupil(Posed):
    """The task to learn, and how the policy's choice will be read."""

    mode: Mode = None


@dataclass(frozen=True, kw_only=True)
class Lessons:
    """How the policy is made; `train/course.py` says what each means."""

    teacher: Annotated[
        str,
        Option("--teacher", help="For trees: optimal, safe, random, or a policy file; auto: optimal if small."),
    ] = "auto"
    runs: Annotated[int, Option("--runs", help="For trees: runs of the teacher.", min=1)] = 1000
    noise: Annotated[
        float, Option("--noise", help="For trees: how often the teacher errs at random.", min=0.0, max=1.0)
    ] = 0.0
    depth: Annotated[int, Option("--depth", help="For trees: their depth.", min=1, max=20)] = 5
    rounds: Annotated[int, Option("--rounds", help="For trees: rounds of boosting.", min=1)] = 20
    learning_rate: Annotated[
        float | None, Option("--learning-rate", help="Default 0.4 for trees, 0.001 for networks.", min=0.0)
    ] = None
    hidden: Annotated[str, Option("--hidden", help="For networks: sizes of the hidden layers.")] = "64,64"
    steps: Annotated[int, Option("--steps", help="For networks: steps to learn from.", min=1)] = 200_000
    shaping: Annotated[
        str | None, Option("--shaping", help="For networks: a potential, an expression over the variables.")
    ] = None
    max_steps: Annotated[int, Option("--max-steps", help="The longest run.", min=1)] = 200


def train(
    pupil: Pupil,
    kind: Annotated[str, Option("--kind", help="mlp (deep Q-learning) or trees (imitation).")],
    lessons: Lessons,
    limits: TimedChance,
    answering: Answering,
    max_states: MaxStates = None,
    output: Output = None,
) -> int:
    """Train a policy. Example: `polvet train line.toml --kind trees --teacher safe -o line.json`."""
    if output is None:
        raise InputError("where shall the policy go?", Where("-o"), "Give -o POLICY.")
    task = pupil.load()
    with answering.watch("train", "training", limits, unit="steps", known_total=True) as within:
        training = task.train(kind, output=output, max_states=max_states, **asdict(lessons), **within)
    figures = training.figures
    inputs = figures["inputs"]
    lines = [
        f"written     {output}",
        f"inputs      {', '.join(inputs[:8])}{', ...' if len(inputs) > 8 else ''}",
        f"outputs     {', '.join(figures['outputs'])}",
        *_curve_lines(figures["curve"]),
        f"afterwards  {figures['goal_percent']:.2f}% of {EVALUATED_RUNS:,} runs reach the goal, "
        f"{figures['fail_percent']:.2f}% fail",
    ]
    return answering.say(training, lines)


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
