"""The checker's bounds of units against exact fractions and mpmath: what float64 loses is rounded outwards, and that is needed."""

from fractions import Fraction

import numpy as np
import pytest

from polvet.check import unit_bounds
from polvet.check.unit_bounds import UnitBounds
from polvet.policy.tape import Tape
from polvet.policy.unit_graph import Affine, Product, Unit
from polvet.policy.units import UNITS

STRAIGHT = ("clip", "abs", "leaky")


def straight_graph(rng):
    """Affine maps with weights of very different sizes that nearly cancel, piecewise linear units, residuals, products."""
    tape = Tape(2)
    columns = np.arange(2)
    for _ in range(rng.integers(1, 4)):
        width = int(rng.integers(2, 6))
        weights = rng.normal(size=(width, len(columns))) * 2.0 ** rng.integers(-20, 20, (width, len(columns)))
        made = tape.affine(columns, weights.astype(np.float32), rng.normal(size=width).astype(np.float32))
        kind = rng.integers(0, 4)
        if kind == 0:
            made = tape.unit("abs", made)
        elif kind == 1:
            made = tape.unit("clip", made, -float(rng.integers(0, 2)), 2.0 ** int(rng.integers(0, 9)))
        elif kind == 2:
            made = tape.unit("leaky", made, 0.25)
        else:
            made = tape.product(made, made[::-1])
        columns = np.concatenate([made, columns])
    last = (rng.normal(size=(3, len(columns))) * 2.0 ** rng.integers(-9, 9, (3, len(columns)))).astype(np.float32)
    last[1] = last[0] + last[1] * np.float32(2.0**-24)  # scores that nearly tie
    return tape.policy(tape.affine(columns, last), None, None)


def exact_scores(graph, point):
    """The scores in real arithmetic."""
    tape = [Fraction(float(x)) for x in point]
    for node in graph.nodes:
        if isinstance(node, Affine):
            rows = [node.columns] * node.size if node.is_shared else node.columns
            tape += [
                Fraction(float(node.bias[j]))
                + sum(Fraction(float(w)) * tape[c] for w, c in zip(node.weights[j], rows[j], strict=True))
                for j in range(node.size)
            ]
        elif isinstance(node, Product):
            tape += [tape[p] * tape[q] for p, q in zip(node.left, node.right, strict=True)]
        else:
            tape += [unit_value(node, j, tape[c]) for j, c in enumerate(node.columns)]
    return [tape[c] for c in graph.score_columns]


def unit_value(node: Unit, j, x):
    if node.name == "abs":
        return abs(x)
    a, b = node.a[j], node.b[j]
    if node.name == "leaky":
        return x if x > 0 else Fraction(float(a)) * x
    low = x if np.isneginf(a) else max(x, Fraction(float(a)))
    return low if np.isposinf(b) else min(low, Fraction(float(b)))


def wrong_bounds(monkeypatch, count, outward=None, seed=0):
    """How many bounds of random graphs are wrong in real arithmetic, with all that float32 may lose left out."""
    monkeypatch.setattr(unit_bounds, "_UNIT", 0.0)
    monkeypatch.setattr(unit_bounds, "_PRODUCT", 0.0)
    monkeypatch.setattr(unit_bounds, "enclosure_of", lambda kind, size, *rest: np.zeros_like(size))
    if outward == 0:
        monkeypatch.setattr(unit_bounds, "_FUNCTION", 0.0)
    rng = np.random.default_rng(seed)
    wrong = asked = 0
    for _ in range(count):
        graph = straight_graph(rng)
        bounds = UnitBounds(graph, range(len(graph.inputs)), len(graph.inputs))
        if outward is not None:
            bounds.outward = outward
        centre = rng.integers(-50, 50, (3, 2)) / 8.0
        width = rng.integers(0, 3, (3, 2)) * 2.0 ** rng.integers(-20, 1, (3, 2))
        lower, upper = centre, (centre + width).astype(np.float32).astype(np.float64)
        low, high = bounds.scores(lower, upper)
        beaten = bounds.beaten(lower, upper)
        for k in range(3):
            for share in (0.0, 0.5, 1.0):
                point = (lower[k] + (upper[k] - lower[k]) * share).astype(np.float32)
                if not ((point >= lower[k]) & (point <= upper[k])).all():
                    continue
                scores = exact_scores(graph, point)
                asked += 1
                inside = all(
                    (np.isneginf(low[k, j]) or Fraction(float(low[k, j])) <= score)
                    and (np.isposinf(high[k, j]) or score <= Fraction(float(high[k, j])))
                    for j, score in enumerate(scores)
                )
                order = all(scores[r] > scores[o] for o in range(3) for r in range(3) if beaten[k, o, r])
                wrong += not (inside and order)
    return wrong, asked


def test_bounds_contain_the_exact_scores_by_their_outward_rounding_alone(monkeypatch):
    wrong, asked = wrong_bounds(monkeypatch, 60)
    assert asked > 300
    assert wrong == 0


def test_without_outward_rounding_some_of_these_bounds_are_wrong(monkeypatch):
    wrong, _ = wrong_bounds(monkeypatch, 60, outward=0)
    assert wrong > 0, "the test above could not fail"


@pytest.mark.parametrize("name", [name for name in UNITS if name not in (*STRAIGHT, "equal", "hard_swish")])
def test_units_and_their_derivatives_are_computed_within_the_reserve(name):
    """In units of what is added: `_FUNCTION` of 1, the value and the argument."""
    mpmath = pytest.importorskip("mpmath")
    mpmath.mp.dps = 40
    true = {
        "tanh": mpmath.tanh, "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)), "erf": mpmath.erf, "exp": mpmath.exp,
        "softsign": lambda x: x / (1 + abs(x)), "softplus": lambda x: mpmath.log(1 + mpmath.exp(x)),
        "silu": lambda x: x / (1 + mpmath.exp(-x)), "gelu": lambda x: x * mpmath.ncdf(x),
        "gelu_tanh": lambda x: x / 2 * (1 + mpmath.tanh(mpmath.sqrt(2 / mpmath.pi) * (x + mpmath.mpf("0.044715") * x**3))),
        "mish": lambda x: x * mpmath.tanh(mpmath.log(1 + mpmath.exp(x))),
        "elu": lambda x: x if x > 0 else mpmath.exp(x) - 1, "square": lambda x: x * x, "sqrt": mpmath.sqrt,
        "reciprocal": lambda x: 1 / x,
    }[name]  # fmt: skip
    rng = np.random.default_rng(2)
    points = np.concatenate([rng.normal(scale=s, size=60) for s in (1e-6, 0.3, 1.0, 5.0, 20.0)])
    if name in ("sqrt", "reciprocal"):
        points = np.abs(points) + 1e-3
    ones = np.ones_like(points)
    values, slopes = UNITS[name].value(points, ones, ones), UNITS[name].slope(points, ones, ones)
    for x, value, slope in zip(points.tolist(), values.tolist(), slopes.tolist(), strict=True):
        exact, steep = true(mpmath.mpf(x)), mpmath.diff(true, mpmath.mpf(x), h=mpmath.mpf(10) ** -15)
        assert abs(exact - value) <= unit_bounds._FUNCTION / 4 * (1 + abs(exact))
        assert abs(steep - slope) <= unit_bounds._FUNCTION / 4 * (1 + abs(steep)) + 1e-13
