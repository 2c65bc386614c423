"""Whether a branch is possible has one answer, the interpreter's, on every road: doubles are wrong about all of these."""

from __future__ import annotations

import json
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from polvet.check.checker import Accepted, Rejected, Subjects, check
from polvet.cli.app import run
from polvet.errors import ModelError, Where
from polvet.jani import dump_model
from polvet.model.build import ModelBuilder
from polvet.model.semantics import Semantics
from polvet.policy.binding import load_fitted
from polvet.policy.compiled import compile_policy
from polvet.policy.networks import network_of
from polvet.policy.onnx_save import save_onnx
from polvet.sources import load_task
from polvet.verify.certificates import certificate_of
from polvet.verify.portfolio import verify
from polvet.verify.verdicts import Safe, Unsafe

METHODS = ("auto", "explicit", "projection", "induction", "abstraction", "ic3", "bmc")
CASES = {
    # name: (variable, probability of the bad branch, of the other one, the bad branch's exact probability)
    "difference of near numbers": ("n : [0..3] init 1", "1-(1-n*1e-17)", "1-n*1e-17", Fraction(1, 10**17)),
    "decimals that cancel": ("n : [0..3] init 3", "0.1*n-0.3", "1.3-0.1*n", Fraction(0)),
    "decimals that cancel from below": ("n : [0..3] init 3", "0.3-0.1*n", "0.7+0.1*n", Fraction(0)),
    "lost in a sum": ("n : [0..3] init 1", "(n+1e-20)-n", "1-1e-20", Fraction(1, 10**20)),
    "square": ("n : [0..3] init 1", "pow(0.1*n,2)-0.01", "1.01-pow(0.1*n,2)", Fraction(0)),
    "quotient": ("n : [0..3] init 3", "(n/10)*3-0.9", "1.9-(n/10)*3", Fraction(0)),
    "maximum": ("n : [0..3] init 3", "max(0,0.1*n-0.3)", "1-max(0,0.1*n-0.3)", Fraction(0)),
    "condition": ("n : [0..3] init 3", "(0.1*n>0.3?0.5:0)", "1-(0.1*n>0.3?0.5:0)", Fraction(0)),
    "too small for a double": ("n : [0..3] init 1", "1e-400", "1-1e-400", Fraction(1, 10**400)),
    "computed, too small for a double": ("n : [0..3] init 1", "n*1e-400", "1-n*1e-400", Fraction(1, 10**400)),
    "sum at the tolerance": ("n : [0..3] init 1", "(n-1)*0.5", "1-n*1e-6", Fraction(0)),
    "remainder": ("n : [0..9] init 3", "mod(n,3)/7+1e-30", "1-mod(n,3)/7-1e-30", Fraction(1, 10**30)),
    "remainder that vanishes": ("n : [0..9] init 3", "mod(n,3)/7", "1-mod(n,3)/7", Fraction(0)),
    "power that vanishes": ("n : [0..9] init 0", "pow(n,3)/1000", "1-pow(n,3)/1000", Fraction(0)),
    "wide range": ("n : [0..1000000] init 300000", "n*1e-6-0.3", "1.3-n*1e-6", Fraction(0)),
}


def write_task(folder: Path, variable: str, chance: str, rest: str) -> tuple[str, str]:
    (folder / "model.prism").write_text(
        f"mdp\nmodule m\n {variable};\n bad : bool init false;\n"
        f" [a] !bad -> ({chance}) : (bad'=true) + ({rest}) : (bad'=false);\n [b] bad -> true;\nendmodule\n"
    )
    (folder / "task.toml").write_text('model = "model.prism"\nfail = "bad"\ngoal = "false"\n')
    layer = np.zeros((2, 1), dtype=np.float32), np.array([1.0, 0.0], dtype=np.float32)
    save_onnx(network_of([layer], [variable.split()[0]], ["a", "b"]), str(folder / "policy.onnx"))
    return str(folder / "task.toml"), str(folder / "policy.onnx")


