"""Sketches decided over few of their features: as SIEVE says where it can be run, and up to thirty features where it cannot."""

from __future__ import annotations

import json
import random

import pytest

from polvet.check.checker import Rejected, Subjects, check
from polvet.check.lasso import check_replay
from polvet.check.lex_rank import check_ranking
from polvet.cli.app import run
from polvet.errors import Where
from polvet.policy.finite_memory.projection import part_between, project
from polvet.policy.finite_memory.sketch import expand, read_sketch
from polvet.termination.sketches import sketch_terminates
from polvet.termination.verdicts import Nonterminating, Terminating
from tests.termination.test_sketch_formats import SKETCHES, sieve


def random_sketch(seed: int) -> str:
    """Return a sketch of few features with rules that say little; about half of them end."""
    draw = random.Random(seed)
    booleans = [f"b{i}" for i in range(draw.randint(0, 2))]
    numbers = [f"n{i}" for i in range(draw.randint(1, 3))]
    lines = [f"boolean {' '.join(booleans)}"] if booleans else []
    lines.append(f"numeric {' '.join(numbers)}")
    for _ in range(draw.randint(1, 5)):
        conditions, effects = [], []
        for name in booleans:
            conditions += [draw.choice([name, f"!{name}"])] if draw.random() < 0.6 else []
            effects += [draw.choice([name, f"!{name}", f"{name}?"])] if draw.random() < 0.4 else []
        for name in numbers:
            zero = draw.random() < 0.25
            conditions += [f"{name} = 0" if zero else f"{name} > 0"] if draw.random() < 0.6 else []
            down = [] if f"{name} = 0" in conditions else ["-down"] * 4
            effects += [name + draw.choice([*down, "-up", "?"])] if draw.random() < 0.4 else []
        lines.append(f"{', '.join(conditions)} -> {', '.join(effects)}")
    return "\n".join(lines)


def planted_sketch(seed: int, *, loop: bool) -> str:
    """Return a sketch of 30 features and 40 rules: each lowers a number and raises later ones only; perhaps with a loop."""
    draw = random.Random(seed)
    booleans, numbers = [f"b{i}" for i in range(12)], [f"n{i}" for i in range(18)]
    lines = [f"boolean {' '.join(booleans)}", f"numeric {' '.join(numbers)}"]
    for _ in range(40):
        least = draw.randrange(18)
        conditions, effects = [f"n{least} > 0"], [f"n{least}-down"]
        effects += [f"n{j}{draw.choice(['-up', '?'])}" for j in range(least + 1, 18) if draw.random() < 0.2]
        conditions += [draw.choice([name, f"!{name}"]) for name in booleans if draw.random() < 0.2]
        effects += [draw.choice([name, f"!{name}", f"{name}?"]) for name in booleans if draw.random() < 0.2]
        others = [j for j in range(18) if j != least and draw.random() < 0.1]
        conditions += [f"n{j} {draw.choice(['> 0', '= 0'])}" for j in others]
        lines.append(f"{', '.join(conditions)} -> {', '.join(effects)}")
    if loop:
        first, second = draw.sample(range(18), 2)
        lines.append(f"b0, n{first} > 0 -> n{first}-down, n{second}-up, !b0")
        lines.append(f"!b0, n{second} > 0 -> n{second}-down, n{first}-up, b0")
    return "\n".join(lines)


def edges_of(plan):
    return {(edge.source, edge.target, str(edge.choices), edge.guard) for edge in plan.edges}


def judged(text: str):
    sketch = read_sketch(text, Where("s"))
    result, plan = sketch_terminates(sketch)
    if isinstance(result, Terminating):
        assert check_ranking(project(sketch, result.certificate["features"])[0], result.certificate) is None
    elif isinstance(result, Nonterminating):
        places = [(memory, tuple(bit == "1" for bit in bits)) for memory, bits in result.certificate["between"]]
        assert check_replay(part_between(sketch, places), result.certificate) is None
    assert plan is not None
    return result


