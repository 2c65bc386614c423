"""Networks with float64 weights: within the bounds of what onnxruntime and scikit-learn compute, and never unsafe by a near tie."""

from itertools import pairwise

import numpy as np
import pytest

import polvet
from polvet.policy import load_policy, near_ties, rounding_bounds, save_policy
from polvet.policy.unit_graph import UnitGraph, reference_scores
from tests.repair.test_sklearn import FREE, LABELS, failing, grid, predicted, teacher

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


def double_model(layers, unit, *, cast=False, softmax=False):
    """An ONNX chain of float64 layers; with `cast`, the input is float32 and the output, too."""
    kinds = onnx.TensorProto
    outside = kinds.FLOAT if cast else kinds.DOUBLE
    nodes, constants, value = [], [], "x"
    if cast:
        nodes.append(onnx.helper.make_node("Cast", ["x"], ["wide"], to=kinds.DOUBLE))
        value = "wide"
    for k, (weights, bias) in enumerate(layers):
        constants += [onnx.numpy_helper.from_array(weights, f"w{k}"), onnx.numpy_helper.from_array(bias, f"b{k}")]
        nodes.append(onnx.helper.make_node("Gemm", [value, f"w{k}", f"b{k}"], [f"h{k}"], transB=1))
        value = f"h{k}"
        if k + 1 < len(layers):
            nodes.append(onnx.helper.make_node(unit, [value], [f"u{k}"]))
            value = f"u{k}"
    nodes.append(
        onnx.helper.make_node("Cast" if cast else "Identity", [value], ["y"], **({"to": kinds.FLOAT} if cast else {}))
    )
    graph = onnx.helper.make_graph(
        nodes, "g", [onnx.helper.make_tensor_value_info("x", outside, ["n", layers[0][0].shape[1]])],
        [onnx.helper.make_tensor_value_info("y", outside, ["n", len(layers[-1][1])])], constants,
    )  # fmt: skip
    made = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)])
    made.ir_version = 8
    return made.SerializeToString()


def theirs(data, rows):
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    kind = np.float64 if "double" in session.get_inputs()[0].type else np.float32
    return session.run(None, {"x": rows.astype(kind)})[0].astype(np.float64)


def random_layers(rng, sizes):
    layers = [(rng.normal(size=(m, n)), rng.normal(size=m)) for n, m in pairwise(sizes)]
    weights = layers[0][0]
    weights[rng.random(weights.shape) < 0.15] *= 1e-42  # below what float32 holds in full
    weights[rng.random(weights.shape) < 0.1] *= 1e-200
    return layers


@pytest.mark.parametrize("cast", [False, True])
@pytest.mark.parametrize("unit", ["Relu", "Tanh", "Sigmoid"])
def test_scores_are_within_the_bounds_of_onnxruntimes_float64(unit, cast, tmp_path):
    rng = np.random.default_rng(7)
    for sizes in ((2, 3), (3, 8, 4), (4, 16, 16, 3)):
        data = double_model(random_layers(rng, sizes), unit, cast=cast)
        (tmp_path / "p.onnx").write_bytes(data)
        policy = load_policy(tmp_path / "p.onnx")
        assert isinstance(policy, UnitGraph)
        assert policy.narrowed
        rows = np.concatenate([rng.normal(size=(200, sizes[0])), rng.integers(-9, 9, (200, sizes[0]))]).astype(
            np.float32
        )
        bounds = rounding_bounds(policy, rows)
        assert (np.abs(policy.scores(rows) - theirs(data, rows)) <= bounds).all()
        assert np.array_equal(reference_scores(policy, rows), policy.scores(rows))
        assert bounds.max() < 0.01


def test_a_weight_that_float32_loses_is_in_the_bound(tmp_path):
    layers = [(np.array([[1e-60], [0.0]]), np.array([0.0, 0.0]))]
    (tmp_path / "p.onnx").write_bytes(double_model(layers, "Relu"))
    policy = load_policy(tmp_path / "p.onnx")
    rows = np.array([[1000.0]], dtype=np.float32)
    assert (policy.scores(rows) == 0).all()
    assert near_ties(policy, rows).all(), "in float64 the first is greater, by less than float32 can tell"


def test_a_tie_that_only_rounding_makes_is_no_evidence(tmp_path):
    """In float64 'right' always wins; rounded to float32 the two tie, and 'left', which fails, comes first."""
    m = polvet.ModelBuilder("walk")
    x = m.int("x", 0, 9, initial=4)
    for label, step in (("left", -1), ("right", 1)):
        m.edge(label, guard=(x > 0) & (x < 9), to={x: x + step})
    task = polvet.load(m, fail="x == 0", goal="x == 9")
    (tmp_path / "p.onnx").write_bytes(double_model([(np.array([[1.0], [1 + 2.0**-40]]), np.zeros(2))], "Relu"))
    policy = task.policy(tmp_path / "p.onnx")
    assert policy.act({"x": 4}) == "left"
    for method in ("auto", "explicit", "bmc"):
        result = policy.verify(method)
        assert result.verdict is polvet.Verdict.UNKNOWN, method
        assert "near-tie" in result.reason
    (tmp_path / "q.onnx").write_bytes(double_model([(np.array([[1.0], [0.9]]), np.zeros(2))], "Relu"))
    assert task.policy(tmp_path / "q.onnx").verify().verdict is polvet.Verdict.UNSAFE


