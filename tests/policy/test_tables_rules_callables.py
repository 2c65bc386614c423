"""Tables, rule lists and Python functions as policies."""

import json
import re
from dataclasses import dataclass

import numpy as np
import pytest

from polvet.errors import InputError, Where
from polvet.policy import CallablePolicy, Rules, choose_label, load_policy, save_policy

TABLE = {
    "format": "table/1",
    "inputs": ["x", "on"],
    "outputs": ["a", "b"],
    "rows": [{"state": {"x": 0, "on": True}, "scores": [1, 2.5]}, {"state": {"x": 1, "on": False}, "action": "a"}],
    "default": "b",
}


@dataclass(frozen=True)
class Comparison:
    """A condition `name op number`, enough to test rule lists without the model's own language."""

    text: str

    @property
    def variables(self):
        return re.findall(r"[a-z]\w*", self.text.replace("true", ""))

    def __call__(self, state):
        return bool(eval(self.text.replace("true", "True"), {}, dict(state)))


def parse(text, where):
    if "?" in text:
        raise InputError("a condition cannot be read.", where)
    return Comparison(text)


def written(path, document):
    path.write_text(json.dumps(document))
    return path


def rows(*values):
    return np.array(values, dtype=np.float32)


def test_a_table_looks_states_up_and_falls_back_on_its_default(tmp_path):
    table = load_policy(written(tmp_path / "t.json", TABLE))
    states = rows([0, 1], [1, 0], [5, 5])
    assert table.scores(states).tolist() == [[1, 2.5], [1, 0], [0, 1]]
    assert table.choose(states).tolist() == [1, 0, 1]
    assert table.choose(states, np.array([[True, False], [False, True], [False, False]])).tolist() == [0, 1, -1]
    assert choose_label(table, {"x": 0, "on": True, "other": 9}) == "b"
    assert choose_label(table, {"x": 0, "on": True}, {"a"}) == "a"
    assert choose_label(table, {"x": 0, "on": True}, set()) is None


def test_a_saved_table_is_the_same_table(tmp_path):
    table = load_policy(written(tmp_path / "t.json", TABLE))
    save_policy(table, tmp_path / "u.json")
    again = load_policy(tmp_path / "u.json")
    assert (again.inputs, again.outputs, again.default) == (table.inputs, table.outputs, table.default)
    assert dict(again.rows) == dict(table.rows)


def test_a_state_without_row_and_default_is_an_input_error_that_shows_it(tmp_path):
    table = load_policy(written(tmp_path / "t.json", {k: v for k, v in TABLE.items() if k != "default"}))
    with pytest.raises(InputError, match="x=7, on=0"):
        table.choose(rows([7, 0]))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rows": [{"state": {"x": 0}, "action": "a"}]}, r"rows\[0\].state: the value of 'on' is missing"),
        ({"rows": [{"state": {"x": 0, "on": 1, "z": 2}, "action": "a"}]}, "'z' is not an input"),
        ({"rows": [{"state": {"x": 0, "on": 1}, "action": "c"}]}, r"rows\[0\].action: 'c' is not an output"),
        ({"rows": [{"state": {"x": 0, "on": 1}, "scores": [1]}]}, "list of 2 numbers"),
        ({"rows": [{"state": {"x": 0, "on": 1}, "scores": [1, "2"]}]}, r"scores\[1\]"),
        ({"rows": [{"state": {"x": 0, "on": 1}}]}, "either 'scores' or an 'action'"),
        ({"rows": [{"state": {"x": 0, "on": 1}, "action": "a"}] * 2}, r"rows\[1\]: this state has two rows"),
        (
            {"rows": [{"state": {"x": 2**31 - k, "on": 1}, "action": "a"} for k in (1, 2)]},
            r"rows\[1\]: .*x=2147483648.* in float32",
        ),
        ({"rows": [{"state": {"x": 10**39, "on": 1}, "action": "a"}]}, r"rows\[0\].state.x: the number is too large"),
        ({"rows": 3}, "'rows' must be a list"),
        ({"inputs": ["x", "x"]}, "'x' stands twice"),
        ({"outputs": []}, "'outputs' must be a list"),
        ({"default": "z"}, "default: 'z' is not an output"),
    ],
)
def test_a_wrong_table_names_the_place(change, words, tmp_path):
    with pytest.raises(InputError, match=words):
        load_policy(written(tmp_path / "t.json", TABLE | change))


