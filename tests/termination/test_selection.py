"""Rules and edges that are chosen surely end in the goal; where no choice will do, brute force finds none either."""

from __future__ import annotations

import json
import random
from itertools import chain, combinations, product

import pytest

import polvet
from polvet.budget import UNLIMITED
from polvet.cli.app import run
from polvet.errors import Where
from polvet.policy.finite_memory import Builder, dump_fmp
from polvet.policy.finite_memory.features import outcomes
from polvet.policy.finite_memory.sketch import read_sketch
from polvet.policy.finite_memory.sketch_lines import dump_lines
from polvet.solvers.smt import Question
from polvet.termination import selection

HEAD = "boolean H\nnumeric n m\n"
RULES = [
    "n > 0, !H -> n-down, H",
    "H -> !H, m-up",
    "H, m > 0 -> m-down",
    "n = 0, !H, m > 0 -> m-down",
    "!H -> H",
    "m > 0 -> m-down, n?",
]


def random_rules(seed):
    """Return a few rules that rise, fall, set and unset."""
    rng = random.Random(seed)
    rules = []
    for _ in range(6):
        wanted = [rng.choice([f"{name} > 0", f"{name} = 0"]) for name in "nm" if rng.random() < 0.5]
        wanted += [rng.choice(["H", "!H"])] if rng.random() < 0.6 else []
        effects = [f"{name}-{rng.choice(['down', 'down', 'up'])}" for name in "nm" if rng.random() < 0.4]
        effects += [rng.choice(["H", "!H"])] if rng.random() < 0.5 or not effects else []
        rules.append(f"{', '.join(wanted)} -> {', '.join(effects)}")
    return rules


def solves(rules, wanted):
    """Return by brute force whether the rules end in the goal: patterns, and Sieve in a few lines of its own."""
    sketch = read_sketch(HEAD + "\n".join(rules), Where("rules"))
    features, edges, stuck = sketch.features, [], []
    patterns = [tuple(bool(k >> i & 1) for i in range(3)) for k in range(8)]
    for pattern in patterns:
        some = [
            (pattern, after, rule) for rule in sketch.rules
            if any(all(pattern[i] == v for i, v in c.items()) for c in rule.conditions)
            for after, _ in outcomes(features, rule, pattern)
        ]  # fmt: skip
        edges += some
        if not some and pattern not in wanted:
            stuck.append(pattern)

    def together(one, other):
        seen, agenda = {one}, [one]
        for here in agenda:
            agenda += [t for s, t, _ in edges if s == here and t not in seen and not seen.add(t)]
        return other in seen

    while not stuck:
        inside = [edge for edge in edges if together(edge[1], edge[0])]
        left = []
        for edge in inside:
            mates = [other for other in inside if together(edge[0], other[0]) and together(other[0], edge[0])]
            raised = {i for _, _, rule in mates for i, change in rule.changes.items() if change == "up"}
            if not any(change == "down" and i not in raised for i, change in edge[2].changes.items()):
                left.append(edge)
        if len(left) == len(edges):
            return not left
        edges = left
    return False


@pytest.mark.parametrize("seed", range(12))
def test_rules_are_chosen_iff_brute_force_finds_some(seed, tmp_path):
    rules = random_rules(seed)
    (tmp_path / "rules.txt").write_text(HEAD + "\n".join(rules))
    result = polvet.synthesize(
        tmp_path / "rules.txt", goal="n = 0", output=tmp_path / "s.txt", certificate=tmp_path / "c.json"
    )
    goal = [tuple(bool(k >> i & 1) for i in range(3)) for k in range(8)]
    goal = [pattern for pattern in goal if not pattern[1]]
    subsets = chain.from_iterable(combinations(rules, k) for k in range(1, len(rules) + 1))
    assert (result.word == "solved") == any(solves(some, goal) for some in subsets)
    if result.word == "solved":
        chosen = [line for line in (tmp_path / "s.txt").read_text().splitlines() if "->" in line]
        assert solves(chosen, goal)
        assert polvet.certify(tmp_path / "c.json", tmp_path / "s.txt").accepted
    else:
        assert result.word == "impossible"