@pytest.mark.parametrize("name", CASES)
def test_every_road_says_what_the_interpreter_says(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    variable, chance, rest, exactly = CASES[name]
    task, policy = write_task(tmp_path, variable, chance, rest)
    network = load_task(Path(task)).network
    semantics = Semantics(network)
    start = next(iter(semantics.initial_states()))
    assert sum(o.probability for m in semantics.moves(start) for o in m.outcomes if o.state[1]) == exactly
    bad = exactly > 0

    assert run(["explore", task, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["figures"]["states"] == 1 + bad

    certificate = str(tmp_path / "certificate.json")
    for method in METHODS:
        Path(certificate).unlink(missing_ok=True)
        code = run(["verify", task, policy, "--method", method, "-o", certificate])
        assert code == (10 if bad else 0) or (code == 20 and method not in ("auto", "explicit")), method
        if code != 20:
            assert run(["certify", certificate, "--task", task, "--policy", policy]) == 0, method

    for algorithm in ("lazy", "tarjan", "vi"):
        folder = tmp_path / algorithm
        capsys.readouterr()
        run(["decide", task, "--algorithm", algorithm, "--certificates", str(folder), "--json"])
        assert json.loads(capsys.readouterr().out)["verdict"] == ("unsafe" if bad else "safe"), algorithm
        for written in folder.glob("*.json"):
            assert run(["certify", str(written), "--task", task]) == 0, algorithm

    assert run(["gate", task, policy, "--max-faults", "0", "--proved"]) == (10 if bad else 0)
    capsys.readouterr()
    for exact in ([], ["--exact"]):
        code = run(["check", str(tmp_path / "model.prism"), "--property", "Pmax=? [F<=1 bad]", "--json", *exact])
        if not exact and 0 < exactly < Fraction(sys.float_info.min):
            assert code == 30  # no bounds, rather than wrong ones
            capsys.readouterr()
            continue
        assert code == 0
        figures = json.loads(capsys.readouterr().out)["figures"]
        assert Fraction(figures["lower"]) <= exactly <= Fraction(figures["upper"])
        assert (Fraction(figures["upper"]) > 0) == bad
    for command in ("simulate", "evaluate"):
        assert run([command, task, policy]) in (0, 10)


def write_real_task(folder: Path, chance: str, rest: str) -> tuple[Path, Path]:
    """A real x of 1.5 with an action that sets `bad` with the given probability, and the policy that takes it."""
    m = ModelBuilder("real")
    m.real("x", 1, 3, initial=Fraction(3, 2))
    m.bool("bad", initial=False)
    m.edge("a", guard="!bad", to=[(chance, {"bad": "true"}), (rest, {"bad": "false"})])
    m.edge("b", guard="!bad", to={"bad": "false"})
    (folder / "real.jani").write_text(dump_model(m.build()))
    task, policy = folder / "real.toml", folder / "real.onnx"
    task.write_text('model = "real.jani"\nfail = "bad"\ngoal = "false"\n')
    layer = np.zeros((2, 1), dtype=np.float32), np.array([1.0, 0.0], dtype=np.float32)
    save_onnx(network_of([layer], ["x"], ["a", "b"]), str(policy))
    return task, policy


@pytest.mark.parametrize(
    ("chance", "rest"),
    [
        ("1-(1-1e-17*x)", "1-1e-17*x"),
        ("1-(1-1e-17*x*x)", "1-1e-17*x*x"),
        ("(x+1e-30)-x", "1-1e-30"),
        ("(x/3)*3-x+1e-40", "1+x-(x/3)*3-1e-40"),
        ("min(1e-320*1e-10*x, 1)", "1-min(1e-320*1e-10*x, 1)"),
    ],
)
def test_no_grid_leaves_out_a_branch_that_doubles_round_away(chance: str, rest: str, tmp_path: Path) -> None:
    task, policy = write_real_task(tmp_path, "max(0, x-5)", "1-max(0, x-5)")
    bound = compile_policy(load_fitted(load_task(task), policy))
    found = verify(bound, method="grid")
    assert isinstance(found, Safe)
    certificate = json.loads(json.dumps(certificate_of(bound, found)))
    assert isinstance(check(certificate, Subjects(task, policy), Where("certificate")), Accepted)

    write_real_task(tmp_path, chance, rest)
    bound = compile_policy(load_fitted(load_task(task), policy))
    assert not isinstance(verify(bound, method="grid"), Safe)
    unsafe = verify(bound, method="explicit")
    assert isinstance(unsafe, Unsafe)
    certificate["task_sha256"] = certificate_of(bound, unsafe)["task_sha256"]
    answer = check(certificate, Subjects(task, policy), Where("certificate"))
    assert isinstance(answer, Rejected)
    assert "fail" in str(answer)


@pytest.mark.parametrize("method", ["induction", "ic3", "abstraction"])
@pytest.mark.parametrize(
    ("chance", "rest"),
    [
        ("1-(1-n*1e-17)", "1-n*1e-17"),
        ("(n+1e-20)-n", "1-1e-20"),
        ("pow(n*1e-9,2)-n*n*1e-18+1e-30", "1-1e-30"),
        ("(n/3)*3-n+1e-40", "1+n-(n/3)*3-1e-40"),
    ],
)
def test_no_invariant_leaves_out_a_branch_that_doubles_round_away(
    method: str, chance: str, rest: str, tmp_path: Path
) -> None:
    variable = "n : [0..3] init 1"
    task, policy = map(Path, write_task(tmp_path, variable, "max(0,n-5)", "1-max(0,n-5)"))
    bound = compile_policy(load_fitted(load_task(task), policy))
    found = verify(bound, method=method)
    assert isinstance(found, Safe)
    certificate = json.loads(json.dumps(certificate_of(bound, found)))
    assert isinstance(check(certificate, Subjects(task, policy), Where("certificate")), Accepted)

    write_task(tmp_path, variable, chance, rest)
    bound = compile_policy(load_fitted(load_task(task), policy))
    assert not isinstance(verify(bound, method=method), Safe)
    certificate["task_sha256"] = certificate_of(bound, verify(bound, method="explicit"))["task_sha256"]
    answer = check(certificate, Subjects(task, policy), Where("certificate"))
    assert isinstance(answer, Rejected)
    assert "sha256" not in str(answer)


def test_a_number_beyond_doubles_is_an_error_of_the_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    huge = "1/(n*1e200*1e200+pow(n,0.5))"  # a fraction of any length meets a double
    task, _ = write_task(tmp_path, "n : [0..3] init 1", huge, f"1-{huge}")
    semantics = Semantics(load_task(Path(task)).network)
    with pytest.raises(ModelError, match="no finite result"):
        semantics.moves(next(iter(semantics.initial_states())))
    assert run(["explore", task]) == 30
    assert "no finite result" in capsys.readouterr().err