@pytest.mark.parametrize("activation", ["relu", "tanh", "logistic", "identity"])
def test_a_perceptron_of_scikit_learn_chooses_what_predict_does(activation, tmp_path):
    skops = pytest.importorskip("skops.io")
    _, actions = teacher()
    made = perceptron(activation, actions)
    skops.dump(made, tmp_path / "p.skops")
    policy = load_policy(tmp_path / "p.skops")
    seen = np.random.default_rng(1).normal(3, 3, (3000, 2)).astype(np.float32)
    clear = ~near_ties(policy, seen)
    assert clear.mean() > 0.97
    assert np.array_equal(made.classes_[policy.choose(seen)][clear], made.predict(seen)[clear])
    binary = perceptron(activation, actions > 1)
    skops.dump(binary, tmp_path / "b.skops")
    policy = load_policy(tmp_path / "b.skops")
    clear = ~near_ties(policy, seen)
    assert clear.mean() > 0.97
    assert np.array_equal(binary.classes_[policy.choose(seen)][clear], binary.predict(seen)[clear])


def perceptron(activation, actions, size=(48,), rows=None):
    import warnings

    network = pytest.importorskip("sklearn.neural_network")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = network.MLPClassifier(size, activation=activation, max_iter=60, random_state=0, learning_rate_init=0.02)
        return model.fit(teacher()[0].astype(np.float64) if rows is None else rows, actions)


@pytest.mark.parametrize(("activation", "size"), [("relu", (48,)), ("tanh", (64,))])
def test_a_perceptron_is_debugged_to_safe_and_comes_back_as_one(activation, size, tmp_path):
    pytest.importorskip("skops.io")
    model = perceptron(activation, teacher()[1], size)
    assert model.coefs_[0].dtype == np.float64
    assert failing(predicted(model))
    policy = grid().policy(model)
    campaign = policy.debug(tmp_path / "out", iterations=20, seed=1)
    assert campaign.verdict is polvet.Verdict.SAFE
    better = campaign.policy.object
    assert type(better) is type(model)
    after = predicted(better)
    assert failing(after) == set()
    assert [campaign.policy.act({"x": a, "y": b}) for a, b in FREE] == [LABELS[after[at]] for at in FREE]
    assert np.array_equal(better.coefs_[0], model.coefs_[0])


def test_what_is_saved_unchanged_keeps_every_digit(tmp_path):
    skops = pytest.importorskip("skops.io")
    model = perceptron("tanh", teacher()[1])
    skops.dump(model, tmp_path / "p.skops")
    save_policy(load_policy(tmp_path / "p.skops"), tmp_path / "q.skops")
    again = skops.load(tmp_path / "q.skops", trusted=skops.get_untrusted_types(file=tmp_path / "q.skops"))
    assert all(np.array_equal(a, b) for a, b in zip(again.coefs_, model.coefs_, strict=True))


WIDTH = 12


def corridor():
    """Steps of one or two to either side; both ends are pits."""
    m = polvet.ModelBuilder("corridor")
    x = m.int("x", 0, WIDTH - 1, initial=5)
    for label, d in (("left", -1), ("right", 1)):
        far = x if d < 0 else WIDTH - 1 - x
        m.edge(label, guard=far >= 2, to=[(0.5, {x: x + d}), (0.5, {x: x + 2 * d})])
        m.edge(label, guard=far == 1, to={x: x + d})
    last = WIDTH - 1
    return polvet.load(m, fail=f"x == 0 || x == {last}", goal="false", start=f"x > 1 && x < {last - 1}", mode="raw")


def falls(chosen):
    """The places from which the choices may lead into a pit, by brute force."""
    bad = {0, WIDTH - 1}
    while True:
        steps = {at: -1 if chosen[at] == 0 else 1 for at in range(WIDTH)}
        more = {at for at, d in steps.items() if at not in bad and {at + d, max(0, min(at + 2 * d, WIDTH - 1))} & bad}
        if not more:
            return bad - {0, WIDTH - 1}
        bad |= more


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_a_binary_perceptron_is_debugged_to_safe_and_comes_back_as_one(activation, tmp_path):
    skops = pytest.importorskip("skops.io")
    rows = np.arange(WIDTH, dtype=np.float64)[:, None]
    model = perceptron(activation, (rows[:, 0] > 4).astype(int), (48,), rows)  # towards the pits
    before = [int(k) for k in model.predict(rows)]
    assert len(falls(before)) == WIDTH - 2
    skops.dump(model, tmp_path / "p.skops")
    campaign = corridor().policy(tmp_path / "p.skops").debug(tmp_path / "out", iterations=20, seed=1)
    assert campaign.verdict is polvet.Verdict.SAFE
    campaign.policy.save(tmp_path / "better.skops")
    better = skops.load(tmp_path / "better.skops", trusted=skops.get_untrusted_types(file=tmp_path / "better.skops"))
    assert type(better) is type(model)
    assert better.n_outputs_ == 1
    assert np.array_equal(better.coefs_[0], model.coefs_[0])
    after = [int(k) for k in better.predict(rows)]
    assert falls(after) <= {1, WIDTH - 2}, "from there every step may end in a pit, and no run begins there"
    places = range(2, WIDTH - 2)
    assert [campaign.policy.act({"x": k}) for k in places] == [("left", "right")[after[k]] for k in places]