def test_both_answers_occur():
    goal = [(h, False, m) for h in (False, True) for m in (False, True)]
    answers = set()
    for seed in range(12):
        rules = random_rules(seed)
        subsets = chain.from_iterable(combinations(rules, k) for k in range(1, len(rules) + 1))
        answers.add(any(solves(some, goal) for some in subsets))
    assert answers == {True, False}


class Silent(Question):
    """A Z3 that proposes nothing, ever."""

    def ask(self):
        return "unsat"


@pytest.mark.parametrize("seed", range(12))
def test_that_there_is_no_choice_is_not_taken_from_z3(seed, tmp_path, monkeypatch):
    (tmp_path / "rules.txt").write_text(HEAD + "\n".join(random_rules(seed)))
    word = polvet.synthesize(tmp_path / "rules.txt", goal="n = 0").word
    monkeypatch.setattr(selection, "Question", Silent)
    assert polvet.synthesize(tmp_path / "rules.txt", goal="n = 0").word == word


def test_the_search_of_our_own_finds_a_choice_iff_there_is_one():
    answers = set()
    for seed in range(300):
        rng = random.Random(seed)
        names = "abcde"[: rng.randint(1, 5)]
        clauses = [
            tuple((one, rng.random() < 0.5) for one in rng.sample(names, rng.randint(0 if seed % 9 == 0 else 1, min(3, len(names)))))
            for _ in range(rng.randint(0, 14))
        ]  # fmt: skip
        ways = [dict(zip(names, bits, strict=True)) for bits in product((False, True), repeat=len(names))]
        holding = [way for way in ways if all(any(way[one] == wanted for one, wanted in some) for some in clauses)]
        choice = selection._choice(clauses, UNLIMITED)
        answers.add(choice is None)
        assert (choice is None) == (not holding)
        if choice is not None:
            assert any(choice.items() <= way.items() for way in holding)
    assert answers == {True, False}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules.txt").write_text(HEAD + "\n".join(RULES))
    (tmp_path / "part.txt").write_text(HEAD + RULES[2])
    edges = (
        Builder("q")
        .edge("q", "q", x=-1, y=1, id="move")
        .edge("q", "q", y=-1, id="drop")
        .edge("q", "q", x=1, y=-1, id="back")
    )
    (tmp_path / "plan.json").write_text(
        json.dumps(dump_fmp(edges.edge("q", "done", id="leave", guard="x == 0").build()))
    )
    return tmp_path


def test_rules_of_a_partial_plan_stay(folder, capsys):
    assert run(["synthesize", "rules.txt", "--goal", "n = 0, !H", "--policy", "part.txt", "-o", "s.txt"]) == 0
    assert "H && m > 0 -> m-down\n" in (folder / "s.txt").read_text()
    (folder / "part.txt").write_text(HEAD + "n > 0 -> n-up")
    assert run(["synthesize", "rules.txt", "--goal", "n = 0, !H", "--policy", "part.txt"]) == 30
    assert "is none of the candidates" in capsys.readouterr().err


def test_edges_of_a_plan_are_chosen(folder, capsys):
    options = ["--goal", "state == done && x == 0", "-o", "p.json", "--certificate", "c.json"]
    assert run(["synthesize", "plan.json", *options]) == 0
    chosen = {edge["id"] for edge in json.loads((folder / "p.json").read_text())["edges"]}
    assert {"move", "leave"} <= chosen
    assert "back" not in chosen
    assert polvet.certify("c.json", "p.json").accepted
    assert run(["synthesize", "plan.json", "--goal", "state == done && x == 1"]) == 10
    assert run(["synthesize", "plan.json", "--goal", "state == done", "--start", "state == nowhere"]) == 30


def test_sketches_are_written_as_they_were_read():
    sketch = read_sketch(HEAD + "\n".join(RULES), Where("rules"))
    again = read_sketch(dump_lines(sketch.features, sketch.rules, sketch.where), Where("again"))
    assert (again.features, again.rules) == (sketch.features, sketch.rules)
