"""XGBoost models: our reader and kernel against the library's own margins, bit for bit."""

import json
from pathlib import Path

import numpy as np
import pytest

from polvet.errors import InputError, Where
from polvet.policy import TreeEnsemble, load_policy, save_policy, ubjson
from polvet.policy.trees import make_tree, reference_scores
from polvet.policy.xgboost_file import ensemble_from_xgboost, save_xgboost

xgb = pytest.importorskip("xgboost")

RNG = np.random.default_rng(7)
FEATURES = 6
TRAIN = RNG.normal(size=(400, FEATURES)).astype(np.float32)
TRAIN[RNG.random(TRAIN.shape) < 0.1] = np.nan
CLASSES = (np.nan_to_num(TRAIN[:, 0]) * 1.5 + np.nan_to_num(TRAIN[:, 1])).round().astype(int) % 4
TARGETS = RNG.normal(size=(400, 3)).astype(np.float32)

SETTINGS = {
    "softmax": ({"objective": "multi:softmax", "num_class": 4}, CLASSES),
    "softprob": ({"objective": "multi:softprob", "num_class": 4, "base_score": 0.25}, CLASSES),
    "softprob vector leaves": (
        {"objective": "multi:softprob", "num_class": 4, "multi_strategy": "multi_output_tree"}, CLASSES
    ),
    "regression vector leaves": ({"objective": "reg:squarederror", "multi_strategy": "multi_output_tree"}, TARGETS),
    "regression one tree per target": ({"objective": "reg:squarederror"}, TARGETS),
    "regression scalar": ({"objective": "reg:squarederror", "base_score": 0.125}, TARGETS[:, 0]),
    "logistic": ({"objective": "binary:logistic"}, CLASSES > 1),
    "logistic base": ({"objective": "binary:logistic", "base_score": 0.3}, CLASSES > 1),
    "logitraw": ({"objective": "binary:logitraw", "base_score": 0.7}, CLASSES > 1),
    "hinge": ({"objective": "binary:hinge"}, CLASSES > 1),
    "forest": ({"objective": "multi:softmax", "num_class": 4, "num_parallel_tree": 3, "subsample": 0.6}, CLASSES),
}  # fmt: skip


def trained(name: str, rounds: int = 12) -> "xgb.Booster":
    parameters, labels = SETTINGS[name]
    parameters = {"max_depth": 5, "eta": 0.4, "nthread": 1, "seed": 3, **parameters}
    return xgb.train(parameters, xgb.DMatrix(TRAIN, labels), rounds)


def random_rows(count: int) -> np.ndarray:
    """Random rows, a tenth of the values missing, others equal to values that were split on."""
    rows = RNG.normal(scale=1.5, size=(count, FEATURES)).astype(np.float32)
    seen = RNG.random(rows.shape) < 0.2
    rows[seen] = TRAIN[RNG.integers(0, 400, seen.sum()), RNG.integers(0, FEATURES, seen.sum())]
    rows[RNG.random(rows.shape) < 0.1] = np.nan
    rows[RNG.random(rows.shape) < 0.05] = 0
    return rows


def margins(booster: "xgb.Booster", rows: np.ndarray) -> np.ndarray:
    found = booster.predict(xgb.DMatrix(rows), output_margin=True)
    return found.reshape(len(rows), -1)


@pytest.mark.parametrize("ending", ["json", "ubj"])
@pytest.mark.parametrize("name", SETTINGS)
def test_margins_equal_xgboost_bit_for_bit_on_a_hundred_thousand_rows(name, ending, tmp_path):
    booster = trained(name)
    path = tmp_path / f"model.{ending}"
    booster.save_model(path)
    policy = load_policy(path)
    rows = random_rows(100_000)
    scores = policy.scores(rows)
    expected = margins(booster, rows)
    if name in ("logistic", "logistic base", "logitraw", "hinge"):
        assert (scores[:, 0] == 0).all()
        scores = scores[:, 1:]
    assert scores.dtype == np.float32
    assert np.array_equal(scores.view(np.uint32), expected.view(np.uint32))


def test_the_kernel_equals_its_slow_twin(tmp_path):
    for name in ("softmax", "softprob vector leaves", "logistic"):
        path = tmp_path / "model.ubj"
        trained(name).save_model(path)
        policy = load_policy(path)
        rows = random_rows(300)
        assert np.array_equal(policy.scores(rows), reference_scores(policy, rows))


def test_labels_equal_the_classes_xgboost_predicts(tmp_path):
    path = tmp_path / "model.json"
    booster = trained("softmax")
    booster.save_model(path)
    rows = random_rows(5000)
    assert np.array_equal(load_policy(path).choose(rows), booster.predict(xgb.DMatrix(rows)).astype(int))


