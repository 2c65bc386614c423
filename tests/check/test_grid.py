"""Sets of states: everything the slow interpreter does in a set is in what follows from it, and forged grids are rejected."""

from __future__ import annotations

import json
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polvet.check.affine_forms import Form, truth_of, value_of
from polvet.check.box_view import Unreadable
from polvet.check.checker import Accepted, Rejected, Subjects, check
from polvet.check.flow import Flow
from polvet.check.grid import pack_marks, unpack_marks
from polvet.check.guarded import guarded_ends
from polvet.check.narrowing import cut
from polvet.check.returning import _halves
from polvet.check.state_sets import Sets
from polvet.domains import generate
from polvet.errors import ModelError, Where
from polvet.jani import dump_model
from polvet.model.build import ModelBuilder
from polvet.model.evaluate import compile_expression
from polvet.model.expressions import Binary, Conditional, Expression, IntLiteral, Name, RealLiteral, Unary
from polvet.model.infix import dump_expression, parse_expression
from polvet.model.semantics import Semantics
from polvet.policy.binding import Fitted, fit, load_fitted
from polvet.policy.compiled import compile_policy
from polvet.policy.networks import network_of
from polvet.policy.onnx_save import save_onnx
from polvet.policy.runs import trace
from polvet.records.certificate_files import certificate_head
from polvet.sources import load_task
from polvet.verify.certificates import certificate_of
from polvet.verify.grid import GRID
from polvet.verify.portfolio import verify
from polvet.verify.verdicts import Safe, Unknown

NAMES = ("x", "y", "z")


def random_value(rng: random.Random, depth: int) -> Expression:
    if depth == 0 or rng.random() < 0.2:
        if rng.random() < 0.6:
            return Name(rng.choice(NAMES))
        return RealLiteral(Fraction(rng.randint(-40, 40), 10)) if rng.random() < 0.7 else IntLiteral(rng.randint(-3, 3))
    one, other = random_value(rng, depth - 1), random_value(rng, depth - 1)
    match rng.randrange(6):
        case 0:
            return Conditional(random_test(rng, depth - 1), one, other)
        case 1:
            return Unary("abs", one)
        case 2:
            return Binary("/", one, RealLiteral(Fraction(rng.choice([-7, 3, 10]), 3)))
        case _:
            return Binary(rng.choice(["+", "-", "*", "min", "max"]), one, other)


def random_test(rng: random.Random, depth: int) -> Expression:
    if depth == 0 or rng.random() < 0.5:
        sign = rng.choice(["<", "≤", ">", "≥", "=", "≠"])
        return Binary(sign, random_value(rng, 1), random_value(rng, 1))
    if rng.random() < 0.2:
        return Unary("¬", random_test(rng, depth - 1))
    return Binary(rng.choice(["∧", "∧", "∨", "⇒"]), random_test(rng, depth - 1), random_test(rng, depth - 1))


def boxes(rng: np.random.Generator, count: int) -> tuple[Any, Any]:
    low = np.round(rng.uniform(-3, 3, (count, 3)), 1)
    high = low + rng.choice([0.0, 1e-9, 0.1, 2.0], (count, 3))
    low[:, 2], high[:, 2] = np.floor(low[:, 2]), np.floor(low[:, 2]) + rng.integers(0, 3, count)
    return low, high


def forms_of(low: Any, high: Any) -> dict[str, Form]:
    center = low / 2 + high / 2
    radius = np.maximum(high - center, center - low) * (1 + 2.0**-50)
    found = {}
    for k, name in enumerate(NAMES):
        slopes = np.zeros((len(low), 3))
        slopes[:, k] = radius[:, k]
        found[name] = Form(center[:, k], slopes, np.zeros(len(low)), name == "z", (low[:, k], high[:, k]))
    return found


