"""check_policy finds each broken law, and passes what obeys them all."""

import itertools

import numpy as np
import pytest

from polvet.model.build import ModelBuilder
from polvet.policy import CallablePolicy, Table, TreeEnsemble, check_policy
from polvet.policy.networks import network_of
from polvet.policy.trees import make_tree


class Honest:
    """A policy made of two functions, to break one law at a time."""

    inputs = ("x",)
    outputs = ("a", "b")

    def scores(self, rows):
        return np.concatenate([rows, 3 - rows], axis=1).astype(np.float32)

    def choose(self, rows, applicable=None):
        scores = self.scores(rows)
        allowed = np.ones(scores.shape, dtype=bool) if applicable is None else np.asarray(applicable)
        best = np.where(allowed, scores, -np.inf).argmax(axis=1)
        return np.where(allowed.any(axis=1), best, -1).astype(np.int32)


def laws(policy, **options):
    return " | ".join(str(broken) for broken in check_policy(policy, **options))


def test_honest_policies_break_no_law():
    stump = make_tree(1, [0, -1, -1], [0.5, 0, 0], [1, -1, -1], [2, -1, -1], [0, -1, 1])
    for policy in (
        Honest(),
        network_of([([[0.3], [-0.7]], [0.1, 0.2])], ["x"], ["a", "b"]),
        TreeEnsemble(("x",), ("a", "b"), (stump,), (0.0, 0.0)),
        Table(("x",), ("a", "b"), {(1.0,): (0.0, 2.0)}, 0),
        CallablePolicy(("x",), ("a", "b"), lambda state: "b"),
    ):
        assert check_policy(policy) == ()
        assert check_policy(policy, labels=("b", "a"), variables=("y", "x")) == ()


def test_labels_and_variables_that_the_model_lacks_are_named():
    assert "output 'b' is not in the model" in laws(Honest(), labels=("a",))
    assert "input 'x' is not in the model" in laws(Honest(), variables=("y",))


def test_chance_is_found():
    class Random(Honest):
        draws = itertools.count()

        def scores(self, rows):
            return super().scores(rows) + next(self.draws)

    assert "second time" in laws(Random())


def test_dependence_on_company_and_on_order_is_found():
    class Normalising(Honest):
        def scores(self, rows):
            return super().scores(rows - rows.mean())

    class Counting(Honest):
        def scores(self, rows):
            return super().scores(rows) + np.arange(len(rows), dtype=np.float32)[:, None]

    assert "alone" in laws(Normalising())
    assert "order of rows" in laws(Counting())


@pytest.mark.parametrize(
    ("choose", "words"),
    [
        (lambda self, rows, applicable=None: np.zeros(len(rows), dtype=np.int32), "raw choice"),
        (lambda self, rows, applicable=None: Honest.choose(self, rows), "filtered choice"),
        (lambda self, rows, applicable=None: np.zeros((len(rows), 1)), "shape"),
    ],
)
def test_a_choice_that_is_not_the_best_score_is_found(choose, words):
    broken = type("Broken", (Honest,), {"choose": choose})
    assert words in laws(broken())


def test_ties_must_go_to_the_lowest_index():
    class Last(Honest):
        def scores(self, rows):
            return np.ones((len(rows), 2), dtype=np.float32)

        def choose(self, rows, applicable=None):
            right = Honest.choose(self, rows, applicable)
            return np.where(right == 0, 1, right) if applicable is None else right

    assert "ties to the lowest" in laws(Last())


def test_wrong_shapes_types_and_nan_are_found():
    wide = type("Wide", (Honest,), {"scores": lambda self, rows: np.ones((len(rows), 3), dtype=np.float32)})
    whole = type("Whole", (Honest,), {"scores": lambda self, rows: np.ones((len(rows), 2), dtype=np.int64)})
    nan = type("Nan", (Honest,), {"scores": lambda self, rows: np.full((len(rows), 2), np.nan, dtype=np.float32)})
    assert "shape" in laws(wide())
    assert "int64" in laws(whole())
    assert "not a number" in laws(nan())


def test_a_library_that_disagrees_is_found_and_one_within_the_rounding_bound_is_not():
    network = network_of([(np.random.default_rng(0).normal(size=(3, 6)), [0.1, 0.2, 0.3])])
    weights, bias = network.layers[0].weights, network.layers[0].bias
    assert laws(network, library=lambda rows: rows @ weights.T + bias) == ""
    assert "library" in laws(network, library=lambda rows: rows @ weights.T + bias + np.float32(0.01))
    assert "library" in laws(network, library=lambda rows: (rows @ weights.T)[:, :2])


def walk(*labels):
    m = ModelBuilder("walk")
    x = m.int("x", 0, 9, initial=2)
    for step, label in enumerate(labels):
        m.edge(label, guard=x <= 9 - step, to={"x": x + step})
    return m.task(fail=x == 9)


def test_a_policy_is_checked_against_a_task_on_its_states():
    seen = []
    policy = CallablePolicy(("x",), ("a", "b"), lambda state: seen.append(state["x"]) or [state["x"], 1])
    assert check_policy(policy, walk("a", "b")) == ()
    assert set(seen) == set(range(2, 10))
    assert "'b'" in laws(policy, task=walk("a", "c"))
    assert "'y'" in laws(CallablePolicy(("y",), ("a", "b"), lambda state: "a"), task=walk("a", "b"))


def test_a_law_broken_only_in_states_of_the_task_is_found():
    class Late(Honest):
        def scores(self, rows):
            return np.where(rows == 9, np.nan, super().scores(rows)).astype(np.float32)

    assert check_policy(Late(), rows=[[0], [3]]) == ()
    assert "not a number (row [9.0])" in laws(Late(), task=walk("a", "b"))
