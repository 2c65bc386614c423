"""Policies whose inputs are expressions or Python functions are debugged like others: networks, trees and tables."""

from __future__ import annotations

import json

import numpy as np
import pytest

from polvet.cli.app import run
from polvet.policy.networks import Layer, Network
from polvet.policy.save import save_policy
from polvet.policy.trees import MISSING_NAN, TreeEnsemble, make_tree
from polvet.sources import load_task

WORLD = """mdp
module stones
  s : [0..6] init 0;
  [step] s<6 -> (s'=s+1);
  [leap] s<5 -> (s'=s+2);
endmodule
"""
PLACES = tuple(f"s == {place}" for place in range(7))
HALVES = ("s / 2", "features.py:rest")  # a real number, and a function
LABELS = ("step", "leap")


def world(folder, inputs):
    """Stones in a river, of which 3 and 5 sink."""
    (folder / "stones.prism").write_text(WORLD)
    (folder / "features.py").write_text("def rest(state):\n    return state['s'] % 2\n")
    task = folder / "stones.toml"
    task.write_text(
        'model = "stones.prism"\nfail = "s = 3 | s = 5"\ngoal = "s = 6"\n'
        f"[policy]\ninputs = {json.dumps(inputs)}\noutputs = {json.dumps(LABELS)}\n"
    )
    return task


def network(inputs):
    """It always steps."""
    first = Layer(np.eye(len(inputs), dtype=np.float32), np.zeros(len(inputs), dtype=np.float32))
    last = Layer(np.zeros((2, len(inputs)), dtype=np.float32), np.array([1, 0], dtype=np.float32))
    return Network(inputs, LABELS, (first, last))


def trees(inputs):
    """They always step, too."""
    none = np.array([-1])
    leaves = (make_tree(k, none, np.zeros(1), none, none, np.array([[1.0 - k]]), None, MISSING_NAN) for k in range(2))
    return TreeEnsemble(inputs, LABELS, tuple(leaves), (0.0, 0.0), "<", "float32", 0.0)


@pytest.mark.parametrize("inputs", [PLACES, HALVES], ids=["conditions", "numbers"])
@pytest.mark.parametrize(
    ("made", "method"),
    [(network, "last-layer"), (network, "units"), (trees, "leaves"), (trees, "tree"), (trees, "penalty")],
)
def test_a_policy_over_computed_inputs_becomes_safe_and_reaches_the_goal(tmp_path, capsys, made, method, inputs):
    task, policy = world(tmp_path, inputs), tmp_path / ("policy.onnx" if made is network else "policy.json")
    save_policy(made(inputs), policy)
    code = ["--allow-code"]  # one of the inputs is a Python function
    options = ["--method", method, "--kind", "goal", "--json", *code]
    assert run(["debug", str(task), str(policy), "-o", str(tmp_path / "d"), *options]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["outcome"], told["figures"]["goal_percent"], told["checked"]) == ("safe", 100, True)
    after = load_task(task)
    assert run(["certify", told["certificate"], "--task", str(task), "--policy", told["policy"], *code]) == 0
    assert after.reading.inputs == inputs
    capsys.readouterr()


def test_an_address_in_a_task_file_is_told_how_to_become_one(tmp_path, capsys):
    task = tmp_path / "lake.toml"
    task.write_text('model = "gym:FrozenLake-v1?map_name=4x4"\n')
    assert run(["info", str(task)]) == 30
    said = capsys.readouterr().err
    assert "model: is an address" in said
    assert "polvet.load('gym:FrozenLake-v1?map_name=4x4').save('task.toml')" in said
