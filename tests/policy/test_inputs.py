"""Inputs that are expressions or Python functions: the kernel reads what the interpreter reads, and every engine says which it takes."""

import json
import random
from itertools import pairwise

import numpy as np
import pytest

import polvet
from polvet.cli.app import run
from polvet.errors import InputError
from polvet.model.options import TaskOptions
from polvet.policy.binding import fit
from polvet.policy.compiled import compile_policy
from polvet.policy.networks import network_of
from polvet.policy.save import save_policy
from polvet.sources import load_task

MODEL = """mdp
module m
  x : [0..9] init 0; y : [-3..4] init 0; b : bool init false;
  [up] x<9 -> (x'=x+1); [down] x>0 -> 0.5:(x'=x-1) + 0.5:(y'=min(4,y+1)); [flip] true -> (b'=!b) & (y'=max(-3,y-1));
endmodule"""
INPUTS = ["x", "x*y + 1", "b", "b & x > 3", "x/3", "mod(x, 4)", "max(x, y)", "b ? x : -y", "pow(x, 2) - 2*x*y"]
FUNCTIONS = (
    "def half(state):\n    return state['x'] / 2 + (1 if state['b'] else 0)\n\n\ndef wrong(state):\n    return 'x'\n"
)


@pytest.fixture
def world(tmp_path):
    (tmp_path / "m.prism").write_text(MODEL)
    (tmp_path / "features.py").write_text(FUNCTIONS)

    def make(inputs, fail="x=9 & y=4"):
        text = f'model = "m.prism"\nfail = "{fail}"\n[policy]\ninputs = {json.dumps(inputs)}\n'
        (tmp_path / "task.toml").write_text(text)
        return tmp_path / "task.toml"

    return make


def _fitted(file, seed=0):
    task = load_task(file, TaskOptions(allow_code=True))
    rng, sizes = np.random.default_rng(seed), (len(task.reading.inputs), 8, len(task.network.labels))
    layers = [(rng.normal(size=(after, before)), rng.normal(size=after)) for before, after in pairwise(sizes)]
    return fit(task, network_of(layers, task.reading.inputs, task.network.labels))


@pytest.mark.parametrize("extra", [[], ["features.py:half"]])
def test_rows_of_all_states_are_the_interpreters(world, extra):
    bound = compile_policy(_fitted(world([*INPUTS, *extra])))
    space = bound.compiled.explore()
    words = space.states(0, len(space))
    states = bound.compiled.unpack(words)
    assert len(states) > 100
    rows = np.concatenate([bound.fitted.row(state) for state in states])
    assert np.array_equal(bound.core.rows(words), rows)


def test_rows_are_what_python_computes(world):
    fitted = _fitted(world(INPUTS))
    for x, y, b in ((0, 0, False), (7, -2, True), (9, 4, False)):
        wanted = [x, x * y + 1, b, b and x > 3, x / 3, x % 4, max(x, y), x if b else -y, x**2 - 2 * x * y]
        assert fitted.row((x, y, b))[0].tolist() == [np.float32(value) for value in wanted]


@pytest.mark.parametrize("extra", [[], ["features.py:half"]])
@pytest.mark.parametrize("seed", range(4))
def test_choices_in_the_kernel_are_the_interpreters(world, extra, seed):
    bound = compile_policy(_fitted(world([*INPUTS, *extra]), seed))
    space = bound.compiled.explore(policy=bound.core)
    followed, pending = set(), list(bound.compiled.semantics.initial_states())
    while pending:
        state = pending.pop()
        if state not in followed:
            followed.add(state)
            moves = bound.fitted.followed(state, bound.compiled.semantics.moves(state))
            pending += [outcome.state for move in moves for outcome in move.outcomes]
    assert set(bound.compiled.unpack(space.states(0, len(space)))) == followed


