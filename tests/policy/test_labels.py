"""What a policy's outputs mean does not depend on constants: an action that is never enabled keeps its label."""

from __future__ import annotations

import json

import numpy as np
import pytest

from polvet.cli.app import run
from polvet.policy.binding import load_fitted
from polvet.policy.compiled import compile_policy
from polvet.policy.networks import network_of
from polvet.policy.save import save_policy
from polvet.sources import TaskOptions, load_task
from polvet.verify.portfolio import verify
from polvet.verify.verdicts import Safe

MODEL = """mdp
const int N;
module m
  x : [0..9] init 4;
  [left] x > 0 & x < 9 -> (x'=x-1);
  [jump] N > 3 & x < 8 -> (x'=x+2);
  [right] x > 0 & x < 9 -> (x'=x+1);
  [never] false -> (x'=0);
endmodule
"""


@pytest.fixture
def files(tmp_path):
    (tmp_path / "m.prism").write_text(MODEL)
    save_policy(network_of([(np.zeros((4, 1)), np.array([0.0, 3.0, 2.0, 4.0]))]), tmp_path / "p.nnet")
    (tmp_path / "p.jani2nnet").unlink()  # nameless: outputs are positions
    return tmp_path


@pytest.mark.parametrize(("constant", "chosen"), [(5, "jump"), (1, "right")])
def test_outputs_by_position_mean_the_models_actions(files, constant, chosen):
    task = load_task(files / "m.prism", TaskOptions({"N": constant}, fail="x = 0", goal="x = 9"))
    assert task.network.labels == ("left", "jump", "right", "never")
    fitted = load_fitted(task, files / "p.nnet")
    assert fitted.policy.outputs == ("left", "jump", "right", "never")
    assert fitted.unscored == ()
    applicable = {"left", "right"} | ({"jump"} if constant > 3 else set())
    assert fitted.choose((4,), applicable) == chosen


@pytest.mark.parametrize("method", ["explicit", "abstraction", "ic3", "induction", "bmc", "auto", "projection"])
def test_every_engine_knows_labels_that_never_move(files, method):
    task = load_task(files / "m.prism", TaskOptions({"N": 1}, fail="x = 0", goal="x = 9"))
    bound = compile_policy(load_fitted(task, files / "p.nnet"))
    found = verify(bound, method=method)
    assert isinstance(found, Safe) or method in ("bmc", "induction", "projection"), getattr(found, "reason", found)


def test_commands_and_certificates_work_with_such_labels(files, capsys):
    given = [str(files / "m.prism"), "--constants", "N=1", "--fail", "x = 0", "--goal", "x = 9"]
    policy, certificate = str(files / "p.nnet"), files / "c.json"
    for method in ("explicit", "ic3"):
        assert run(["verify", given[0], policy, *given[1:], "--method", method, "-o", str(certificate)]) == 0
        assert run(["certify", str(certificate), "--task", *given, "--policy", policy]) == 0
    assert run(["decide", *given]) == 0
    assert run(["explore", *given[:3]]) == 0
    assert run(["faults", given[0], policy, *given[1:]]) == 0
    capsys.readouterr()
    raw = ["simulate", given[0], policy, *given[1:], "--mode", "raw", "--runs", "4", "--json"]
    assert run(raw) == 0
    assert json.loads(capsys.readouterr().out)["figures"]["ends"] == {"stuck": 4}


def test_declared_actions_without_any_edge_may_have_outputs(tmp_path):
    model = {
        "jani-version": 1, "name": "m", "type": "mdp", "actions": [{"name": n} for n in ("a", "idle", "b")],
        "variables": [{"name": "x", "type": {"kind": "bounded", "base": "int", "lower-bound": 0, "upper-bound": 3},
                       "initial-value": 0}],
        "automata": [{
            "name": "m", "locations": [{"name": "l"}], "initial-locations": ["l"],
            "edges": [{"location": "l", "action": n, "guard": {"exp": {"op": "<", "left": "x", "right": 3}},
                       "destinations": [{"location": "l", "assignments": [{"ref": "x", "value": v}]}]}
                      for n, v in (("a", 0), ("b", {"op": "+", "left": "x", "right": 1}))],
        }],
        "system": {"elements": [{"automaton": "m"}]},
    }  # fmt: skip
    (tmp_path / "m.jani").write_text(json.dumps(model))
    task = load_task(tmp_path / "m.jani")
    assert task.network.labels == ("a", "b")
    for size, names in ((3, ("a", "idle", "b")), (2, ("a", "b"))):
        save_policy(network_of([(np.zeros((size, 1)), np.arange(size))]), tmp_path / "p.nnet")
        (tmp_path / "p.jani2nnet").unlink()
        fitted = load_fitted(task, tmp_path / "p.nnet")
        assert fitted.policy.outputs == names
        assert fitted.choose((0,), {"a", "b"}) == "b"
