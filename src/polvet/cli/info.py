"""`polvet info TASK`: what is in the model, and which features it uses; `polvet info POLICY`: what a policy file holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from polvet.cli.options import Plainly, Posed

if TYPE_CHECKING:
    from polvet.front.results import Description


SHOWN = 20


def info(world: Posed, answering: Plainly) -> int:
    """Say what is in a model or in a policy's file. Example: `polvet info car.jani`.

    Of a model its variables, labels, properties and features; of a policy (`polvet info policy.onnx`) its units and arithmetic.
    """
    from polvet.front.describing import info as describe
    from polvet.sources import parse_constants

    description = describe(
        world.task,
        domain=world.domain,
        constants=parse_constants(world.constants),
        start=world.start,
        fail=world.fail,
        goal=world.goal,
        out_of_bounds="" if world.out_of_bounds == "error" else world.out_of_bounds,
    )
    return answering.say(
        description, _of_model(description) if isinstance(description.source, tuple) else _of_policy(description)
    )


def _of_model(description: Description) -> list[str]:
    model, task, reason = description.source
    figures = description.figures
    open_constants = figures["open_constants"]
    lines = [
        f"model       {model.name} ({model.type.value}), {figures['automata']} automata, {figures['edges']} edges",
        f"features    {', '.join(figures['features']) or 'none beyond the core'}",
        f"constants   {', '.join(constant.name for constant in model.constants) or 'none'}"
        + (f"; to be given: {', '.join(open_constants)}" if open_constants else ""),
        f"properties  {', '.join(figures['properties']) or 'none'}",
    ]
    if task is None:
        return [*lines, f"not run     {reason}"]
    variables, words = task.network.variables, figures["words_per_state"]
    kinds = Counter("location" if variable.is_location else variable.kind.value for variable in variables)
    lines += [
        f"state       {len(variables)} scalars ({', '.join(f'{n} {kind}' for kind, n in kinds.items())}), "
        f"{figures['bits_per_state']} bits in {words} word{'s' if words > 1 else ''}",
        f"labels      {_counted(figures['labels']) or 'none: every move is silent'}",
    ]
    for role in ("start", "fail", "goal"):
        shown = figures[role]
        lines.append(f"{role:<11} {shown if len(shown) <= 200 else shown[:200] + ' ...'}")
    return lines


def _of_policy(policy: Description) -> list[str]:
    inputs, outputs = policy.source.inputs, policy.source.outputs
    return [
        *(f"{head:<11} {text}" for head, text in policy.source.facts.items()),
        f"inputs      {len(inputs)}: {_listed(inputs)}",
        f"outputs     {len(outputs)}: {_listed(outputs)}",
    ]


def _counted(names: Sequence[str]) -> str:
    return _listed(names) + (f" ({len(names):,} in all; --json lists them)" if len(names) > SHOWN else "")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")
