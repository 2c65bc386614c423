"""XGBoost models (JSON and UBJ) to tree ensembles and back, by our own reader; the library is not needed.

A policy's scores are XGBoost's margins, bit for bit: float32 sums in tree order from the base score's margin.
`num_class` or `num_target` outputs; a binary objective has two outputs, the first with score 0 (so margin > 0 chooses the
second). `polvet.inputs` and `polvet.outputs` are read from the model's attributes (JSON lists), else `feature_names`.
Refused  boosters other than gbtree (dart's weights change the sum, gblinear has no trees), categorical splits,
         objectives whose base score has another link function; each by name
Saving   starts from the document that was read, so what polvet does not use survives; new trees get zero statistics
"""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import polvet._core as _core
from polvet.errors import InputError, Where
from polvet.files import Json, write_whole
from polvet.policy import ubjson
from polvet.policy.decimals import nearest_float32
from polvet.policy.format import UBJSON, Content, Names, PolicyFormat
from polvet.policy.protocol import Policy, checked_names, names_or_positions
from polvet.policy.signatures import SIGNATURES
from polvet.policy.trees import (
    MISSING_NAN,
    VECTOR,
    Origin,
    Tree,
    TreeEnsemble,
    check_tree,
    make_tree,
    siblings_adjacent,
)

AGAIN = "The file is damaged or of an unknown version: save it again with Booster.save_model."

IDENTITY = frozenset(
    {
        "multi:softmax",
        "multi:softprob",
        "reg:squarederror",
        "reg:squaredlogerror",
        "reg:pseudohubererror",
        "reg:absoluteerror",
        "reg:quantileerror",
        "binary:hinge",
        "binary:logitraw",
        "rank:pairwise",
        "rank:ndcg",
        "rank:map",
    }
)
LOGISTIC = frozenset({"binary:logistic", "reg:logistic"})
BINARY = frozenset({"binary:logistic", "binary:logitraw", "binary:hinge"})


def ensemble_from_xgboost(
    document: Any, where: Where, inputs: Sequence[str] | None = None, outputs: Sequence[str] | None = None
) -> TreeEnsemble:
    """Return the ensemble of a parsed XGBoost model, or raise an InputError with the JSON path."""
    learner = _object(document, "learner", where)
    place = where.at("learner")
    booster = _object(learner, "gradient_booster", place)
    name = booster.get("name")
    if name != "gbtree":
        raise InputError(
            f"the booster '{name}' is not supported.",
            place.at("gradient_booster").at("name"),
            "Train with booster=gbtree.",
        )
    model_place = place.at("gradient_booster").at("model")
    model = _object(booster, "model", place.at("gradient_booster"))
    parameters = _object(learner, "learner_model_param", place)
    parameter_place = place.at("learner_model_param")
    feature_count = _integer(parameters, "num_feature", parameter_place, least=1)
    objective = str(_object(learner, "objective", place).get("name"))
    groups = max(
        _integer(parameters, "num_class", parameter_place),
        _integer(parameters, "num_target", parameter_place, default=1),
        1,
    )
    binary = objective in BINARY and groups == 1
    base = _base_margins(str(parameters.get("base_score", "0.5")), objective, groups, place)
    trees = _trees(model, groups, feature_count, model_place)
    if binary:
        base, trees = (0.0, *base), tuple(_for_second_output(tree, model_place) for tree in trees)
    attributes = learner.get("attributes") or {}
    _check_early_stop(attributes, model, groups, place)
    own_inputs = _attribute_names(attributes, "polvet.inputs", place)
    own_outputs = _attribute_names(attributes, "polvet.outputs", place)
    if own_inputs is None and learner.get("feature_names"):
        own_inputs = list(learner["feature_names"])
    result = TreeEnsemble(
        names_or_positions(inputs, own_inputs, feature_count, "input", where),
        names_or_positions(outputs, own_outputs, len(base), "output", where),
        trees,
        base,
        origin=Origin("xgboost", document),
    )
    return result