@pytest.mark.parametrize("seed", range(40))
def test_what_expressions_are_in_a_set_holds_in_each_of_its_states(seed: int) -> None:
    rng, arrays = random.Random(seed), np.random.default_rng(seed)
    low, high = boxes(arrays, 30)
    forms = forms_of(low, high)
    place = {name: k for k, name in enumerate(NAMES)}
    for _ in range(12):
        value, test = random_value(rng, 3), random_test(rng, 3)
        least, greatest = value_of(value, forms).bounds()
        surely, possibly = truth_of(test, forms)
        evaluate, decide = compile_expression(value, place), compile_expression(test, place)
        for k in range(len(low)):
            for _ in range(6):
                share = [rng.choice([0.0, 1.0, rng.random()]) for _ in NAMES]
                point = [min(max(a + s * (b - a), a), b) for a, b, s in zip(low[k], high[k], share, strict=True)]
                state = (*point[:2], int(point[2]))
                assert least[k] <= evaluate(state) <= greatest[k]
                assert possibly[k] if decide(state) else not surely[k]


def small_policy(task: Any, seed: int) -> Fitted:
    rng = np.random.default_rng(seed)
    names = [v.name for v in task.network.variables]
    labels = list(task.network.labels)
    layers = [
        (rng.normal(size=(6, len(names))).astype(np.float32), rng.normal(size=6).astype(np.float32)),
        (rng.normal(size=(len(labels), 6)).astype(np.float32), rng.normal(size=len(labels)).astype(np.float32)),
    ]
    return fit(task, network_of(layers, names, labels))


@pytest.mark.parametrize("name", ["bouncing-ball", "inverted-pendulum", "follow-car"])
def test_a_step_of_the_interpreter_is_inside_a_set_that_follows(name: str) -> None:
    task = generate(name).task()
    semantics = Semantics(task.network)
    rng = np.random.default_rng(3)
    middle = {"bouncing-ball": (5.0, 0.0), "inverted-pendulum": (0.0, 0.0), "follow-car": (20.0, 30.0)}[name]
    for seed in range(4):
        fitted = small_policy(task, seed)
        flow = Flow(task, fitted)
        at = np.column_stack([np.full(40, 5.0), *(rng.normal(m, 2 if m else 0.4, 40) for m in middle)])
        wide = np.column_stack([np.full(40, 2.0), rng.choice([0.0, 0.01, 0.5], (40, 2))])
        low, high = np.clip(at, flow.lower, flow.upper), np.clip(at + wide, flow.lower, flow.upper)
        went = flow.step(flow.boxes(low, high))
        for k in range(40):
            mine = [i for i in range(len(went.source)) if went.source[i] == k]
            for _ in range(8):
                share = rng.choice([0.0, 1.0, rng.random()], 3)
                point = np.clip(low[k] + share * (high[k] - low[k]), low[k], high[k])
                state = (int(np.round(point[0])), float(point[1]), float(point[2]))
                for move in fitted.followed(state, semantics.moves(state)):
                    for outcome in move.outcomes:
                        after = np.array(outcome.state, dtype=np.float64)
                        ends = went.sets.ends
                        assert any((ends[0][i] <= after).all() and (after <= ends[1][i]).all() for i in mine)


def test_a_guard_bounds_what_its_edge_assigns_bit_for_bit() -> None:
    value = parse_expression("h + (v * t + 0.25)")
    assert guarded_ends(parse_expression("(0 - v) * t - 0.25 < h"), value) == (Fraction(0), None)
    assert guarded_ends(parse_expression("(0 - v) * t + 0.25 < h"), value) == (None, None)
    assert guarded_ends(parse_expression("h + (t * v + 0.25) <= 9 && -1 <= v"), value) == (None, Fraction(9))
    assert guarded_ends(parse_expression("v * t - 0.25 < h"), value) == (None, None)


def heater(folder: Path, *, careless: bool = False) -> tuple[Path, Path]:
    """A room that a switch keeps between two temperatures; the careless one heats too long."""
    m = ModelBuilder("heater")
    m.real("warmth", 0, 100, initial=20)
    m.edge("heat", to={"warmth": "warmth + 0.5 - 0.02 * (warmth - 10)"})
    m.edge("wait", to={"warmth": "warmth - 0.02 * (warmth - 10)"})
    (folder / "heater.jani").write_text(dump_model(m.build()))
    task = folder / "heater.toml"
    task.write_text(
        'model = "heater.jani"\nstart = "18 <= warmth && warmth <= 22"\nfail = "warmth >= 25 || warmth <= 15"\ngoal = "false"\n'
    )
    policy = folder / "switch.onnx"
    until = 40.0 if careless else 20.0
    layer = np.array([[-1.0], [0.0]], dtype=np.float32), np.array([until, 0.0], dtype=np.float32)
    save_onnx(network_of([layer], ["warmth"], ["heat", "wait"]), str(policy))
    return task, policy


