"""Claims that prove nothing, made by hand: labels left out, starts that are overlooked, ranks that wrap, no start state at all."""

from __future__ import annotations

import json
import random
from itertools import product

import numpy as np
import pytest

from polvet.check.checker import Accepted, Subjects, check
from polvet.check.packing import pack
from polvet.check.start_region import read_region
from polvet.cli.app import run
from polvet.errors import InputError, Where
from polvet.model.network import Kind, Variable
from polvet.policy.finite_memory import dump_fmp
from polvet.policy.finite_memory.build import Builder
from polvet.policy.finite_memory.goal import parse_goal
from polvet.policy.finite_memory.starts import _is_possible
from polvet.policy.identity import policy_sha256
from polvet.records.packed import pack_columns
from polvet.sources import TaskOptions, load_task
from polvet.verify.split_tree import completed
from tests.check.kinds import _cooling, _network

BY_STATES = {"by": "states", "nodes": 0, "packed": pack(b"")}


class Claims:
    """A task and a policy in files, and what the checker says of claims about them."""

    def __init__(self, folder, model, policy=None, **conditions):
        file = folder / "world.prism"
        file.write_text(model, encoding="utf-8")
        task = folder / "world.toml"
        lines = ['model = "world.prism"', *(f'{name} = "{text}"' for name, text in conditions.items())]
        task.write_text("\n".join(lines) + "\n", encoding="utf-8")
        self.policy = None if policy is None else folder / "policy.json"
        if policy is not None:
            self.policy.write_text(json.dumps(policy), encoding="utf-8")
        self.subjects, self.task = Subjects(task, self.policy), load_task(task, TaskOptions())

    def certificate(self, kind, **body):
        head = {"kind": kind, "format": "certificate/1", "task_sha256": self.task.sha256}
        if self.policy is not None:
            head["policy_sha256"] = policy_sha256(self.policy)
        return {**head, **body}

    def says(self, kind, **body):
        try:
            return check(self.certificate(kind, **body), self.subjects, Where("claim"))
        except InputError as error:
            return error

    def packed(self, *states):
        variables = self.task.network.variables
        rows = np.array([[int(x) for x in state] for state in states], dtype=np.int64).reshape(-1, len(variables))
        return {"count": len(states), "states": pack_columns(variables, rows)}


def always(label):
    return {"format": "table/1", "inputs": ["bad"], "outputs": [label], "rows": [], "default": label}


# -- labels


FORCED = """mdp
module m
  x : [0..2] init 0;
  [a] x=0 -> (x'=1);
  [b] x=1 -> (x'=2);
endmodule
"""


@pytest.mark.parametrize("by", ["states", "boxes"])
def test_a_table_that_leaves_an_applicable_label_out_wins_nothing(tmp_path, monkeypatch, by):
    """Every policy from x=0 reaches x=2: in x=1 nothing but `b` is applicable, and a table without it is stuck there."""
    claims = Claims(tmp_path, FORCED, fail="x = 2")
    table = {"format": "table/1", "inputs": ["x"], "outputs": ["a"], "rows": [], "default": "a"}
    body = {"start": [0], "states": [{"state": {"x": 0}}], "policy": table, "rows": [], "blocked": []}
    body["tree"] = BY_STATES if by == "states" else {"by": "boxes", "nodes": 0, "packed": pack(b"")}
    assert not isinstance(claims.says("won-projection", **body), Accepted)
    whole = {**table, "outputs": ["a", "b"]}
    assert not isinstance(claims.says("won-projection", **{**body, "policy": whole}), Accepted)


def test_a_table_that_knows_all_labels_wins_what_it_keeps(tmp_path):
    claims = Claims(tmp_path, FORCED.replace("[b] x=1 -> (x'=2)", "[b] x=1 -> (x'=0)"), fail="x = 2")
    table = {"format": "table/1", "inputs": ["x"], "outputs": ["a", "b"], "rows": [], "default": "a"}
    body = {"start": [0], "states": [{"state": {"x": 0}}], "policy": table, "tree": BY_STATES}
    body |= {"rows": [], "blocked": [{"x": [2, 2]}]}
    assert isinstance(claims.says("won-projection", **body), Accepted)


# -- start states