def save_xgboost(ensemble: TreeEnsemble, path: str | Path, *, binary: bool | None = None) -> None:
    """Write the ensemble as an XGBoost model; `.ubj` (or binary=True) gives UBJ, everything else JSON."""
    document = xgboost_document(ensemble)
    as_ubj = str(path).endswith(".ubj") if binary is None else binary
    write_whole(path, ubjson.dump(document) if as_ubj else json.dumps(_jsonable(document), ensure_ascii=False))


def xgboost_document(ensemble: TreeEnsemble) -> Json:
    """Return the model document of an ensemble; it must compute in float32 with `<`, as XGBoost does."""
    if ensemble.arithmetic != "float32" or ensemble.comparison != "<" or ensemble.divisor:
        raise InputError(
            "this ensemble does not compute as XGBoost does (float32 sums, '<').",
            hint="Save it in the format it came from.",
        )
    origin = ensemble.origin.document if ensemble.origin and ensemble.origin.kind == "xgboost" else None
    document = copy.deepcopy(origin) if origin else _new_document(ensemble)
    learner = document["learner"]
    model = learner["gradient_booster"]["model"]
    shift = _is_binary(document, ensemble)
    old = model["trees"]
    model["trees"] = [
        _tree_document(siblings_adjacent(tree), index, old[index] if index < len(old) else None, len(ensemble.inputs))
        for index, tree in enumerate(ensemble.trees)
    ]
    model["tree_info"] = [0 if tree.output == VECTOR else tree.output - shift for tree in ensemble.trees]
    model["gbtree_model_param"]["num_trees"] = str(len(ensemble.trees))
    pointers = [int(pointer) for pointer in model.get("iteration_indptr", [])]
    if pointers and pointers[-1] != len(ensemble.trees):
        # Trees added by a repair form one more round, so that no prediction by rounds leaves them out.
        model["iteration_indptr"] = [p for p in pointers if p < len(ensemble.trees)] + [len(ensemble.trees)]
    attributes = learner.setdefault("attributes", {})
    for gone in ("best_iteration", "best_score"):  # with which XGBClassifier would leave out the trees behind it
        attributes.pop(gone, None)
    attributes.update(_name_attributes(ensemble))
    return document


def _check_early_stop(attributes: Any, model: Json, groups: int, where: Where) -> None:
    """Raise an InputError where early stopping left rounds behind that XGBClassifier leaves out and Booster.predict adds."""
    if not isinstance(attributes, dict) or "best_iteration" not in attributes:
        return
    used = _integer(attributes, "best_iteration", where.at("attributes")) + 1
    pointers = model.get("iteration_indptr")
    rounds = len(pointers) - 1 if isinstance(pointers, list) and pointers else len(model["trees"]) // groups
    if used < rounds:
        raise InputError(
            f"training stopped early: XGBClassifier.predict uses {used} of {rounds} rounds, Booster.predict all.",
            where.at("attributes").at("best_iteration"),
            f"Save what both use alike: booster[:{used}].save_model(...).",
        )


def _trees(model: Json, groups: int, features: int, where: Where) -> tuple[Tree, ...]:
    entries, info = model.get("trees"), model.get("tree_info")
    if not isinstance(entries, list) or info is None or len(info) != len(entries):
        raise InputError("'trees' and 'tree_info' must be lists of the same length.", where, AGAIN)
    declared = _integer(_object(model, "gbtree_model_param", where), "num_trees", where.at("gbtree_model_param"))
    if declared != len(entries):
        raise InputError(f"{len(entries)} trees are listed, 'num_trees' says {declared}.", where, AGAIN)
    trees = []
    for index, entry in enumerate(entries):
        tree = _tree(entry, int(info[index]), groups, where.at("trees").at(index))
        check_tree(tree, index, features, groups, where)
        trees.append(tree)
    return tuple(trees)