def test_a_switch_is_proved_safe_for_ever_and_forged_certificates_are_rejected(tmp_path: Path) -> None:
    task, policy = heater(tmp_path)
    bound = compile_policy(load_fitted(load_task(task), policy))
    found = verify(bound, method="grid")
    assert isinstance(found, Safe)
    certificate = json.loads(json.dumps(certificate_of(bound, found)))
    subjects = Subjects(task, policy)
    assert isinstance(check(certificate, subjects, Where("c")), Accepted)
    lines = certificate["lines"]["warmth"]
    marks = unpack_marks(certificate["cells"], len(lines))
    listed = np.flatnonzero(marks)
    for k in (int(listed[0]), int(listed[len(listed) // 2]), int(listed[-1])):
        fewer = marks.copy()
        fewer[k] = False
        forged = {**certificate, "cells": pack_marks(fewer)}
        assert isinstance(check(forged, subjects, Where("c")), Rejected)
    everything = {**certificate, "cells": pack_marks(np.ones_like(marks))}
    assert isinstance(check(everything, subjects, Where("c")), Rejected)
    for forged in (
        {**certificate, "lines": {"warmth": [lines[0], *lines[9:]]}},
        {**certificate, "lines": {"warmth": [lines[0] + 1, *lines[1:]]}},
        {**certificate, "lines": {"warmth": [*lines[:3], lines[1], *lines[4:]]}},
        {**certificate, "lines": {}},
        {**certificate, "steps": 0},
        {**certificate, "steps": 10_001},
        {**certificate, "parts": 0},
        {**certificate, "halvings": -1},
        {**certificate, "halvings": True},
        {**certificate, "cuts": {"cold": [1.0]}},
        {**certificate, "cuts": {"warmth": [2.0, 1.0]}},
        {**certificate, "cells": "AAAA"},
        {**certificate, "policy_sha256": "0" * 64},
    ):
        assert isinstance(check(forged, subjects, Where("c")), Rejected)


def test_an_unsafe_switch_is_never_proved(tmp_path: Path) -> None:
    task, policy = heater(tmp_path, careless=True)
    bound = compile_policy(load_fitted(load_task(task), policy))
    assert isinstance(GRID(bound), Unknown)
    assert verify(bound).verdict.value == "unsafe"


@pytest.mark.parametrize("seed", range(3))
def test_what_the_kernel_does_from_states_of_a_set_is_inside_what_follows(tmp_path: Path, seed: int) -> None:
    """The compiled policy in the compiled model, an implementation of its own, against affine forms: step after step."""
    task, policy = heater(tmp_path)
    bound = compile_policy(load_fitted(load_task(task), policy))
    flow = Flow(bound.task, bound.fitted)
    rng = np.random.default_rng(seed)
    low = rng.uniform(16, 24, (40, 1))
    high = low + rng.choice([0.0, 1e-12, 0.01, 0.5], (40, 1))
    for k, (a, b) in enumerate(zip(low[:, 0], high[:, 0], strict=True)):
        for x in (a, b, float(np.clip(a + rng.random() * (b - a), a, b))):
            run = trace(bound, (float(x),), 0, max_steps=12, seed=seed)
            sets = flow.boxes(low[[k]], high[[k]])
            for after in run.states[1:]:
                sets = flow.step(sets).sets
                assert ((sets.ends[0][:, 0] <= after[0]) & (after[0] <= sets.ends[1][:, 0])).any()


def random_real_task(rng: random.Random) -> Any:
    """Two reals and an integer; guards, values, probabilities and `fail` at random, silent edges among them."""
    m = ModelBuilder("random")
    m.real("x", -3, 5, initial=1)
    m.real("y", -3, 5, initial=1)
    m.int("z", -3, 5, initial=1)
    m.labels("a", "b")
    for label in ("a", "b", *([None] if rng.random() < 0.4 else [])):
        for _ in range(rng.randint(1, 2)):
            guard = dump_expression(random_test(rng, 2)) if rng.random() < 0.6 else "true"
            chance = rng.choice(["1/2", "max(0, min(1, x/4))", "1-(1-1e-17*y*y)", "z*0.1-0.1 > 0 ? 0.25 : 0"])
            places = [(chance, updates(rng)), (f"1-({chance})", updates(rng))]
            m.edge(label, guard=guard, to=places if rng.random() < 0.5 else updates(rng))
    return m.task(fail=dump_expression(random_test(rng, 2)))


def updates(rng: random.Random) -> dict[str, str]:
    found = {}
    for name in rng.sample(("x", "y"), rng.randint(1, 2)):
        value = dump_expression(random_value(rng, 2))
        found[name] = value if rng.random() < 0.5 else f"max(-3, min(5, {value}))"
    if rng.random() < 0.4:
        found["z"] = rng.choice(["-z", "z + 1", "min(5, z * z)", "x < y ? z : 0"])
    return found


@pytest.mark.parametrize("seed", range(16))
def test_random_models_never_leave_what_sets_of_states_say(seed: int) -> None:
    """The interpreter against affine forms, over three steps: choices, guards, chances, bounds and `fail`."""
    rng = random.Random(seed)
    task = random_real_task(rng)
    fitted = small_policy(task, seed)
    try:
        flow = Flow(task, fitted)
    except Unreadable:
        pytest.skip("not followed over sets of states")
    semantics = Semantics(task.network)
    is_fail = semantics.compile(task.fail)
    for _ in range(12):
        low = [rng.choice([round(rng.uniform(-2, 4), 1), rng.uniform(-2, 4)]) for _ in range(2)]
        wide = [rng.choice([0.0, 0.0, 1e-15, 1e-6, 0.1, 1.0]) for _ in range(2)]
        low, high = [*low, rng.randint(-2, 3)], [min(a + w, 5.0) for a, w in zip(low, wide, strict=True)]
        high.append(low[2] + rng.randint(0, 1))
        begun = flow.boxes(np.array([low], dtype=np.float64), np.array([high], dtype=np.float64))
        followed = [begun]
        for _ in range(3):
            followed.append(flow.step(followed[-1]).sets)
        for _ in range(8):
            reals = (rng.choice([a, b, rng.uniform(a, b)]) for a, b in zip(low[:2], high[:2], strict=True))
            states = [(*reals, rng.randint(low[2], high[2]))]
            for sets in followed:
                states = inside(flow, sets, states, is_fail)
                states = [after for state in states for after in stepped(semantics, fitted, state)]


def inside(flow: Flow, sets: Any, states: list[Any], is_fail: Any) -> list[Any]:
    """Return the states from which runs go on; each must be in a set, one that may fail where it does."""
    going = []
    low, high = sets.ends
    may_fail = flow.may_fail(sets)
    for state in states:
        point = np.array(state, dtype=np.float64)
        holding = (low <= point).all(axis=1) & (point <= high).all(axis=1)
        assert holding.any()
        if is_fail(state):
            assert may_fail[holding].any()
        else:
            going.append(state)
    return going


def stepped(semantics: Semantics, fitted: Fitted, state: Any) -> list[Any]:
    """Return what may follow the state, nothing where the model breaks a rule."""
    try:
        moves = semantics.moves(state)
    except ModelError:
        return []
    return [outcome.state for move in fitted.followed(state, moves) for outcome in move.outcomes]


@pytest.mark.parametrize("seed", range(10))
def test_a_cut_leaves_no_state_of_a_set_out(seed: int) -> None:
    """Points of sets that have moved on, with their symbols drawn: each is in the piece on its side of the cut."""
    rng = np.random.default_rng(seed)
    count, size = 200, 3
    center, slopes = (
        rng.normal(size=(count, size)),
        rng.normal(size=(count, size, size)) * rng.choice([1e-9, 0.1, 1], (count, 1, 1)),
    )
    error = np.abs(rng.normal(size=(count, size))) * rng.choice([0.0, 1e-12, 0.1], (count, 1))
    radius = (np.abs(slopes).sum(axis=2) + error) * (1 + 1e-12)
    sets = Sets(center, slopes, error, (center - radius, center + radius))
    place = int(rng.integers(size))
    at = float(rng.normal() * 0.5)
    pieces, source = cut(sets, place, at)
    assert set(source.tolist()) <= set(range(count))
    for _ in range(40):
        symbols = rng.choice([-1.0, 1.0, 0.5], (count, size)) * rng.choice([1.0, rng.random()])
        points = center + np.einsum("nvs,ns->nv", slopes, symbols) + error * rng.choice([-1.0, 0.0, 1.0], (count, size))
        for k, point in enumerate(points):
            mine = np.flatnonzero(source == k)
            side = [i for i in mine if (pieces.ends[0][i, place] >= at) == (point[place] >= at)]
            slack = 1e-9 * (np.abs(point) + 1)
            low, high = pieces.ends
            assert any(((low[i] - slack <= point) & (point <= high[i] + slack)).all() for i in side)


@pytest.mark.parametrize("seed", range(10))
def test_halves_are_the_box(seed: int) -> None:
    rng = np.random.default_rng(seed)
    low = np.column_stack([np.floor(rng.normal(size=50) * 4), rng.normal(size=(50, 2))])
    high = low + np.column_stack([rng.integers(0, 3, 50), rng.choice([0.0, 1e-16, 1e-9, 1.0], (50, 2))])
    for depth in range(4):
        begin, end, parent = _halves((True, False, False), low, high, depth)
        assert (begin <= end).all()
        for k in range(50):
            mine = np.flatnonzero(parent == k)
            for share in (0.0, 0.5, rng.random(), 1.0):
                x = np.clip(low[k] + share * (high[k] - low[k]), low[k], high[k])
                x[0] = np.floor(x[0])
                assert any(((begin[i] <= x) & (x <= end[i])).all() for i in mine)


def slow_turner(folder: Path, *, leak: bool) -> tuple[Path, Path]:
    """A point that goes round four places in turn, 0.0 to 0.1 wide; with a leak it fails after some rounds."""
    m = ModelBuilder("turner")
    m.real("x", 0, 10, initial=0)
    m.edge("go", guard="x < 3", to={"x": "x + 1"})
    m.edge("go", guard="x >= 3", to={"x": "(x - 3) * 1.5" if leak else "(x - 3) * 0.5"})
    m.edge("rest", to={"x": "x"})
    (folder / "turner.jani").write_text(dump_model(m.build()))
    task = folder / "turner.toml"
    task.write_text(
        'model = "turner.jani"\nstart = "0 <= x && x <= 0.1"\nfail = "0.6 < x && x < 0.9"\ngoal = "false"\n'
    )
    policy = folder / "go.onnx"
    layer = np.array([[0.0], [0.0]], dtype=np.float32), np.array([1.0, 0.0], dtype=np.float32)
    save_onnx(network_of([layer], ["x"], ["go", "rest"]), str(policy))
    return task, policy


def test_cells_that_runs_return_to_prove_what_lies_between(tmp_path: Path) -> None:
    """Only the start's cell is listed: what runs pass between two visits is not."""
    task, policy = slow_turner(tmp_path, leak=False)
    subjects = Subjects(task, policy)
    bound = compile_policy(load_fitted(load_task(task), policy))
    mine = {"lines": {"x": [0.0, 0.125, 5.0]}, "cells": pack_marks(np.array([True, False, False]))}
    made = {**certificate_head("grid", bound.fitted), **mine, "steps": 4}
    for steps, answer in ((3, Rejected), (4, Accepted), (5, Accepted), (100, Accepted)):
        assert isinstance(check({**made, "steps": steps}, subjects, Where("c")), answer)
    slow_turner(tmp_path, leak=True)
    made["task_sha256"] = load_task(task).sha256
    for steps in (1, 4, 100):
        for halvings in (0, 3):
            forged = {**made, "steps": steps, "halvings": halvings}
            answered = check(forged, subjects, Where("c"))
            assert isinstance(answered, Rejected)
            assert "from 0 <= x" in answered.reason
