"""Units: the kernel's table is the Python table, slopes and lines hold at every sample, and every graph equals its twins."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polvet import _core
from polvet.check.unit_bounds import UnitBounds
from polvet.policy.networks import Network, network_of
from polvet.policy.rounding import near_ties, possible_choices, rounding_bounds
from polvet.policy.tape import Tape
from polvet.policy.unit_graph import Affine, Product, UnitGraph, reference_scores
from polvet.policy.units import UNITS, enclosure_of
from tests.policy.graphs import random_graph

PARAMETERS = {"clip": (-1.0, 2.0), "leaky": (0.1, 0.0), "equal": (2.0, -1.0), "elu": (1.6, 1.05)}
POSITIVE = ("sqrt", "reciprocal")
NAMES = sorted(UNITS)


def values_of(name, x):
    a, b = PARAMETERS.get(name, (0.0, 0.0))
    return UNITS[name].value(np.asarray(x, dtype=np.float64), a, b)


@pytest.mark.parametrize("name", NAMES)
def test_the_two_tables_agree(name):
    x = np.concatenate([np.linspace(-12, 12, 2001), np.linspace(-80, 80, 301)])
    x = np.abs(x) + 0.01 if name in POSITIVE else x
    kernel = np.array([_core.unit_value(name, float(t), *PARAMETERS.get(name, (0.0, 0.0))) for t in x])
    expected = values_of(name, x)
    assert (np.abs(kernel - expected) <= 2.0**-48 * np.maximum(1, np.abs(expected))).all()


@pytest.mark.parametrize("name", [name for name in NAMES if name != "equal"])
def test_the_derivative_is_that_of_the_value(name):
    x = np.linspace(-9.3, 9.4, 4001)
    x = np.abs(x) + 0.3 if name in POSITIVE else x
    a, b = PARAMETERS.get(name, (0.0, 0.0))
    step = 1e-5
    rise = (values_of(name, x + step) - values_of(name, x - step)) / (2 * step)
    smooth = np.min([np.abs(x - t) for t in (*UNITS[name].turns, a, b, 0.0)], axis=0) > 1e-3
    slope = np.broadcast_to(UNITS[name].slope(x, a, b), x.shape)
    assert (np.abs(rise - slope)[smooth] <= 1e-6 * np.maximum(1, np.abs(slope[smooth]))).all()


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(NAMES), st.floats(-9, 9), st.floats(0, 12), st.randoms(use_true_random=False))
def test_slopes_and_lines_hold_everywhere_in_the_interval(name, low, width, random):
    if name in POSITIVE:
        low = abs(low) + 0.05
    high = low + width
    a, b = PARAMETERS.get(name, (0.0, 0.0))
    x = np.sort([low, high, *(random.uniform(low, high) for _ in range(200))])
    f = values_of(name, x)
    below, under, above, over, least, most = _core.unit_lines(name, low, high, a, b)
    assert (above * x + over >= f).all()
    assert (below * x + under <= f).all()
    assert least <= f.min()
    assert most >= f.max()
    flat, steep = _core.unit_slopes(name, low, high, a, b)
    run = np.diff(x)
    apart = run > 1e-5
    rise = np.diff(f)[apart] / run[apart]
    room = 1e-9 * np.maximum(1, np.abs(f).max())
    assert (rise <= steep + room).all()
    assert (rise >= flat - room).all()


def test_lines_are_close_where_the_interval_is_short():
    for name in ("tanh", "sigmoid", "gelu", "silu", "softplus", "mish", "elu", "erf"):
        a, b = PARAMETERS.get(name, (0.0, 0.0))
        for middle in (-3.0, -0.7, 0.4, 2.0):
            below, under, above, over, *_ = _core.unit_lines(name, middle - 0.25, middle + 0.25, a, b)
            assert 0 <= (above - below) * middle + over - under < 0.06


def rows_of(rng, count, width):
    rows = rng.integers(-6, 9, size=(count, width)).astype(np.float32)
    rows[: count // 3] = rng.normal(size=(count // 3, width))
    return rows


@pytest.mark.parametrize("seed", range(60))
def test_the_kernel_is_the_slow_twin_within_the_bound_alone_and_in_a_batch(seed):
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, ["x", "y", "z"], ["a", "b", "c"])
    rows = rows_of(rng, 37, 3)
    scores = graph.scores(rows)
    bounds = rounding_bounds(graph, rows)
    assert (np.abs(scores - reference_scores(graph, rows)) <= bounds).all() if isinstance(graph, UnitGraph) else True
    assert np.array_equal(np.concatenate([graph.scores(row[None]) for row in rows]), scores)
    _core.use_portable_network_kernel(True)
    try:
        assert np.array_equal(graph.scores(rows), scores)
    finally:
        _core.use_portable_network_kernel(False)


def another_evaluation(graph, rows, rng):
    """Sums in a random order, units anywhere in nine tenths of their enclosure: what some library might compute."""
    tape = rows.astype(np.float32)
    for node in graph.nodes:
        if isinstance(node, Affine):
            made = np.zeros((len(tape), node.size), dtype=np.float32)
            for j in range(node.size):
                columns = node.columns if node.is_shared else node.columns[j]
                parts = [tape[:, c] * w for c, w in zip(columns, node.weights[j], strict=True)]
                parts.append(np.full(len(tape), node.bias[j], dtype=np.float32))
                acc = np.zeros(len(tape), dtype=np.float32)
                for k in rng.permutation(len(parts)):
                    acc = acc + parts[k]
                made[:, j] = acc
        elif isinstance(node, Product):
            made = tape[:, node.left] * tape[:, node.right]
        else:
            x, kind = tape[:, node.columns].astype(np.float64), UNITS[node.name]
            a, b = (np.broadcast_to(p.astype(np.float64), x.shape) for p in (node.a, node.b))
            f = np.broadcast_to(kind.value(x, a, b), x.shape)
            room = 0.9 * np.broadcast_to(enclosure_of(kind, np.abs(x), np.abs(f), a, b), x.shape)
            made = (f + room * rng.choice([-1.0, 1.0], size=x.shape)).astype(np.float32)
            made = f.astype(np.float32) if kind.enclosure in ("exact", "rounded") else made
        tape = np.concatenate([tape, made], axis=1)
    return tape[:, graph.score_columns]


@pytest.mark.parametrize("seed", range(60))
def test_every_evaluation_is_within_the_rounding_bound_and_chooses_what_is_possible(seed):
    rng = np.random.default_rng(1000 + seed)
    graph = random_graph(rng, ["x", "y", "z"], ["a", "b", "c"])
    if not isinstance(graph, UnitGraph):
        return
    rows = rows_of(rng, 60, 3)
    scores, bounds = graph.scores(rows), rounding_bounds(graph, rows)
    other = another_evaluation(graph, rows, rng)
    assert (np.abs(other.astype(np.float64) - scores) <= bounds).all()
    possible = possible_choices(graph, rows)
    assert possible[np.arange(len(rows)), other.argmax(axis=1)].all()
    ties = near_ties(graph, rows)
    assert np.array_equal(ties, possible.sum(axis=1) > 1)
    coarse = np.array([graph.kernel.coarse_bound(float(np.abs(row).max())) for row in rows])
    assert (bounds <= coarse[:, None] * (1 + 1e-6)).all()


def test_a_straight_graph_of_small_whole_numbers_has_no_near_ties():
    tape = Tape(2)
    hidden = tape.unit("clip", tape.affine([0, 1], [[1, -1], [2, 0.5]], [0.5, -1]), -2.0, 6.0)
    graph = tape.policy(tape.total([tape.affine(hidden, [[1, 1], [1, 1]]), hidden], [1.0, 1.0]), None, None)
    rows = np.array([[3, 1], [0, 0]], dtype=np.float32)
    assert isinstance(graph, UnitGraph)
    assert (rounding_bounds(graph, rows) == 0).all()


def test_a_chain_with_relu_is_the_network_it_always_was():
    rng = np.random.default_rng(3)
    sizes = ((5, 3), 5, (2, 5), 2)
    one, two, three, four = (rng.normal(size=size).astype(np.float32) for size in sizes)
    layers = [(one, two), (three, four)]
    tape = Tape(3)
    hidden = tape.relu(tape.affine(np.arange(3), *layers[0]))
    made = tape.policy(tape.affine(hidden, *layers[1]), None, None)
    rows = rows_of(rng, 20, 3)
    assert isinstance(made, Network)
    assert np.array_equal(made.scores(rows), network_of(layers).scores(rows))


@pytest.mark.parametrize("seed", range(40))
def test_the_checkers_bounds_hold_at_every_sample(seed):
    rng = np.random.default_rng(2000 + seed)
    graph = random_graph(rng, ["x", "y", "z"], ["a", "b", "c"])
    if not isinstance(graph, UnitGraph):
        return
    lower = rng.integers(-5, 5, size=(12, 3)).astype(np.float64)
    upper = lower + rng.integers(0, 3, size=(12, 3))
    bounds = UnitBounds(graph, [0, 1, 2], 3)
    beaten = bounds.beaten(lower, upper)
    for k in range(len(lower)):
        points = rng.integers(lower[k], upper[k] + 1, size=(200, 3)).astype(np.float32)
        for scores in (graph.scores(points), another_evaluation(graph, points, rng)):
            below = scores[:, :, None] < scores[:, None, :]
            assert below[:, beaten[k]].all()
        single = bounds.losers(0, [1, 2], lower[k : k + 1], upper[k : k + 1], ())[0][0]
        assert np.array_equal(single, beaten[k, 0, 1:])
    points = rng.integers(-5, 5, size=(60, 3)).astype(np.float64)
    sure = ~near_ties(graph, points.astype(np.float32))
    told = bounds.beaten(points, points)
    choice = graph.choose(points.astype(np.float32))
    decided = np.array([told[k, [o for o in range(3) if o != choice[k]]].any(axis=1).all() for k in range(60)])
    assert decided[sure].mean() > 0.6  # bounds over single points tell nearly as much as the point itself


LIBRARY = {
    "tanh": ("Tanh", "tanh"), "sigmoid": ("Sigmoid", "sigmoid"), "erf": ("Erf", "erf"), "softsign": ("Softsign", "nn.functional.softsign"),
    "softplus": ("Softplus", "nn.functional.softplus"), "silu": (None, "nn.functional.silu"), "gelu": (None, "nn.functional.gelu"),
    "mish": (None, "nn.functional.mish"), "hard_swish": ("HardSwish", "nn.functional.hardswish"), "exp": ("Exp", "exp"),
}  # fmt: skip


@pytest.mark.parametrize("name", LIBRARY)
def test_libraries_stay_within_the_enclosure(name):
    """torch and onnxruntime on floats of all sizes, in batches of all lengths: vectors have tails."""
    from operator import attrgetter

    rng = np.random.default_rng(17)
    x = np.concatenate([rng.normal(size=40_000), rng.uniform(-90, 80, 20_000), np.exp2(rng.uniform(-30, 6, 20_000))])
    x = (x * rng.choice([-1, 1], len(x))).astype(np.float32)
    x = np.minimum(x, np.float32(60)) if name == "exp" else x
    truth = values_of(name, x)
    room = np.broadcast_to(enclosure_of(UNITS[name], np.abs(x.astype(np.float64)), np.abs(truth), 0.0, 0.0), x.shape)
    operator, function = LIBRARY[name]
    found = []
    torch = pytest.importorskip("torch")
    apply = attrgetter(function)(torch)
    with torch.no_grad():
        found.append(apply(torch.from_numpy(x)).numpy())
        found.append(np.concatenate([apply(torch.from_numpy(part)).numpy() for part in np.array_split(x, 5000)]))
    if operator is not None:
        onnx, ort = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
        value = onnx.helper.make_tensor_value_info
        graph = onnx.helper.make_graph(
            [onnx.helper.make_node(operator, ["x"], ["y"])], "g", [value("x", 1, ["n"])], [value("y", 1, ["n"])]
        )
        made = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
        made.ir_version = 8
        session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
        found.append(session.run(None, {"x": x})[0])
        found.append(np.concatenate([session.run(None, {"x": part})[0] for part in np.array_split(x, 5000)]))
    for theirs in found:
        assert (np.abs(theirs.astype(np.float64) - truth) <= room).all()