def _tree(entry: Any, group: int, groups: int, where: Where) -> Tree:
    if not isinstance(entry, dict):
        raise InputError("a tree must be an object.", where, AGAIN)
    left = _numbers(entry, "left_children", where)
    right = _numbers(entry, "right_children", where)
    feature = _numbers(entry, "split_indices", where)
    condition = _numbers(entry, "split_conditions", where, single=True)
    default_left = _numbers(entry, "default_left", where)
    count = len(left)
    if any(len(array) != count for array in (right, feature, condition, default_left)):
        raise InputError("the arrays of the tree differ in length.", where, AGAIN)
    kinds = entry.get("split_type")
    if len(entry.get("categories_nodes", ())) or (kinds is not None and np.any(np.asarray(kinds) != 0)):
        raise InputError(
            "the tree has categorical splits, which are not supported.", where, "Encode the categories as numbers."
        )
    for key, array in (("left_children", left), ("right_children", right), ("split_indices", feature)):
        if not (np.isfinite(array).all() and (array == np.floor(array)).all() and (np.abs(array) < 2**31).all()):
            raise InputError("node numbers must be integers.", where.at(key), AGAIN)
    leaf = left == -1
    apart = np.flatnonzero(~leaf & (right != left + 1))
    if len(apart):
        raise InputError(
            f"the children {left[apart[0]]:.0f} and {right[apart[0]]:.0f} of node {apart[0]} are not neighbours; XGBoost takes the "
            "right child to follow the left one and would go elsewhere.",
            where.at("right_children"),
            "Number the nodes as XGBoost does.",
        )
    width = _integer(entry.get("tree_param") or {}, "size_leaf_vector", where.at("tree_param"), default=1)
    features = np.where(leaf, -1, feature)
    if (features[~leaf] < 0).any():
        raise InputError("a split tests an input with a negative number.", where.at("split_indices"), AGAIN)
    vector = width > 1
    if vector and width != groups:
        raise InputError(f"the leaves hold {width} values, the model has {groups} outputs.", where, AGAIN)
    values = _vector_values(entry, leaf, right, width, where) if vector else np.where(leaf, condition, 0.0)
    return make_tree(
        VECTOR if vector else group,
        features,
        np.where(leaf, 0.0, condition),
        left,
        np.where(leaf, -1, right),
        values,
        default_left != 0,
        MISSING_NAN,
    )