def far(base):
    """A world in which every start state fails at once, and no start is beyond the bounds."""
    return f"""mdp
module m
  x : [{base}..{base + 1}];
  y : [{base}..{base + 1}];
  bad : bool;
  [a] true -> (bad'=true);
endmodule
init true endinit
"""


FAR = [2**31, 2**53, 2**62 + 1]
NEAR = ["x != y & x >= y", "x > y", "x - y = 1", "!(x <= y)", "x >= y + 1", "min(x, y) < x", "x + y > 2 * y"]


@pytest.mark.parametrize(("base", "start"), [(base, start) for base in FAR for start in NEAR])
@pytest.mark.parametrize("kind", ["reachable-set", "risk-bound", "sure-end", "safe-region", "permissive"])
def test_no_start_state_is_overlooked_however_large_its_numbers(tmp_path, kind, base, start):
    """The one start is x = base + 1, y = base; from there `bad` cannot be avoided."""
    claims = Claims(tmp_path, far(base), always("a"), start=f"({start}) & !bad", fail="bad")
    body = {
        "reachable-set": claims.packed(),
        "risk-bound": {**claims.packed(), "bound": "0", "values": []},
        "sure-end": {**claims.packed(), "distances": []},
        "safe-region": {"region": {"out": []}, "proof": {"kind": "reachable-set", **claims.packed()}},
        "permissive": {"bound": "0", "states": []},
    }[kind]
    assert not isinstance(claims.says(kind, **body), Accepted)
    steps = {
        "states": [
            {"x": str(base + 1), "y": str(base), "bad": False},
            {"x": str(base + 1), "y": str(base), "bad": True},
        ]
    }
    assert isinstance(claims.says("run", **steps, actions=["a"], end="fail"), Accepted)


@pytest.mark.parametrize("start", ["x = 9007199254740992", "x = 9007199254740993", "x = 9007199254740993.0"])
def test_a_start_that_is_named_is_met_whatever_number_it_is(tmp_path, start):
    """Against the interpreter, asked about each of the values."""
    model = "mdp\nmodule m\n  x : [9007199254740990..9007199254740996];\n  [a] true -> true;\nendmodule\ninit true endinit\n"
    claims = Claims(tmp_path, model, always("a"), start=start, fail="x = 9007199254740996")
    from polvet.check.all_starts import iter_all_starts
    from polvet.check.arena import Arena

    arena = Arena.of(claims.task)
    holds = arena.semantics.compile(claims.task.start)
    values = range(9007199254740990, 9007199254740997)
    assert [state[0] for state in iter_all_starts(arena)] == [x for x in values if holds((x,))]


# -- ranks


@pytest.mark.slow
def test_a_rank_that_wraps_does_not_fall(tmp_path):
    """8,192 counters are set to 2^30 where each counts 2^20: the rank rises by 2^63, and `bad` is not even reachable."""
    many = 8192
    lines = "\n".join(f"  c{k} : [0..{2**30}] init 0;" for k in range(many))
    sets = " & ".join(f"(c{k}'={2**30})" for k in range(many))
    model = f"mdp\nmodule m\n  bad : bool init false;\n{lines}\n  [a] true -> {sets};\nendmodule\n"
    claims = Claims(tmp_path, model, fail="bad")
    named = {f"c{k}": 0 for k in range(many)}
    body = {
        "start": [0],
        "states": [{"state": {"bad": False, **named}, "rank": 0, "actions": []}],
        "rows": [],
        "lost": [[{"box": {}, "rank": 0, "slopes": dict.fromkeys(named, 2**20)}]],
    }
    assert not isinstance(claims.says("lost-projection", **body), Accepted)


# -- nothing


FIELD = """mdp
module m
  x : [0..9];
  z : [0..9];
  bad : bool;
  [a] true -> true;
endmodule
init true endinit
"""
EMPTY = ["2*x + 4*z = 7", "x + z = 40", "x > 5 & x < 3", "false", "x = 0 & z > 5 & z < 3"]


