from __future__ import annotations

import json

import pytest

from polvet.cli.app import run
from polvet.policy.finite_memory import Builder, dump_fmp
from tests.termination.plans import iter_plans

ENDING = dump_fmp(Builder("q0", name="ending").edge("q0", "q1", x=-1).edge("q1", "q0").build())
LOOPING = dump_fmp(Builder("q0", name="looping").edge("q0", "q1", x=-1).edge("q1", "q0", x=1).build())


@pytest.fixture
def plan(tmp_path):
    def write(document, name="plan.json"):
        path = tmp_path / name
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        return str(path)

    return write


def answer(capsys, *arguments):
    code = run([*arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_verdicts_have_their_exit_codes_and_certificates_that_certify_accepts(plan, tmp_path, capsys):
    for document, verdict, code, kind in (
        (ENDING, "terminating", 0, "lex-rank"),
        (LOOPING, "nonterminating", 10, "lasso"),
    ):
        path, certificate = plan(document), str(tmp_path / "certificate.json")
        found, shown = answer(capsys, "terminates", path, "-o", certificate)
        assert (found, shown["verdict"], shown["certificate"]) == (code, verdict, certificate)
        assert json.loads((tmp_path / "certificate.json").read_text())["kind"] == kind
        assert answer(capsys, "certify", certificate, "--task", path)[1]["verdict"] == "accepted"
        assert answer(capsys, "certify", certificate)[0] == 0


def test_without_an_output_file_the_json_answer_holds_the_certificate(plan, capsys):
    code, shown = answer(capsys, "terminates", plan(ENDING))
    assert code == 0
    assert {"kind", "task_sha256", "components"} <= shown["certificate"].keys()
    assert {"verdict", "reason", "seconds", "seed", "figures"} <= shown.keys()


def test_a_certificate_for_another_plan_is_rejected_with_exit_10(plan, tmp_path, capsys):
    certificate = str(tmp_path / "certificate.json")
    answer(capsys, "terminates", plan(ENDING), "-o", certificate)
    code, shown = answer(capsys, "certify", certificate, "--task", plan(LOOPING, "other.json"))
    assert (code, shown["verdict"]) == (10, "rejected")
    tampered = json.loads((tmp_path / "certificate.json").read_text())
    tampered["components"] = []
    code, shown = answer(capsys, "certify", plan(tampered, "tampered.json"))
    assert (code, shown["verdict"]) == (10, "rejected")
    assert "cycle" in shown["reason"]


def test_an_unreadable_certificate_is_exit_30(plan, capsys):
    assert run(["certify", plan("{", "broken.json")]) == 30
    assert run(["certify", plan("{}", "empty.json")]) == 30
    assert run(["certify", "no/such/file.json"]) == 30
    assert "no such file" in capsys.readouterr().err


def test_a_sieve_that_cannot_prove_is_unknown_with_exit_20(plan, capsys):
    document = dump_fmp(Builder("a").edge("a", "b", x=-2).edge("b", "a", x=1).build())
    for method, code in (("sieve", 20), ("progress-sieve", 20), ("gensieve", 0), ("complete", 0), ("auto", 0)):
        found, shown = answer(capsys, "terminates", plan(document), "--method", method)
        assert found == code
        assert (shown["reason"] is not None) == (code == 20)


def test_a_time_limit_of_nothing_is_unknown_and_names_the_limit(plan, capsys):
    fmp = next(iter(iter_plans(1, 1, states=(12, 12))))
    code, shown = answer(capsys, "terminates", plan(dump_fmp(fmp)), "--time-limit", "0")
    assert code == 20
    assert "time limit" in shown["reason"]


def test_a_memory_limit_is_lifted_again_and_workers_are_read(plan, capsys):
    assert run(["terminates", plan(ENDING), "--memory-limit", "100000", "--workers", "2"]) == 0
    assert run(["terminates", plan(LOOPING), "--memory-limit", "0"]) == 30


def broken(change):
    document = json.loads(json.dumps(ENDING))
    change(document)
    return document


BAD = {
    "unknown control state": (lambda d: d["edges"][1].update(to="q9"), "edges[1].to"),
    "unknown source": (lambda d: d["edges"][1].update({"from": "p0"}), "edges[1].from"),
    "duplicate ids": (lambda d: d["edges"][1].update(id=0), "edges[1].id"),
    "a fraction as effect": (lambda d: d["edges"][0]["choices"][0]["effects"].update(x=1.5), "choices[0].effects.x"),
    "a word as effect": (lambda d: d["edges"][0]["choices"][0]["effects"].update(x="one"), "effects.x"),
    "a truth value as effect": (lambda d: d["edges"][0]["choices"][0]["effects"].update(x=True), "effects.x"),
    "an empty interval": (lambda d: d["edges"][0]["choices"][0]["effects"].update(x={"lo": 2, "hi": 1}), "effects.x"),
    "half an interval": (lambda d: d["edges"][0]["choices"][0]["effects"].update(x={"lo": 2}), "effects.x"),
    "unknown variable in an effect": (lambda d: d["edges"][0]["choices"][0]["effects"].update(z=1), "effects.z"),
    "an empty guard": (lambda d: d["edges"][0].update(guard_dnf=[]), "edges[0].guard_dnf"),
    "an empty conjunction": (lambda d: d["edges"][0].update(guard_dnf=[[]]), "edges[0].guard_dnf[0]"),
    "unknown variable in a guard": (lambda d: d["edges"][0].update(guard_dnf=[[["z", ">=", 1]]]), "guard_dnf[0][0]"),
    "unknown operator": (lambda d: d["edges"][0].update(guard_dnf=[[["x", "=>", 1]]]), "guard_dnf[0][0][1]"),
    "a fraction in a guard": (lambda d: d["edges"][0].update(guard_dnf=[[["x", ">=", 0.5]]]), "guard_dnf[0][0][2]"),
    "unknown initial state": (lambda d: d.update(initial="q7"), "initial"),
    "no initial state": (lambda d: d.pop("initial"), "'initial' is missing"),
    "bounds exchanged": (lambda d: d["variables"][0].update(lower=3, upper=1), "variables[0]"),
    "a state named twice": (lambda d: d["control_states"].append("q0"), "control_states[2]"),
    "a variable named twice": (lambda d: d["variables"].append({"name": "x"}), "variables[1]"),
    "unknown semantics": (lambda d: d.update(semantics="vague"), "semantics"),
    "a misspelt key": (lambda d: d["edges"][0].update(gaurd_dnf=[]), "edges[0].gaurd_dnf"),
    "another format": (lambda d: d.update(format="fmp/9"), "format"),
    "edges as an object": (lambda d: d.update(edges={}), "edges"),
    "no choices": (lambda d: d["edges"][0].update(choices=[]), "edges[0].choices"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_exit_30_with_the_place(what, plan, capsys):
    change, place = BAD[what]
    path = plan(broken(change))
    assert run(["terminates", path]) == 30
    message = capsys.readouterr().err
    assert path in message
    assert place in message


@pytest.mark.parametrize(
    ("text", "place"),
    [('q0 q1 {"label": "x1-3"}\nq1', ":2"), ('q0 q1 {"label": "x1*3"}', ":1"), ('q0 q1 {"label": "x-1.5"}', ":1"),
     ("", "no edge"), ('q0 q1 {"label": 3}', ":1"), ("q0 q1 {label}", ":1"), ('a b {"label": "x-1,x+2"}', ":1")],
)  # fmt: skip
def test_a_bad_edge_list_is_exit_30_with_the_line(text, place, plan, capsys):
    assert run(["terminates", plan(text, "plan.txt")]) == 30
    assert place in capsys.readouterr().err


def test_unknown_methods_and_options_are_exit_30(plan, capsys):
    assert run(["terminates", plan(ENDING), "--method", "magic"]) == 30
    assert run(["terminates", plan(ENDING), "--magic"]) == 30
    assert run(["terminates"]) == 30