def _vector_values(
    entry: Json, leaf: npt.NDArray[np.bool_], right: npt.NDArray[np.float64], width: int, where: Where
) -> npt.NDArray[np.float64]:
    """Return [nodes, width]: new files number the leaves in `right_children`, old ones keep a vector for every node."""
    table = np.zeros((len(leaf), width))
    if "leaf_weights" in entry:
        weights = _numbers(entry, "leaf_weights", where, single=True)
        rows = right[leaf].astype(np.int64)
        if len(weights) % width or (rows < 0).any() or (rows >= len(weights) // width).any():
            raise InputError("'leaf_weights' does not have a vector for every leaf.", where.at("leaf_weights"), AGAIN)
        table[leaf] = weights.reshape(-1, width)[rows]
        return table
    weights = _numbers(entry, "base_weights", where, single=True)
    if len(weights) != len(leaf) * width:
        raise InputError(
            f"'base_weights' does not have {width} values for every node.", where.at("base_weights"), AGAIN
        )
    table[leaf] = weights.reshape(-1, width)[leaf]
    return table


def _for_second_output(tree: Tree, where: Where) -> Tree:
    if tree.output == VECTOR:
        raise InputError("a binary model has vector leaves.", where, AGAIN)
    return make_tree(
        1, tree.feature, tree.threshold, tree.left, tree.right, tree.values, tree.default_left, tree.missing
    )


def _base_margins(text: str, objective: str, groups: int, where: Where) -> tuple[float, ...]:
    """Return the base score of each output as the float32 margin that XGBoost starts from."""
    place = where.at("learner_model_param").at("base_score")
    try:
        scores = [nearest_float32(part) for part in text.strip().strip("[]").split(",")]
    except ValueError:
        raise InputError(
            f"the base score '{text}' is not a number or a list of numbers.",
            place,
            "Save the model again with Booster.save_model.",
        ) from None
    if len(scores) == 1:
        scores = scores * groups
    if len(scores) != groups:
        raise InputError(
            f"{len(scores)} base scores for {groups} outputs.", place, "Save the model again with Booster.save_model."
        )
    if objective in IDENTITY:
        return tuple(scores)
    if objective in LOGISTIC:
        if not all(0 < score < 1 for score in scores):
            raise InputError(
                f"the base score {text} of '{objective}' is not between 0 and 1.",
                place,
                "Save the model again with Booster.save_model.",
            )
        return tuple(float(_core.float32_logit(score)) for score in scores)
    raise InputError(
        f"the objective '{objective}' is not supported.",
        where.at("objective").at("name"),
        "Supported are: " + ", ".join(sorted(IDENTITY | LOGISTIC)) + ".",
    )


def _is_binary(document: Json, ensemble: TreeEnsemble) -> int:
    objective = document["learner"]["objective"]["name"]
    return 1 if objective in BINARY and len(ensemble.outputs) == 2 else 0


def _tree_document(tree: Tree, index: int, old: Json | None, features: int) -> Json:
    """Return the tree as XGBoost stores it; statistics come from the old tree where the shape is the same."""
    count = len(tree.feature)
    leaf = tree.feature < 0
    width = tree.values.shape[1]
    document: Json = {
        "categories": np.zeros(0, np.int32),
        "categories_nodes": np.zeros(0, np.int32),
        "categories_segments": np.zeros(0, np.int64),
        "categories_sizes": np.zeros(0, np.int64),
        "loss_changes": np.zeros(count, np.float32),
        "sum_hessian": np.zeros(count, np.float32),
        "base_weights": np.zeros(count * width, np.float32),
        "split_type": np.zeros(count, np.uint8),
    }
    if old is not None and np.array_equal(np.asarray(old["left_children"]), tree.left):
        document = {key: np.asarray(old.get(key, array), dtype=array.dtype) for key, array in document.items()}
    parents = np.full(count, 2147483647 if width == 1 else -1, np.int32)
    inner = np.flatnonzero(~leaf)
    parents[tree.left[inner]] = inner
    parents[tree.right[inner]] = inner
    weights = np.array(document["base_weights"], dtype=np.float32).reshape(count, width)
    weights[leaf] = tree.values[leaf]
    right = np.where(leaf, -1, tree.right)
    conditions = np.where(leaf, 0.0, tree.threshold)
    if width == 1:
        conditions = np.where(leaf, tree.values[:, 0], conditions)
    else:
        # Leaves are numbered in `right_children`; readers of the older layout take their vectors from `base_weights`.
        right[leaf] = np.arange(leaf.sum())
        document["leaf_weights"] = tree.values[leaf].astype(np.float32).reshape(-1)
    document.update(
        base_weights=weights.reshape(-1),
        default_left=tree.default_left.astype(np.uint8),
        id=index,
        left_children=np.where(leaf, -1, tree.left).astype(np.int32),
        right_children=right.astype(np.int32),
        parents=parents,
        split_conditions=conditions.astype(np.float32),
        split_indices=np.where(leaf, 0, tree.feature).astype(np.int32),
        tree_param={
            "num_deleted": "0",
            "num_feature": str(features),
            "num_nodes": str(count),
            "size_leaf_vector": str(width),
        },
    )
    return dict(sorted(document.items()))


def _new_document(ensemble: TreeEnsemble) -> Json:
    """Return a model without trees for an ensemble that did not come from XGBoost: squared error, one target each."""
    count = len(ensemble.outputs)
    return {
        "learner": {
            "attributes": {},
            "feature_names": [],
            "feature_types": [],
            "gradient_booster": {
                "model": {
                    "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": "0"},
                    "iteration_indptr": [0],
                    "tree_info": [],
                    "trees": [],
                },
                "name": "gbtree",
            },
            "learner_model_param": {
                "base_score": "[" + ",".join(_decimal(value) for value in ensemble.base) + "]",
                "boost_from_average": "0",
                "num_class": "0",
                "num_feature": str(len(ensemble.inputs)),
                "num_target": str(count),
            },
            "objective": {"name": "reg:squarederror", "reg_loss_param": {"scale_pos_weight": "1"}},
        },
        "version": [3, 1, 0],
    }