@pytest.mark.parametrize("start", EMPTY)
@pytest.mark.parametrize("kept", [None, ["x"], ["x", "bad"], ["bad"]])
@pytest.mark.parametrize("kind", ["reachable-set", "risk-bound", "sure-end", "invariant", "safe-region"])
def test_a_claim_about_no_start_state_is_rejected(tmp_path, kind, kept, start):
    claims = Claims(tmp_path, FIELD, always("a"), start=f"({start}) & !bad", fail="bad")
    invariant = {
        "kind": "invariant",
        "rows": [{"terms": {"bad": 1}, "marks": [], "lower": 0, "upper": 0}],
        "blocked": [],
    }
    body = {
        "reachable-set": claims.packed(),
        "risk-bound": {**claims.packed(), "bound": "0", "values": []},
        "sure-end": {**claims.packed(), "distances": []},
        "invariant": invariant,
        "safe-region": {"region": {"out": []}, "proof": invariant},
    }[kind]
    body = {key: value for key, value in body.items() if key != "kind"}
    if kept is not None:
        body["kept"] = kept
    if kind in ("invariant", "safe-region"):
        try:
            body = completed(claims.certificate(kind, **body), claims.subjects)
        except Exception as error:  # nobody can make one: the claim is refused before
            assert "start" in str(error) or "left out" in str(error)  # noqa: PT017
            return
        body = {
            key: value for key, value in body.items() if key not in ("kind", "task_sha256", "policy_sha256", "format")
        }
    assert not isinstance(claims.says(kind, **body), Accepted)


@pytest.mark.parametrize(
    "region", [{"in": []}, {"in": [{"x": [7, 9]}]}, {"out": [{}]}, {"out": [{"x": [0, 3]}, {"x": [4, 4]}]}]
)
@pytest.mark.parametrize("kind", ["reachable-set", "safe-policy", "invariant"])
def test_a_region_without_a_start_state_is_rejected(tmp_path, kind, region):
    """Runs start with x at most 4."""
    claims = Claims(tmp_path, FIELD, None if kind == "safe-policy" else always("a"), start="x <= 4 & !bad", fail="bad")
    good = list(product(range(10), range(10), [0]))
    proof = {
        "reachable-set": claims.packed(*good),
        "safe-policy": {
            "start": [*range(100)],
            "states": [{"state": {"x": x, "z": z, "bad": False}, "action": "a"} for x, z, _ in good],
        },
        "invariant": {
            "rows": [{"terms": {"bad": 1}, "marks": [], "lower": 0, "upper": 0}],
            "blocked": [],
            "tree": BY_STATES,
        },
    }[kind]
    answer = claims.says("safe-region", region=region, proof={"kind": kind, **proof})
    assert not isinstance(answer, Accepted)
    if kind != "invariant":
        whole = claims.says("safe-region", region={"in": [{"x": [4, 9]}]}, proof={"kind": kind, **proof})
        assert isinstance(whole, Accepted), whole


@pytest.mark.parametrize("base", [0, 2**53 - 2, 2**53, 2**62])
def test_boxes_of_a_region_hold_exactly_what_they_say(base):
    """One state at a time and in bulk, as Python's integers compare."""
    rng = random.Random(base)
    variables = [Variable(name, Kind.INT, base, base + 4) for name in "xy"]
    states = list(product(range(base, base + 5), repeat=2))
    for _ in range(60):
        boxes = [
            {
                name: sorted(rng.randint(base, base + 4) for _ in range(2))
                for name in rng.sample("xy", rng.randint(0, 2))
            }
            for _ in range(rng.randint(0, 3))
        ]
        wanted = [
            any(all(low <= s["xy".index(n)] <= high for n, (low, high) in box.items()) for box in boxes) for s in states
        ]
        inside, outside = (read_region({side: boxes}, variables, lambda state: False) for side in ("in", "out"))
        assert [inside.holds(state) for state in states] == wanted == [not outside.holds(state) for state in states]
        assert list(inside.among(states)) == [state for state, one in zip(states, wanted, strict=True) if one]


def test_a_witness_of_a_region_is_a_start_state_in_it(tmp_path):
    claims = Claims(tmp_path, FIELD, always("a"), start="x <= 4 & !bad", fail="bad")
    listed = claims.packed(*product(range(10), range(10), [0]))
    for x, good in ((3, True), (2, False), (7, False)):
        proof = {"kind": "reachable-set", **listed, "witness": {"x": x, "z": 1, "bad": False}}
        assert isinstance(claims.says("safe-region", region={"in": [{"x": [3, 9]}]}, proof=proof), Accepted) == good


