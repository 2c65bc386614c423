"""Sketches in all spellings: read, decided, certified; a SIEVE written here from its definition is the oracle."""

from __future__ import annotations

import json
import random
from itertools import product
from pathlib import Path

import pytest

from polvet.check.lasso import check_replay
from polvet.check.lex_rank import check_ranking
from polvet.cli.app import run
from polvet.errors import InputError, Where
from polvet.policy.finite_memory.features import ANY, DOWN, FALSE, NOT_DOWN, NOT_UP, TRUE, UP
from polvet.policy.finite_memory.sketch import Sketch, expand, parse_sketch, read_sketch
from polvet.termination.decide import terminates
from polvet.termination.verdicts import Nonterminating, Terminating

SKETCHES = sorted((Path(__file__).parent / "sketches").glob("*.txt"))


def sieve(sketch: Sketch) -> bool:
    """Return whether the sketch terminates: SIEVE, as Srivastava et al. (2011) and Bonet & Geffner (2020) define it.

    An edge goes away if it lowers a number that no edge of its component raises; the sketch terminates iff no cycle is left.
    """
    names = sketch.features.names
    patterns = list(product([False, True], repeat=len(names)))
    edges = set()
    for memory, before in product(sketch.memory, patterns):
        for number, rule in enumerate(sketch.rules):
            if rule.memory not in (None, memory) or not any(
                all(before[i] == v for i, v in c.items()) for c in rule.conditions
            ):
                continue
            for after in patterns:
                if all(after[i] == v for i, v in rule.after.items()) and all(
                    _fits(rule.changes.get(i), before[i], after[i]) for i in range(len(names))
                ):
                    edges.add((number, (memory, before), (rule.following or memory, after)))
    while True:
        removed = set()
        for component in _components(edges):
            inside = {edge for edge in edges if edge[1] in component and edge[2] in component}
            for index, name in enumerate(names):
                said = {sketch.rules[number].changes.get(index) for number, _, _ in inside}
                if name in sketch.features.numeric and not said & {UP, ANY, NOT_DOWN}:
                    removed |= {e for e in inside if sketch.rules[e[0]].changes.get(index) == DOWN}
        if not removed:
            return not _components(edges)
        edges -= removed


def _fits(change: str | None, before: bool, after: bool) -> bool:
    """Return whether the pattern may follow; of a boolean the pattern is the value, of a number whether it is above 0."""
    return {None: before == after, TRUE: after, FALSE: not after, ANY: True, UP: after, DOWN: before,
            NOT_UP: before or not after, NOT_DOWN: after or not before}[change]  # fmt: skip


def _components(edges):
    """Return the strongly connected sets of ends with an edge inside: by reachability, not by an algorithm of polvet."""
    reach: dict = {}
    for _, source, target in edges:
        reach.setdefault(source, set()).add(target)
    grown = True
    while grown:
        grown = False
        for targets in reach.values():
            more = set().union(*(reach.get(t, set()) for t in targets)) - targets
            if more:
                targets |= more
                grown = True
    return {frozenset(t for t in ts if s in reach.get(t, ())) for s, ts in reach.items() if s in ts}


@pytest.mark.parametrize("path", SKETCHES, ids=lambda path: path.stem)
def test_sketches_of_the_published_kind_are_read_decided_and_certified(path, tmp_path, capsys):
    ends = not path.stem.endswith("-looping")
    certificate = tmp_path / "certificate.json"
    assert run(["terminates", str(path), "-o", str(certificate), "--json"]) == (0 if ends else 10)
    assert json.loads(capsys.readouterr().out)["verdict"] == ("terminating" if ends else "nonterminating")
    assert run(["certify", str(certificate), "--task", str(path)]) == 0
    if len(read_sketch(path.read_text(), Where("s")).features.names) <= 5:
        assert sieve(read_sketch(path.read_text(), Where("s"))) == ends


def test_there_are_twenty_sketches_or_more():
    assert sum(not path.stem.endswith("-looping") for path in SKETCHES) >= 18
    assert len(SKETCHES) >= 20


def test_both_spellings_mean_the_same():
    folder = SKETCHES[0].parent
    old = expand(read_sketch((folder / "gripper-old.txt").read_text(), Where("s")))
    lines = """boolean b0\nnumeric n0 n1\n!b0, n0 = 0, n1 > 0 -> n0-up\nb0, n0 = 0, n1 > 0 -> !b0
b0, n0 > 0, n1 > 0 -> n0-down, n1-down\n!b0, n0 > 0, n1 > 0 -> b0"""
    assert old == expand(read_sketch(lines, Where("s")))


def test_what_a_rule_leaves_out_may_change_and_bot_says_that_it_stays():
    rule = "(:rule (:conditions (:c_n_gt n)) (:effects (:e_n_dec n) (:e_b_bot b)))"
    text = f'(:policy (:booleans (b "x")) (:numericals (n "y") (m "z")) {rule})'
    sketch = read_sketch(text, Where("s"))
    assert sketch.rules[0].changes == {1: DOWN, 2: ANY}
    assert sketch.features.meanings == {"b": "x", "n": "y", "m": "z"}