def _decimal(value: float) -> str:
    return np.format_float_scientific(np.float32(value), unique=True, trim="-").replace("e", "E")


def _name_attributes(ensemble: TreeEnsemble) -> dict[str, str]:
    return {
        "polvet.inputs": json.dumps(list(ensemble.inputs), ensure_ascii=False),
        "polvet.outputs": json.dumps(list(ensemble.outputs), ensure_ascii=False),
    }


def _attribute_names(attributes: Any, key: str, where: Where) -> list[str] | None:
    if not isinstance(attributes, dict) or key not in attributes:
        return None
    place = where.at("attributes").at(key)
    try:
        names = json.loads(attributes[key])
    except (TypeError, ValueError):
        raise InputError("the attribute is not a JSON list of names.", place, 'Write ["x", "y"].') from None
    if not isinstance(names, list):
        raise InputError("the attribute is not a JSON list of names.", place, 'Write ["x", "y"].')
    return list(checked_names(names, len(names), key.removeprefix("polvet.").removesuffix("s"), place))


def _object(parent: Any, key: str, where: Where) -> Json:
    entry = parent.get(key) if isinstance(parent, dict) else None
    if not isinstance(entry, dict):
        raise InputError(f"'{key}' is missing or not an object.", where.at(key), "Is this an XGBoost model?")
    return entry


def _integer(parent: Json, key: str, where: Where, *, least: int = 0, default: int = 0) -> int:
    try:
        value = int(parent.get(key, default))
    except (TypeError, ValueError):
        raise InputError(f"'{key}' is not an integer.", where.at(key), AGAIN) from None
    if not least <= value <= 10_000_000:
        raise InputError(f"'{key}' is {value}.", where.at(key), f"It must be between {least} and 10000000.")
    return value


def _numbers(entry: Json, key: str, where: Where, *, single: bool = False) -> npt.NDArray[np.float64]:
    """Return a list of numbers as an array; `single` rounds to float32, where too large becomes infinite."""
    values = entry.get(key)
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            array = np.asarray(values, dtype=np.float32 if single else np.float64).astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        array = np.zeros((0, 0))
    if values is None or array.ndim != 1:
        raise InputError(f"'{key}' is missing or not a list of numbers.", where.at(key), AGAIN)
    return array


def _jsonable(value: Any) -> Any:
    """Return the document with arrays as lists and every float32 as the shortest decimal that reads back exactly."""
    if isinstance(value, dict):
        return {key: _jsonable(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "f":
            return [float(str(item)) for item in value.astype(np.float32)]
        return value.tolist()
    return [_jsonable(item) for item in value] if isinstance(value, list) else value


def _read(content: Content, names: Names) -> TreeEnsemble:
    binary = content.data.startswith(UBJSON)
    document = ubjson.load(content.data, content.where) if binary else content.rounded_document()
    return ensemble_from_xgboost(document, content.where, *names.both)


def _writes(policy: Policy, path: str) -> bool:
    return isinstance(policy, TreeEnsemble) and (policy.origin is None or policy.origin.kind == "xgboost")


def _write(policy: Policy, path: str) -> None:
    assert isinstance(policy, TreeEnsemble)
    save_xgboost(policy, path)


XGBOOST = PolicyFormat(
    "xgboost",
    "XGBoost JSON or UBJ",
    "JSON with `learner`; UBJSON bytes",
    "attributes `polvet.inputs`, `polvet.outputs`, else `feature_names`",
    detects=SIGNATURES["xgboost"],
    read=_read,
    writes=_writes,
    write=_write,
    saved="yes; loads in XGBoost; UBJ by the ending `.ubj`",
)
