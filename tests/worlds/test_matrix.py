"""Matrices as worlds: values against linear algebra and against stormpy."""

from fractions import Fraction

import numpy as np
import pytest

import polvet
from polvet.errors import InputError

WALK = np.zeros((2, 5, 5))
for s in range(1, 4):
    WALK[0, s, s - 1] = 1
    WALK[1, s, [s - 1, s + 1]] = 1 / 3, 2 / 3


def test_a_matrix_has_the_probability_that_a_linear_system_gives():
    task = polvet.from_matrix(WALK[1:], labels=["right"], start=[2], fail=[0], goal=[4])
    inner = np.eye(3) - WALK[1, 1:4, 1:4]
    wanted = np.linalg.solve(inner, WALK[1, 1:4, 4])[1]
    found = task.check("Pmax=? [F goal]", exact=True).exact
    assert found == Fraction(4, 5)
    assert float(found) == pytest.approx(wanted)


def test_rows_of_zeros_are_actions_that_are_not_applicable():
    task = polvet.from_matrix({"left": WALK[0], "right": WALK[1]}, start=[1, 2, 3], fail="s == 0")
    assert task.labels == ("left", "right")
    assert task.explore().deadlocks == 2
    assert task.decide().figures["unsafe"] == 3, "the wind may always blow to the left"


def test_sparse_matrices_and_features_say_the_same_as_dense_ones():
    sparse = pytest.importorskip("scipy.sparse")
    values = {"far": [0, 1, 2, 3, 4]}
    tasks = [
        polvet.from_matrix(given, features=values, start=[2], goal="far == 4")
        for given in (WALK, [sparse.csr_matrix(one) for one in WALK], [sparse.coo_array(one) for one in WALK])
    ]
    assert len({task.check("Pmax=? [F goal]", exact=True).exact for task in tasks}) == 1
    assert len({task.digest for task in tasks}) == 1


def test_a_model_of_stormpy_has_the_value_that_stormpy_finds(tmp_path):
    stormpy = pytest.importorskip("stormpy")
    text = """mdp
    module walk
      x : [0..4] init 2;
      [left] x > 0 & x < 4 -> (x' = x - 1);
      [right] x > 0 & x < 4 -> 1/3 : (x' = x - 1) + 2/3 : (x' = x + 1);
    endmodule
    label "top" = x = 4;
    """
    (tmp_path / "walk.prism").write_text(text)
    program = stormpy.parse_prism_program(str(tmp_path / "walk.prism"))
    properties = stormpy.parse_properties('Pmax=? [F "top"]', program)
    model = stormpy.build_model(program, properties)
    wanted = stormpy.model_checking(model, properties[0]).get_value(model.initial_states[0])
    task = polvet.from_matrix(model, goal="top == 1")
    assert task.check("Pmax=? [F goal]").value == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("given", "more", "says"),
    [
        (np.zeros((1, 2, 3)), {}, "one square matrix per action"),
        ([], {}, "one square matrix per action"),
        (np.eye(3), {}, "not two-dimensional"),
        (0.5 * np.ones((1, 3, 3)), {}, "not a distribution"),
        (-np.eye(2)[None], {}, "no probability"),
        (np.eye(2)[None], {"labels": ["a", "b"]}, "1 matrices and 2 labels"),
        ({"a": np.eye(2)}, {"labels": ["a"]}, "labels are given too"),
        (np.eye(2)[None], {"start": [7]}, "start"),
    ],
)
def test_what_is_no_matrix_is_refused(given, more, says):
    with pytest.raises(InputError, match=says):
        polvet.from_matrix(given, **more)