def test_loading_a_register_changes_what_speaks_of_it_and_nothing_else():
    sketch = read_sketch((SKETCHES[0].parent / "blocks-on-registers.txt").read_text(), Where("s"))
    index = sketch.features.names.index
    assert sketch.memory == ("m0", "m1", "m2", "m3")
    assert [rule.label for rule in sketch.rules] == ["load 0", "load 1", "search 2", "load 3", "search 4"]
    assert sketch.rules[0].changes == {index("nC"): ANY}
    assert sketch.rules[2].changes[index("nC")] == DOWN
    assert (sketch.rules[0].memory, sketch.rules[0].following) == ("m0", "m1")


def test_what_must_hold_afterwards_removes_outcomes():
    rule = "(:rule (:conditions (:c_n_gt n)) (:effects (:e_n_dec n) ({})))"
    text = '(:policy (:booleans ) (:numericals (n "y")) {} {})'
    both = text.format(rule.format(":e_n_gt n"), rule.format(":e_n_eq n"))
    fmp = parse_sketch(both, Where("s"))
    assert [(edge.source, edge.target) for edge in fmp.edges] == [("n>0", "n>0"), ("n>0", "n=0")]


@pytest.mark.parametrize("seed", range(150))
def test_random_sketches_in_brackets_are_decided_as_sieve_says(seed):
    draw = random.Random(seed)
    booleans = [f"b{i}" for i in range(draw.randint(0, 2))]
    numbers = [f"n{i}" for i in range(draw.randint(1, 3))]
    effects = {"b": ["pos", "neg", "bot"], "n": ["inc", "dec", "dec", "bot", "bot", "inc_bot", "dec_bot"]}
    rules = []
    for _ in range(draw.randint(1, 4)):
        conditions = [f"(:c_n_{draw.choice(['gt', 'gt', 'eq'])} {n})" for n in numbers if draw.random() < 0.7]
        conditions += [f"(:c_b_{draw.choice(['pos', 'neg'])} {b})" for b in booleans if draw.random() < 0.7]
        changes = [f"(:e_{f[0]}_{draw.choice(effects[f[0]])} {f})" for f in booleans + numbers if draw.random() < 0.85]
        changes += [f"(:e_n_{draw.choice(['gt', 'eq'])} {n})" for n in numbers if draw.random() < 0.1]
        rules.append(f"(:rule (:conditions {' '.join(conditions)}) (:effects {' '.join(changes)}))")
    declared = [" ".join(f'({f} "?")' for f in some) for some in (booleans, numbers)]
    text = f"(:policy (:booleans {declared[0]}) (:numericals {declared[1]})\n{chr(10).join(rules)})"
    sketch = read_sketch(text, Where("s"))
    fmp = expand(sketch)
    result = terminates(fmp)
    if sieve(sketch):
        assert isinstance(result, Terminating), text
        assert check_ranking(fmp, result.certificate or {}) is None
    else:
        assert isinstance(result, Nonterminating), text
        assert check_replay(fmp, result.certificate) is None


GOOD = '(:policy\n (:booleans (b "x"))\n (:numericals (n "y"))\n (:rule (:conditions (:c_n_gt n)) (:effects (:e_n_dec n))))'


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("(:c_n_gt n)", "(:c_n_gt m)", "4:31"), ("(:c_n_gt n)", "(:c_n_ge n)", "4:22"), ("(:c_n_gt n)", "(:c_b_pos n)", "4:32"),
        ("(:e_n_dec n)", "(:e_n_dec n n)", "4:45"), ("(:e_n_dec n)", "(:e_n_dec n) (:e_n_inc n)", "4:58"),
        ("(:e_n_dec n)", "(:memory m0)", "4:45"), ('(n "y")', '(b "y")', "3:16"), ('(n "y")', "(n y)", "3:16"),
        ('(n "y")', "n", "3:15"), ('"y"', '"y', "3:18"), (":rule", ":rules", "4:2"), ("(:effects", "(:effect", "4:2"),
        ("(:c_n_gt n)", "(:c_n_gt n) (:c_n_eq n)", "4:34"), ("(:c_n_gt n)", ":c_n_gt", "4:22"), ("n))))", "n)))", "1:1"),
        ("n))))", "n)))))", "4:60"), ("(:c_n_gt n)", "(:c_n_gt (n", "4:2"), ("(:e_n_dec n)", "(:e_n_gt n) (:e_n_eq n)", "4:57"),
    ],
)  # fmt: skip
def test_a_bad_sketch_in_brackets_is_refused_with_line_and_column(old, new, place, tmp_path, capsys):
    path = tmp_path / "sketch.txt"
    path.write_text(GOOD.replace(old, new))
    assert run(["terminates", str(path)]) == 30
    assert f"sketch.txt:{place}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    ["(:policy)", "(:policy (:booleans ) (:numericals ))", GOOD + GOOD, "(:module (:signature f()))", "(:policy x)",
     GOOD.replace(":booleans", ":memory_states (m0)) (:booleans"),
     "(:extended_sketch (:memory_states (m0 m1)) (:initial_memory_state m0) (:numericals (n \"y\"))"
     " (:rule (:conditions (:memory m0) (:memory m1)) (:effects )))",
     "(:extended_sketch (:load_rule (:conditions) (:effects (:load (r0 C)))))"],
)  # fmt: skip
def test_what_is_no_sketch_is_an_input_error(text):
    with pytest.raises(InputError):
        read_sketch(text, Where("s"))
