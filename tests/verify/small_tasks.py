"""Random tasks with many start states, in files: a few bounded variables, actions with chances, and a policy of any kind."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np

from polvet.jani.write import dump_model
from polvet.model.build import ModelBuilder
from polvet.model.terms import when
from polvet.policy.binding import load_fitted
from polvet.policy.save import save_policy
from polvet.sources import load_task
from tests.verify.oracle import random_policy

KINDS = ("network", "dyadic", "trees", "table", "rules")
ENDINGS = {"network": "onnx", "dyadic": "onnx", "trees": "json", "table": "json", "rules": "json"}


def random_task(seed, folder, kinds=KINDS):
    """Return the task, the fitted policy and the files of both."""
    rng = np.random.default_rng(seed)
    names, tops = ["x", "y", "z"][: rng.integers(2, 4)], {}
    model = ModelBuilder("small")
    variables = {}
    for name in names:
        tops[name] = int(rng.integers(2, 6))
        variables[name] = model.int(name, 0, tops[name])
    labels = ["a", "b", "c"][: rng.integers(2, 4)]
    model.labels(*labels)
    for label in [*labels, *rng.choice(labels, rng.integers(0, 3))]:
        changes = [_change(rng, variables, tops) for _ in range(rng.integers(1, 3))]
        guard = _guard(rng, variables, tops)
        share = Fraction(1, len(changes))
        model.edge(str(label), guard=guard, to=[(share, change) for change in changes])
    (folder / "small.jani").write_text(dump_model(model.build()), encoding="utf-8")
    fail, goal = _condition(rng, tops, 0.5), _condition(rng, tops, 0.3)
    start = f"{_condition(rng, tops, 2.5)} | {_condition(rng, tops, 2.5)}"
    (folder / "small.toml").write_text(
        f'model = "small.jani"\nfail = "{fail}"\ngoal = "{goal}"\nstart = "{start}"\n', encoding="utf-8"
    )
    task = load_task(folder / "small.toml")
    kind = kinds[seed % len(kinds)]
    file = folder / f"policy-{seed}.{ENDINGS[kind]}"
    if kind == "rules":
        rules = [
            {"when": _condition(rng, tops, 1.5), "action": str(rng.choice(labels))} for _ in range(rng.integers(1, 6))
        ]
        rules.append({"when": "true", "action": str(rng.choice(labels))})
        document = {"format": "rules/1", "rules": rules}
        file.write_text(json.dumps(document), encoding="utf-8")
    else:
        save_policy(random_policy(kind, rng, names, labels), file)
    return task, load_fitted(task, file), (folder / "small.toml", file)


def _guard(rng, variables, tops):
    if rng.random() < 0.5:
        return None
    name = str(rng.choice(list(variables)))
    at = int(rng.integers(0, tops[name] + 1))
    return variables[name] <= at if rng.random() < 0.5 else variables[name] >= at


def _change(rng, variables, tops):
    name = str(rng.choice(list(variables)))
    if rng.random() < 0.3:
        return {variables[name]: int(rng.integers(0, tops[name] + 1))}
    one = variables[name]
    return {one: when(one < tops[name], one + 1, one)} if rng.random() < 0.5 else {one: when(one > 0, one - 1, one)}


def _condition(rng, tops, wide):
    """A box or a sum of variables as a condition; the wider, the more states satisfy it."""
    if rng.random() < 0.2:
        left, right = rng.choice(list(tops), 2)
        return f"{left} + {right} >= {tops[left] + tops[right] - int(wide)}"
    parts = []
    for name, top in tops.items():
        low = int(rng.integers(0, top + 1))
        high = min(top, low + int(rng.integers(0, 1 + max(1, int(wide * 2)))))
        parts.append(f"{name} >= {low} & {name} <= {high}")
    return "(" + " & ".join(parts) + ")"
