"""What a file holds, before anything is done with it: a model with its features and conditions, or a policy with its units."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from polvet.budget import stopwatch
from polvet.errors import InputError
from polvet.files import Json
from polvet.front.arguments import path as path_of
from polvet.front.results import Description
from polvet.model.atoms import with_named_values
from polvet.model.automata import Model
from polvet.model.infix import dump_expression
from polvet.model.task import Task


def info(what: str | os.PathLike[str], **conditions: Any) -> Description:
    """Return what is in a model's, a task's or a policy's file; `conditions` as for `load`.

    A model need not be runnable: with open constants only what it declares is told.
    """
    from polvet.front.loading import load

    spent, path = stopwatch(), path_of(what, "what")
    if _is_policy(path):
        return _of_policy(path, spent())
    task, reason = None, None
    given = {name: value for name, value in conditions.items() if value}
    if path.suffix == ".toml" or given.keys() - {"domain"}:
        task = load(path, **given).model_task
        model = task.network.model
    else:
        from polvet.worlds.formats import load_model

        model = load_model(path, given.get("domain"))
        try:
            task = load(path, **given).model_task
        except InputError as error:
            reason = str(error)
    figures = _of_model(model) | ({} if task is None else _of_task(task))
    return Description(figures=figures, source=(model, task, reason), seconds=spent())


def _of_model(model: Model) -> Json:
    from polvet.jani.features import used_features

    automata = model.automata
    return {
        "type": model.type.value,
        "automata": len(automata),
        "variables": len(model.variables) + sum(len(automaton.variables) for automaton in automata),
        "edges": sum(len(automaton.edges) for automaton in automata),
        "locations": sum(len(automaton.locations) for automaton in automata),
        "actions": len(model.actions),
        "constants": len(model.constants),
        "open_constants": [constant.name for constant in model.constants if constant.value is None],
        "functions": len(model.functions),
        "properties": [one.name for one in model.properties],
        "features": list(used_features(model)),
    }


def _of_task(task: Task) -> Json:
    from polvet.kernel.layout import bits_of, lay_out

    network = task.network
    _, words = lay_out(network.variables)
    conditions = {
        role: "the model's initial states"
        if one is None
        else dump_expression(with_named_values(one, network.variables))
        for role, one in (("start", task.start), ("fail", task.fail), ("goal", task.goal))
    }
    return {
        "scalars": len(network.variables),
        "labels": list(network.labels),
        "words_per_state": words,
        "bits_per_state": sum(map(bits_of, network.variables)),
        "state_variables": [variable.name for variable in network.variables],
        **conditions,
    }


def _is_policy(path: Path) -> bool:
    from polvet.worlds.formats import is_named_like_a_world

    if path.suffix == ".toml" or not path.is_file() or is_named_like_a_world(path):
        return False  # readers of policies are heavy: a model does not wait for them
    from polvet.policy.describe import is_policy_file

    return is_policy_file(path)


def _of_policy(path: Path, seconds: float) -> Description:
    from polvet.policy.describe import describe_policy

    description = describe_policy(path)
    figures = {"inputs": list(description.inputs), "outputs": list(description.outputs), **description.facts}
    return Description(figures=figures, source=description, seconds=seconds)