@pytest.mark.parametrize("seed", range(120))
def test_random_sketches_are_decided_as_sieve_says(seed):
    text = random_sketch(seed)
    expected = Terminating if sieve(read_sketch(text, Where("s"))) else Nonterminating
    assert isinstance(judged(text), expected), text


@pytest.mark.parametrize("path", SKETCHES, ids=lambda path: path.stem)
def test_an_endless_part_is_a_part_of_the_whole_policy(path):
    sketch = read_sketch(path.read_text(), Where("s"))
    result, part = sketch_terminates(sketch)
    if isinstance(result, Nonterminating):
        whole = edges_of(expand(sketch))
        assert edges_of(part) <= whole


def test_projecting_on_all_features_changes_nothing():
    for path in SKETCHES:
        sketch = read_sketch(path.read_text(), Where("s"))
        if len(sketch.features.names) <= 5 and all(len(rule.conditions) == 1 for rule in sketch.rules):
            plan, whole = project(sketch, sketch.features.names)[0], expand(sketch)
            assert edges_of(plan) >= edges_of(whole)
            if len(sketch.memory) == 1:
                assert len(plan.edges) == len(whole.edges)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("loop", [False, True])
def test_thirty_features_are_decided_and_certified(seed, loop, tmp_path, capsys):
    path, certificate = tmp_path / "sketch.txt", tmp_path / "certificate.json"
    path.write_text(planted_sketch(seed, loop=loop))
    assert run(["terminates", str(path), "-o", str(certificate)]) == (10 if loop else 0)
    assert run(["certify", str(certificate), "--task", str(path)]) == 0
    assert run(["certify", str(certificate)]) == 0


def test_a_counter_in_thirty_bits_needs_no_pattern():
    bits = [f"b{i}" for i in range(30)]
    rules = []
    for i, bit in enumerate(bits):
        raised = [bit, *(f"!{lower}" for lower in bits[:i])]
        rules.append(f"{', '.join([*bits[:i], f'!{bit}'])} -> {', '.join(raised)}")
    result = judged(f"boolean {' '.join(bits)}\n" + "\n".join(rules))
    assert isinstance(result, Terminating)
    assert result.certificate["features"] == []


def test_a_part_or_a_projection_cannot_be_passed_off_as_the_sketch(tmp_path):
    path = tmp_path / "s.txt"
    path.write_text("boolean b\nnumeric n\nb, n > 0 -> n-down, !b\n!b -> b, n?")
    looping, _ = sketch_terminates(read_sketch(path.read_text(), Where("s")))
    subjects = Subjects(path)
    assert not isinstance(check(dict(looping.certificate), subjects, Where("c")), Rejected)
    for false in (
        {**looping.certificate, "between": looping.certificate["between"][:1]},
        {**looping.certificate, "between": [["", "0"]]},
        {**looping.certificate, "features": []},
        {**looping.certificate, "kind": "lex-rank", "components": []},  # a part without its cycles
        {**looping.certificate, "kind": "goal-missed", "goal": "n == 0", "steps": [], "initial_state": "b,n>0"},
        {"kind": "lex-rank", "features": ["b"], "components": []},
        {"kind": "lex-rank", "features": ["c"], "components": []},
        {"kind": "lex-rank", "features": "b", "components": []},
        {"kind": "lex-rank", "features": ["b", "n"], "between": [], "components": []},
    ):
        assert isinstance(check(false, subjects, Where("c")), Rejected)


def test_what_needs_all_patterns_says_so(tmp_path, capsys):
    path = tmp_path / "sketch.txt"
    path.write_text(planted_sketch(0, loop=False))
    for more in (["--method", "sieve"], ["--goal", "n0 == 0"], ["--export", str(tmp_path / "x.json")]):
        assert run(["terminates", str(path), *more]) == 30
        assert "at most 14" in capsys.readouterr().err
    assert run(["terminates", str(path), "--json", "--why"]) == 0
    assert json.loads(capsys.readouterr().out)["why"] is None
