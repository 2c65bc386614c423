"""Random small worlds of two real variables, in files: leaky sums with gusts, `fail` at a rim, policies of trees or networks."""

from __future__ import annotations

import random

import numpy as np

from polvet.jani.write import dump_model
from polvet.kernel.starts import drawable_starts
from polvet.model.build import ModelBuilder
from polvet.policy.binding import load_fitted
from polvet.policy.compiled import compile_policy
from polvet.policy.runs import End, simulate
from polvet.policy.save import save_policy
from polvet.sources import load_task
from tests.verify.oracle import random_policy

KINDS = {"trees": "json", "network": "onnx"}
LABELS = ("a", "b")


def random_world(seed, folder):
    """Return the task, the fitted policy and the files of both; some start states fail, but each fourth seed takes what comes."""
    for again in range(100):
        task, fitted, files = _world(seed, np.random.default_rng([seed, again]), folder)
        bound = compile_policy(fitted)
        starts = bound.compiled.pack(drawable_starts(task).sample(200, random.Random(0)))
        failing = simulate(bound, starts, max_steps=200).count(End.FAIL)
        if seed % 4 == 0 or 5 < failing < 180:
            return task, fitted, files
    raise AssertionError("no world was found")


def _world(seed, rng, folder):
    model = ModelBuilder("world")
    for name in "xy":
        model.real(name, 0, 4, initial=1)
    model.labels(*LABELS)
    for label in LABELS:
        pull = {name: round(float(rng.uniform(0.2, 3.8)), 1) for name in "xy"}
        speed = round(float(rng.uniform(0.1, 0.6)), 2)
        calm = {name: _kept(f"{name} + {speed} * ({pull[name]} - {name})") for name in "xy"}
        if rng.random() < 0.3:
            calm["y"] = _kept(f"y + {speed} * (x - {round(float(rng.uniform(0, 3)), 1)})")
        gust = {**calm, "x": _kept(f"x + {speed} * ({pull['x']} - x) + {round(float(rng.uniform(-0.6, 0.6)), 2)}")}
        model.edge(label, to=[("0.9", calm), ("0.1", gust)] if rng.random() < 0.5 else calm)
    (folder / "world.jani").write_text(dump_model(model.build()), encoding="utf-8")
    name, sign = rng.choice(["x", "y"]), rng.choice(["<", ">"])
    at = round(float(rng.uniform(0.3, 1.2)), 2)
    fail = f"{name} {sign} {at if sign == '<' else 4 - at}"
    if rng.random() < 0.5:
        fail = f"({fail}) & x + y > {round(float(rng.uniform(1, 3)), 1)}"
    low = {name: round(float(rng.uniform(0, 1.5)), 1) for name in "xy"}
    start = " & ".join(f"{name} >= {low[name]} & {name} <= {low[name] + 2}" for name in "xy")
    if rng.random() < 0.3:
        start += f" & x + y <= {low['x'] + low['y'] + 3}"
    (folder / "world.toml").write_text(
        f'model = "world.jani"\nfail = "{fail}"\ngoal = "false"\nstart = "{start}"\n', encoding="utf-8"
    )
    kind = list(KINDS)[seed % len(KINDS)]
    file = folder / f"policy-{seed}.{KINDS[kind]}"
    save_policy(random_policy(kind, rng, list("xy"), list(LABELS)), file)
    task = load_task(folder / "world.toml")
    return task, load_fitted(task, file), (folder / "world.toml", file)


def _kept(value):
    return f"min(max({value}, 0), 4)"