@pytest.mark.parametrize("start", ["t * t <= 0.01 && t * t >= 0.0095", "t >= 1 && t <= 2", "t <= 0.1 && t >= 0.2"])
@pytest.mark.parametrize("more", [["--method", "grid"], ["--region"]])
def test_a_grid_is_about_some_real_start_state_that_it_names(tmp_path, start, more):
    (tmp_path / "cool.jani").write_text(_cooling())
    _network(tmp_path / "cool.onnx", [[0.0], [0.0]], [1.0, 0.0], "t", ["cool", "heat"])
    file, policy, made = tmp_path / "cool.toml", tmp_path / "cool.onnx", tmp_path / "made.json"
    file.write_text(f'model = "cool.jani"\nfail = "t >= 9"\nstart = "{start}"\n')
    empty = "0.2" in start
    assert run(["verify", str(file), str(policy), *more, "-o", str(made)]) == (30 if empty else 0)
    if empty:
        file.write_text('model = "cool.jani"\nfail = "t >= 9"\nstart = "t <= 0.1"\n')
        assert run(["verify", str(file), str(policy), *more, "-o", str(made)]) == 0
        file.write_text(f'model = "cool.jani"\nfail = "t >= 9"\nstart = "{start}"\n')
    certificate = {**json.loads(made.read_text()), "task_sha256": load_task(file, TaskOptions()).sha256}
    answers = [
        check(one, Subjects(file, policy), Where("claim")) for one in (certificate, {**certificate, "witness": None})
    ]
    assert isinstance(answers[0], Accepted) == (not empty)
    assert not (empty and isinstance(answers[1], Accepted))


def test_scores_of_a_repair_are_compared_as_they_stand(tmp_path):
    """2^53 + 1 is not the score 2^53."""
    table = {"format": "table/1", "inputs": ["x"], "outputs": ["a", "b"], "rows": [], "default": "a"}
    table["rows"] = [{"state": {"x": x}, "scores": [2**53, 0]} for x in range(3)]
    claims = Claims(tmp_path, FORCED.replace("[b] x=1", "[b] x=0"), table, fail="x = 2")
    for score, good in ((2**53, True), (float(2**53), True), (2**53 + 1, False)):
        fault = {
            "state": {"x": 0},
            "action": "b",
            "safe_actions": ["a"],
            "before": {"b": 1},
            "after": {"a": score, "b": 0},
        }
        assert isinstance(claims.says("repair", mode="safe", reading="filtered", faults=[fault]), Accepted) == good


def test_a_repair_of_no_fault_is_rejected(tmp_path):
    claims = Claims(tmp_path, FIELD, always("a"), fail="bad", start="!bad")
    answer = claims.says("repair", mode="avoid", reading="filtered", faults=[], left=0)
    assert not isinstance(answer, Accepted)


EMPTY_STARTS = [
    "x >= 5 && x <= 3",
    "x < 0",
    "x == 2 && x != 2",
    "state == q && state != q",
    "x > 3 && x < 5 && x != 4 || x < 0",
]


@pytest.mark.parametrize("kind", ["lex-rank", "goal-reaching"])
@pytest.mark.parametrize("start", [*EMPTY_STARTS, "x == 7", "x > 3 && x < 6 && x != 4"])
def test_executions_from_no_start_are_not_claimed_to_end(kind, start):
    """From x >= 0 the plan runs for ever; where there is a start, an empty ranking is none."""
    plan = dump_fmp(Builder("q").edge("q", "q", x=1).build())
    claim = {"kind": kind, "components": [], "fmp": plan, "start": start, "goal": "x == 0", "reach": {}}
    assert not isinstance(check(claim, Subjects(), Where("claim")), Accepted)


@pytest.mark.parametrize("start", EMPTY_STARTS)
def test_starts_are_found_possible_as_by_trying_values(start):
    fmp = Builder("q").edge("q", "q", x=1).build()
    for text in (start, f"{start} || x == 3", "x > 3 && x < 6 && x != 4", "x != 0 && x != 1 && x != 2", "x >= 0"):
        region = parse_goal(text, fmp)
        found = any(region.holds("q", {"x": value}) for value in range(20))
        assert any(_is_possible(case, fmp) for case in region.cases) == found
