"""`polvet info TASK`: what is in the model, and which features it uses; `polvet info POLICY`: what a policy file holds."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import typer

from polvet.budget import Stopwatch, stopwatch
from polvet.cli.answer import Answer, ExitCode
from polvet.cli.options import Json
from polvet.cli.tasks import Constants, Domain, Fail, Goal, Start, TaskFile, task_options


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("info")(info)


def info(
    task: TaskFile,
    domain: Domain = None,
    constants: Constants = "",
    start: Start = None,
    fail: Fail = None,
    goal: Goal = None,
    json: Json = False,
) -> int:
    """Say what is in a model or in a policy's file. Example: `polvet info car.jani`.

    Of a model its variables, labels, properties and features; of a policy (`polvet info policy.onnx`) its units and arithmetic.
    """
    from polvet.errors import InputError
    from polvet.jani.features import used_features
    from polvet.kernel.layout import bits_of, lay_out
    from polvet.model.infix import dump_expression
    from polvet.sources import load_model, load_task

    spent = stopwatch()
    if _is_policy(task):
        return _of_policy(task, spent, as_json=json)
    figures: dict[str, object] = {}
    if str(task).endswith(".toml") or constants or fail or goal or start:
        loaded = load_task(task, task_options(constants, start, fail, goal, domain=domain))
        model = loaded.network.model
    else:
        loaded, model = None, load_model(task, domain)
        try:
            loaded = load_task(task, task_options("", domain=domain))
        except InputError as error:
            reason: str | None = str(error)
        else:
            reason = None
    edges = [edge for automaton in model.automata for edge in automaton.edges]
    open_constants = [constant.name for constant in model.constants if constant.value is None]
    features = used_features(model)
    figures |= {
        "type": model.type.value, "automata": len(model.automata), "variables": len(model.variables)
        + sum(len(automaton.variables) for automaton in model.automata), "edges": len(edges),
        "locations": sum(len(automaton.locations) for automaton in model.automata), "actions": len(model.actions),
        "constants": len(model.constants), "open_constants": open_constants, "functions": len(model.functions),
        "properties": [one.name for one in model.properties], "features": list(features),
    }  # fmt: skip
    lines = [
        f"model       {model.name} ({model.type.value}), {len(model.automata)} automata, {len(edges)} edges",
        f"features    {', '.join(features) or 'none beyond the core'}",
        f"constants   {', '.join(constant.name for constant in model.constants) or 'none'}"
        + (f"; to be given: {', '.join(open_constants)}" if open_constants else ""),
        f"properties  {', '.join(one.name for one in model.properties) or 'none'}",
    ]
    if loaded is None:
        lines.append(f"not run     {reason}")
        return Answer("read", ExitCode.DONE, spent(), figures, lines).show(as_json=json)
    network = loaded.network
    kinds = Counter("location" if variable.is_location else variable.kind.value for variable in network.variables)
    _, words = lay_out(network.variables)
    figures |= {
        "scalars": len(network.variables), "labels": list(network.labels), "words_per_state": words,
        "bits_per_state": sum(map(bits_of, network.variables)),
        "state_variables": [variable.name for variable in network.variables],
    }  # fmt: skip
    lines += [
        f"state       {len(network.variables)} scalars ({', '.join(f'{n} {kind}' for kind, n in kinds.items())}), "
        f"{figures['bits_per_state']} bits in {words} word{'s' if words > 1 else ''}",
        f"labels      {', '.join(network.labels) or 'none: every move is silent'}",
    ]
    for role, expression in (("start", loaded.start), ("fail", loaded.fail), ("goal", loaded.goal)):
        shown = "the model's initial states" if expression is None else dump_expression(expression)
        figures[role] = shown
        lines.append(f"{role:<11} {shown if len(shown) <= 200 else shown[:200] + ' ...'}")
    return Answer("read", ExitCode.DONE, spent(), figures, lines).show(as_json=json)


def _is_policy(path: Path) -> bool:
    if path.suffix in (".toml", ".jani", ".prism", ".pddl") or not path.is_file():
        return False  # readers of policies are heavy: a model does not wait for them
    from polvet.policy.describe import is_policy_file

    return is_policy_file(path)


def _of_policy(path: Path, spent: Stopwatch, *, as_json: bool) -> int:
    from polvet.policy.describe import describe_policy

    found = describe_policy(path)
    figures = {"inputs": list(found.inputs), "outputs": list(found.outputs), **found.facts}
    lines = [
        *(f"{head:<11} {text}" for head, text in found.facts.items()),
        f"inputs      {len(found.inputs)}: {_listed(found.inputs)}",
        f"outputs     {len(found.outputs)}: {_listed(found.outputs)}",
    ]
    return Answer("read", ExitCode.DONE, spent(), figures, lines).show(as_json=as_json)


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