@pytest.mark.parametrize("ending", ["json", "ubj"])
@pytest.mark.parametrize("name", SETTINGS)
def test_a_repaired_model_loads_in_xgboost_with_the_same_margins(name, ending, tmp_path):
    trained(name, 3).save_model(tmp_path / "model.json")
    policy = load_policy(tmp_path / "model.json")
    assert isinstance(policy, TreeEnsemble)
    width = policy.trees[0].values.shape[1]
    output = policy.trees[0].output
    changed = [tree.with_values(tree.values + RNG.normal(size=tree.values.shape)) for tree in policy.trees]
    values = RNG.normal(size=(5, width))
    added = make_tree(output, [2, -1, 0, -1, -1], [0.5, 0, -1, 0, 0], [1, -1, 3, -1, -1], [2, -1, 4, -1, -1], values,
                      [True, False, False, False, False])  # fmt: skip
    repaired = policy.with_trees([*changed, added])
    path = tmp_path / f"repaired.{ending}"
    save_policy(repaired, path)
    booster = xgb.Booster(model_file=path)
    rows = random_rows(4000)
    expected = margins(booster, rows)
    ours = repaired.scores(rows)
    assert np.array_equal(ours[:, -expected.shape[1] :], expected)
    again = load_policy(path)
    assert np.array_equal(again.scores(rows), ours)
    assert booster.num_boosted_rounds() == 4


def test_names_are_kept_as_model_attributes(tmp_path):
    booster = trained("softmax", 2)
    booster.save_model(tmp_path / "a.json")
    inputs, outputs = [f"v{i}" for i in range(FEATURES)], ["n", "e", "s", "w"]
    named = load_policy(tmp_path / "a.json", inputs, outputs)
    save_policy(named, tmp_path / "b.ubj")
    assert json.loads(xgb.Booster(model_file=tmp_path / "b.ubj").attr("polvet.outputs")) == outputs
    again = load_policy(tmp_path / "b.ubj")
    assert (again.inputs, again.outputs) == (tuple(inputs), tuple(outputs))


def test_feature_names_are_inputs_where_no_attribute_says_otherwise(tmp_path):
    names = list("uvwxyz")
    booster = xgb.train(
        {"objective": "multi:softmax", "num_class": 4}, xgb.DMatrix(TRAIN, CLASSES, feature_names=names), 1
    )
    booster.save_model(tmp_path / "m.json")
    assert load_policy(tmp_path / "m.json").inputs == tuple(names)


def test_an_ensemble_built_by_hand_becomes_an_xgboost_model(tmp_path):
    stump = make_tree(1, [0, -1, -1], [0.5, 0, 0], [1, -1, -1], [2, -1, -1], [0, -1, 0.1])
    other = make_tree(0, [1, -1, -1], [3, 0, 0], [1, -1, -1], [2, -1, -1], [0, 0.7, 0.3])
    policy = TreeEnsemble(("x", "y"), ("a", "b"), (stump, other), (0.25, -0.5))
    for ending in ("json", "ubj"):
        save_xgboost(policy, tmp_path / f"m.{ending}")
        rows = RNG.integers(-2, 6, size=(200, 2)).astype(np.float32)
        booster = xgb.Booster(model_file=tmp_path / f"m.{ending}")
        assert np.array_equal(policy.scores(rows), margins(booster, rows))


def test_a_deep_tree_numbered_in_any_order_means_the_same_to_xgboost(tmp_path):
    depth, size = 14, 29  # a chain: node k < 14 splits, one child is a leaf, the other the next split or the last leaf
    order = np.concatenate([[0], 1 + RNG.permutation(size - 1)])
    feature, threshold = np.full(size, -1), np.zeros(size)
    left, right, values = np.full(size, -1), np.full(size, -1), np.zeros(size)
    values[order[depth:]] = RNG.normal(size=size - depth)
    for k in range(depth):
        children = [order[k + 1], order[depth + 1 + k]] if k + 1 < depth else [order[depth], order[depth + 1 + k]]
        turned = bool(RNG.integers(2))
        feature[order[k]], threshold[order[k]] = k % 2, 5.5 - k * 0.5
        left[order[k]], right[order[k]] = children[turned], children[not turned]
    tree = make_tree(1, feature, threshold, left, right, values)
    policy = TreeEnsemble(("x", "y"), ("a", "b"), (tree,), (0.25, -0.5))
    save_xgboost(policy, tmp_path / "m.json")
    rows = RNG.uniform(-4, 8, size=(2_000, 2)).astype(np.float32)
    booster = xgb.Booster(model_file=tmp_path / "m.json")
    assert np.array_equal(policy.scores(rows), margins(booster, rows))
    assert np.array_equal(load_policy(tmp_path / "m.json").scores(rows), policy.scores(rows))


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"booster": "dart"}, "dart"),
        ({"booster": "gblinear"}, "gblinear"),
        ({"objective": "count:poisson"}, "count:poisson"),
    ],
)
def test_other_boosters_and_objectives_are_refused_by_name(parameters, words, tmp_path):
    booster = xgb.train(parameters, xgb.DMatrix(TRAIN, np.abs(TARGETS[:, 0])), 2)
    booster.save_model(tmp_path / "m.json")
    with pytest.raises(InputError, match=words):
        load_policy(tmp_path / "m.json")


