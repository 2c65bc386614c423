from __future__ import annotations

import copy
import json

import pytest

from polvet.check.checker import Accepted, Rejected, Subjects, check
from polvet.check.lasso import check_replay
from polvet.check.lex_rank import check_ranking
from polvet.errors import InputError, Where
from polvet.policy.finite_memory import Builder, dump_fmp
from polvet.termination.decide import terminates
from polvet.termination.verdicts import Nonterminating, Terminating
from tests.termination.plans import iter_plans

BIG = 10**9


def ranking_mutants(certificate):
    """Yield certificates that cannot prove anything: each damages one place that is needed."""
    for index, component in enumerate(certificate["components"]):
        mutant = copy.deepcopy(certificate)
        del mutant["components"][index]
        yield "a component is missing", mutant
        mutant = copy.deepcopy(certificate)
        mutant["components"][index]["states"].pop()
        yield "a state is missing", mutant
        mutant = copy.deepcopy(certificate)
        mutant["components"][index] |= {
            "lambda": {},
            "potential": dict.fromkeys(component["states"], 0),
            "children": [],
        }
        yield "nothing decreases", mutant
        mutant = copy.deepcopy(certificate)
        mutant["components"][index]["lambda"] = {name: -int(w) for name, w in component["lambda"].items()}
        if any(mutant["components"][index]["lambda"].values()):
            yield "lambda is negated", mutant
        if len(component["states"]) > 1:
            mutant = copy.deepcopy(certificate)
            state = component["states"][0]
            mutant["components"][index]["potential"][state] = int(component["potential"][state]) + BIG
            yield "a potential is raised", mutant
        mutant = copy.deepcopy(certificate)
        del mutant["components"][index]["potential"]
        yield "no potential", mutant
        if component["children"]:
            mutant = copy.deepcopy(certificate)
            mutant["components"][index]["children"] = []
            yield "the children are missing", mutant


def lasso_mutants(fmp, certificate):
    """Yield lassos that cannot be followed: the start is the least one, so one less is too little."""
    for name, value in certificate["initial_valuation"].items():
        mutant = copy.deepcopy(certificate)
        mutant["initial_valuation"][name] = int(value) - 1
        yield f"less of {name}", mutant
    by_id = {edge.id: edge for edge in fmp.edges}
    for index, segment in enumerate(certificate["cycle"]):
        for place, identity in enumerate(segment["edges"]):
            if by_id[identity].source != by_id[identity].target:
                mutant = copy.deepcopy(certificate)
                del mutant["cycle"][index]["edges"][place]
                yield "an edge of the cycle is missing", mutant
                break
        mutant = copy.deepcopy(certificate)
        mutant["cycle"][index]["repeat"] = 0
        yield "no repetition", mutant
        mutant = copy.deepcopy(certificate)
        mutant["cycle"][index]["edges"][0] = "nowhere"
        yield "an unknown edge", mutant
    if certificate["prefix"] and by_id[certificate["prefix"][0]].source != by_id[certificate["prefix"][0]].target:
        mutant = copy.deepcopy(certificate)
        del mutant["prefix"][0]
        if mutant["prefix"] or by_id[mutant["cycle"][0]["edges"][0]].source not in fmp.initial:
            yield "the prefix starts too late", mutant
    yield "no cycle", {**certificate, "cycle": []}


def test_every_mutated_certificate_is_rejected():
    tried = {"ranking": 0, "lasso": 0}
    for fmp in iter_plans(21, 200):
        result = terminates(fmp)
        certificate = json.loads(json.dumps(result.certificate))
        if isinstance(result, Terminating):
            for what, mutant in ranking_mutants(certificate):
                assert check_ranking(fmp, mutant) is not None, what
                tried["ranking"] += 1
        elif isinstance(result, Nonterminating):
            for what, mutant in lasso_mutants(fmp, certificate):
                assert check_replay(fmp, mutant) is not None, what
                tried["lasso"] += 1
    assert min(tried.values()) > 300


def test_a_ranking_of_one_plan_is_rejected_for_the_plan_with_one_more_loop():
    for fmp in iter_plans(22, 40, highest=0):
        result = terminates(fmp)
        if not isinstance(result, Terminating):
            continue
        longer = dump_fmp(fmp)
        longer["edges"].append({"id": "extra", "from": "q0", "to": "q0"})
        certificate = {**result.certificate, "fmp": longer}
        assert isinstance(check(certificate, Subjects(), Where("c")), Rejected)


def test_amounts_outside_an_interval_are_rejected():
    fmp = Builder("q", semantics="qualitative").edge("q", "q", x=1).build()
    good = {"kind": "lasso", "initial_valuation": {"x": 0}, "prefix": [],
            "cycle": [{"edges": [{"edge": 0, "choice": 0, "effects": {"x": 7}}], "repeat": 1}]}  # fmt: skip
    assert check_replay(fmp, good) is None
    for amount in (0, -1, None, 1.5, "x", True):
        bad = copy.deepcopy(good)
        bad["cycle"][0]["edges"][0]["effects"]["x"] = amount
        assert check_replay(fmp, bad) is not None
    assert check_replay(fmp, {**good, "cycle": [{"edges": [0], "repeat": 1}]}) is not None


@pytest.mark.parametrize(
    ("guard", "effect", "start", "accepted"),
    [
        ("x >= 3", 0, 3, True), ("x >= 3", 1, 3, True), ("x >= 3", 0, 2, False), ("x <= 3", 1, 2, False),
        ("x < 3", 0, 2, True), ("x == 3", 0, 3, True), ("x == 3", 1, 3, False), ("x != 5", 2, 2, True),
        ("x != 6", 2, 2, False), ("x != 1", 2, 2, True), ("x == 9 || x >= 2", 1, 2, True),
    ],
)  # fmt: skip
def test_guards_are_checked_for_every_round_to_come(guard, effect, start, accepted):
    fmp = Builder("q").edge("q", "q", x=effect, guard=guard).build()
    lasso = {"initial_valuation": {"x": start}, "prefix": [], "cycle": [{"edges": [0], "repeat": 1}]}
    assert (check_replay(fmp, lasso) is None) == accepted


def test_repeated_segments_are_checked_at_both_ends():
    fmp = Builder("q").edge("q", "q", x=-1).edge("q", "q", x=10).build()
    for start, accepted in ((10, True), (9, False)):
        lasso = {"initial_valuation": {"x": start}, "prefix": [],
                 "cycle": [{"edges": [0], "repeat": 10}, {"edges": [1], "repeat": 1}]}  # fmt: skip
        assert (check_replay(fmp, lasso) is None) == accepted


def test_what_is_no_certificate_is_an_input_error():
    for document in ([], {}, {"kind": 3}, {"kind": "magic"}):
        with pytest.raises(InputError):
            check(document, Subjects(), Where("c.json"))


def test_a_certificate_for_another_file_is_rejected(tmp_path):
    fmp = Builder("q").edge("q", "q", x=-1).build()
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(dump_fmp(fmp)))
    certificate = dict(terminates(fmp).certificate or {})
    assert isinstance(check(certificate, Subjects(file), Where("c")), Accepted)
    assert isinstance(check({**certificate, "task_sha256": "0" * 64}, Subjects(file), Where("c")), Rejected)