def test_the_first_rule_that_matches_wins(tmp_path):
    document = {
        "format": "rules/1",
        "rules": [
            {"when": "x >= 3", "action": "up"},
            {"when": "y < 0", "action": "down"},
            {"when": "true", "action": "up"},
        ],
    }
    policy = load_policy(written(tmp_path / "r.json", document), parse_condition=parse)
    assert isinstance(policy, Rules)
    assert (policy.inputs, policy.outputs) == (("x", "y"), ("up", "down"))
    states = rows([5, -1], [0, -1], [0, 0])
    assert policy.choose(states).tolist() == [0, 1, 0]
    assert policy.choose(states, np.array([[False, True]] * 3)).tolist() == [1, 1, 1]
    save_policy(policy, tmp_path / "s.json")
    assert json.loads((tmp_path / "s.json").read_text()) == document
    wider = load_policy(tmp_path / "r.json", ["y", "z", "x"], ["down", "up"], parse_condition=parse)
    assert wider.choose(rows([-1, 0, 0])).tolist() == [0]


def test_conditions_see_whole_numbers_as_integers_and_booleans_as_truth_values(tmp_path):
    document = {
        "format": "rules/1",
        "rules": [{"when": "x // 2 == 1 and on is True", "action": "a"}, {"when": "true", "action": "b"}],
    }
    written(tmp_path / "r.json", document)
    given = {"inputs": ["x", "on"], "outputs": ["a", "b"]}
    with_kinds = load_policy(
        tmp_path / "r.json", parse_condition=lambda t, w: Fixed(t, ("x", "on")), booleans=["on"], **given
    )
    assert with_kinds.choose(rows([3, 1], [3, 0])).tolist() == [0, 1]


@dataclass(frozen=True)
class Fixed(Comparison):
    """A comparison with its variables stated."""

    names: tuple = ()

    @property
    def variables(self):
        return self.names


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ([{"when": "x ? 3", "action": "a"}], r"rules\[0\].when"),
        ([{"when": "x > 3"}], r"rules\[0\]: a rule is an object"),
        ([], "at least one rule"),
    ],
)
def test_a_wrong_rule_names_the_place(rules, words, tmp_path):
    path = written(tmp_path / "r.json", {"format": "rules/1", "rules": rules})
    with pytest.raises(InputError, match=words):
        load_policy(path, parse_condition=parse)


def test_a_state_that_no_rule_matches_is_shown(tmp_path):
    path = written(tmp_path / "r.json", {"format": "rules/1", "rules": [{"when": "x > 3", "action": "a"}]})
    policy = load_policy(path, parse_condition=parse)
    with pytest.raises(InputError, match="no rule matches x=1"):
        policy.choose(rows([1]))
    with pytest.raises(InputError, match="read 'x'"):
        load_policy(path, ["y"], ["a"], parse_condition=parse)
    with pytest.raises(InputError, match="'a' is not among the outputs"):
        load_policy(path, ["x"], ["b"], parse_condition=parse)


def test_rules_are_read_in_the_models_own_language(tmp_path):
    pytest.importorskip("polvet.model.infix")
    rules = [
        {"when": "x >= 3 && !crashed", "action": "go"}, {"when": "x % 2 == 1", "action": "turn"}, {"when": "true", "action": "stay"},
    ]  # fmt: skip
    policy = load_policy(
        written(tmp_path / "r.json", {"format": "rules/1", "rules": rules}), ["x", "crashed"], booleans=["crashed"]
    )
    assert policy.outputs == ("go", "turn", "stay")
    assert policy.choose(rows([3, 0], [3, 1], [2, 1])).tolist() == [0, 1, 2]
    for when, words in (("x >", r"rules\[0\]"), ('car.location == "a"', "within a model")):
        path = written(tmp_path / "s.json", {"format": "rules/1", "rules": [{"when": when, "action": "go"}]})
        with pytest.raises(InputError, match=words):
            load_policy(path)
    number = load_policy(
        written(tmp_path / "n.json", {"format": "rules/1", "rules": [{"when": "x + 1", "action": "go"}]})
    )
    with pytest.raises(InputError, match="neither true nor false"):
        number.choose(rows([1]))


def test_a_function_may_answer_a_label_or_scores():
    by_label = CallablePolicy(("x",), ("a", "b"), lambda state: "b" if state["x"] == 2 else "a")
    by_scores = CallablePolicy(("x",), ("a", "b"), lambda state: [0.5, state["x"] / 4])
    states = rows([1], [2], [3])
    assert by_label.choose(states).tolist() == [0, 1, 0]
    assert by_scores.choose(states).tolist() == [0, 0, 1]


def test_a_function_that_answers_nonsense_is_named():
    with pytest.raises(InputError, match="'up', which is not one of its labels"):
        CallablePolicy(("x",), ("a",), lambda state: "up").choose(rows([1]))
    with pytest.raises(InputError, match="scores of shape"):
        CallablePolicy(("x",), ("a",), lambda state: [1, 2]).choose(rows([1]))
    with pytest.raises(InputError, match="not a number"):
        CallablePolicy(("x",), ("a",), lambda state: [float("nan")]).choose(rows([1]))


def test_a_missing_variable_of_a_state_is_named():
    policy = CallablePolicy(("speed",), ("a",), lambda state: "a")
    with pytest.raises(InputError, match="Did you mean"):
        choose_label(policy, {"sped": 3})
    assert str(Where("t"))