@pytest.mark.parametrize("inputs", [["x - y", "b"], ["features.py:half", "y"]])
def test_verdicts_are_certified_and_symbolic_methods_refuse_by_name(world, tmp_path, inputs):
    pytest.importorskip("onnx")
    verdicts = set()
    for seed in range(8):
        file = world(inputs, "x=2")
        save_policy(_fitted(file, seed).policy, tmp_path / "policy.onnx")
        policy = polvet.load(file, allow_code=True).policy(tmp_path / "policy.onnx")
        result = policy.verify()
        verdicts.add(result.verdict.value)
        assert polvet.certify(result, policy.task, policy).accepted
        refused = policy.verify(method="ic3")
        assert refused.verdict.value == "unknown"
        assert f"input '{inputs[0]}' is computed" in refused.reason
    assert verdicts == {"safe", "unsafe"}


def test_a_division_by_zero_in_an_input_is_an_error_that_names_it(world):
    bound = compile_policy(_fitted(world(["1/x", "b"])))
    with pytest.raises(InputError, match="an input of the policy"):
        bound.fitted.row((0, 0, False))
    with pytest.raises(InputError, match=r"an input of the policy|not a number"):
        bound.compiled.explore(policy=bound.core)


@pytest.mark.parametrize(
    ("inputs", "what"),
    [
        (["z"], "no variable"),
        (["x +"], ""),
        (["x + z"], "z"),
        (["features.py:missing"], "has no function 'missing'"),
        (["absent.py:half"], "absent.py"),
    ],
)
def test_wrong_inputs_are_refused(world, inputs, what):
    with pytest.raises(InputError) as caught:
        _fitted(world(inputs))
    assert what in str(caught.value)


def test_a_function_must_answer_a_number(world):
    with pytest.raises(InputError, match="no finite number"):
        _fitted(world(["features.py:wrong"])).row((0, 0, False))


def test_functions_make_claims_by_execution_and_their_files_are_digested(world, tmp_path):
    file = world(["x", "features.py:half"])
    fitted = _fitted(file)
    assert fitted.by_execution
    before = load_task(file).sha256
    (tmp_path / "features.py").write_text(FUNCTIONS + "# more\n")
    assert load_task(file).sha256 != before


def test_the_digest_of_a_task_covers_what_its_functions_import(world, tmp_path):
    (tmp_path / "features.py").write_text(
        "from parts import share\n\ndef half(state):\n    return share * state['x']\n"
    )
    (tmp_path / "parts.py").write_text("share = 0.5\n")
    before = load_task(world(["features.py:half"])).sha256
    (tmp_path / "parts.py").write_text("share = 0.25\n")
    assert load_task(tmp_path / "task.toml").sha256 != before


def test_an_accepted_claim_about_functions_says_so(world, tmp_path, capsys):
    file = world(["features.py:half"], fail="x=9 & y=4 & b")
    rows = [{"state": {"features.py:half": 0.0}, "action": "flip"}]
    table = {"format": "table/1", "inputs": ["features.py:half"], "outputs": ["up", "down", "flip"], "rows": rows}
    (tmp_path / "t.json").write_text(json.dumps({**table, "default": "flip"}))
    words = [str(file), str(tmp_path / "t.json")]
    assert run(["verify", *words, "--allow-code", "-o", str(tmp_path / "c.json")]) == 0
    capsys.readouterr()
    command = ["certify", str(tmp_path / "c.json"), "--task", words[0], "--policy", words[1], "--json"]
    assert run([*command, "--allow-code"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert "by execution" in found["claim"]
    assert found["about"]["by_execution"] is True


def test_an_environment_shows_the_expressions(world):
    gymnasium = pytest.importorskip("gymnasium")
    assert gymnasium
    env = polvet.load(world(["x*y", "b & x > 3"])).env()
    rng = random.Random(0)
    env.reset(seed=0)
    for _ in range(200):
        row, _, terminated, truncated, _ = env.step(rng.randrange(3))
        ((x, y, b),) = env.unwrapped.lanes.states()
        assert row.tolist() == [x * y, float(b and x > 3)]
        if terminated or truncated:
            env.reset()