def test_categorical_splits_are_refused_by_name(tmp_path):
    category = RNG.integers(0, 9, 400)
    rows = np.stack([category.astype(np.float32), np.nan_to_num(TRAIN[:, 0])], axis=1)
    labels = np.isin(category, [1, 4, 7]).astype(float)
    data = xgb.DMatrix(rows, labels, feature_types=["c", "q"], enable_categorical=True)
    booster = xgb.train({"tree_method": "hist", "max_cat_to_onehot": 1}, data, 2)
    booster.save_model(tmp_path / "m.json")
    with pytest.raises(InputError, match="categorical"):
        load_policy(tmp_path / "m.json")


def document(tmp_path: Path) -> dict:
    trained("softmax", 1).save_model(tmp_path / "m.json")
    return json.loads((tmp_path / "m.json").read_text())


def first_tree(model: dict) -> dict:
    return model["learner"]["gradient_booster"]["model"]["trees"][0]


def make_cycle(model):
    first_tree(model)["left_children"][1] = 0


def share_a_node(model):
    tree = first_tree(model)
    tree["right_children"][0] = tree["left_children"][0]


def part_siblings(model):
    tree = first_tree(model)
    tree["left_children"][0], tree["right_children"][0] = tree["right_children"][0], tree["left_children"][0]


def point_outside(model):
    first_tree(model)["left_children"][0] = 10**6


def break_a_leaf(model):
    tree = first_tree(model)
    tree["split_conditions"][tree["left_children"].index(-1)] = 1e39


def shorten_an_array(model):
    first_tree(model)["default_left"].pop()


def split_unknown_input(model):
    first_tree(model)["split_indices"][0] = 77


def drop_the_trees(model):
    del model["learner"]["gradient_booster"]["model"]["trees"]


def text_for_numbers(model):
    first_tree(model)["split_conditions"] = "abc"


def wrong_tree_info(model):
    model["learner"]["gradient_booster"]["model"]["tree_info"][0] = 9


def wrong_base(model):
    model["learner"]["learner_model_param"]["base_score"] = "[1,2]"


@pytest.mark.parametrize(
    "damage",
    [make_cycle, share_a_node, part_siblings, point_outside, break_a_leaf, shorten_an_array, split_unknown_input, drop_the_trees,
     text_for_numbers, wrong_tree_info, wrong_base],
)  # fmt: skip
def test_a_damaged_model_is_an_input_error_with_its_place(damage, tmp_path):
    model = document(tmp_path)
    damage(model)
    with pytest.raises(InputError, match=r"m\.json: .*learner"):
        ensemble_from_xgboost(model, Where("m.json"))


def test_every_truncation_of_a_ubj_file_is_an_input_error(tmp_path):
    trained("softmax", 1).save_model(tmp_path / "m.ubj")
    data = (tmp_path / "m.ubj").read_bytes()
    for cut in [1, 2, 10, *RNG.integers(3, len(data) - 1, 60).tolist(), len(data) - 1]:
        (tmp_path / "cut.ubj").write_bytes(data[:cut])
        with pytest.raises(InputError):
            load_policy(tmp_path / "cut.ubj")


@pytest.mark.slow
def test_no_changed_byte_of_a_ubj_file_gets_past_the_reader_unnoticed_as_another_error(tmp_path):
    trained("softmax", 1).save_model(tmp_path / "m.ubj")
    data = bytearray((tmp_path / "m.ubj").read_bytes())
    refused = 0
    for place in RNG.integers(0, len(data), 400).tolist():
        changed = data.copy()
        changed[place] ^= 1 << int(RNG.integers(0, 8))
        (tmp_path / "changed.ubj").write_bytes(changed)
        try:
            load_policy(tmp_path / "changed.ubj")
        except InputError:
            refused += 1
    assert refused > 50


def test_ubjson_reads_what_it_writes():
    value = {"a": [1, -200, 40000, 2**40, "text", None, True], "b": np.arange(5, dtype=np.float32), "c": {"d": []}}
    found = ubjson.load(ubjson.dump(value), Where("memory"))
    assert found["a"] == value["a"]
    assert np.array_equal(found["b"], value["b"])
    assert found["c"] == {"d": []}


def test_ubjson_refuses_an_array_that_claims_more_than_the_file_holds():
    with pytest.raises(InputError, match="byte"):
        ubjson.load(b"[$d#L" + (2**40).to_bytes(8, "big"), Where("memory"))
    with pytest.raises(InputError, match="not read"):
        ubjson.load(b"[$Z#i\x05", Where("memory"))
    with pytest.raises(InputError, match="deep"):
        ubjson.load(b"[" * 500, Where("memory"))
