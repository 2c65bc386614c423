"""LightGBM text models to tree ensembles and back, by our own reader; the library is not needed.

A policy's scores are LightGBM's raw scores, bit for bit: float64 sums in tree order (of a forest, too: it is not averaged),
`x <= threshold` goes left, missing values as each node's decision type says. One output per class; a binary objective has
two outputs, the first with score 0.
Names: header lines `polvet.inputs=[...]`, `polvet.outputs=[...]` (LightGBM ignores them), else `feature_names`.
Refused  categorical splits, linear trees
Saving   starts from the text that was read: header, statistics of unchanged trees and footer survive
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from polvet.errors import InputError, Where
from polvet.files import Json, write_whole
from polvet.policy.format import PolicyFormat
from polvet.policy.protocol import Policy, checked_names, names_or_positions
from polvet.policy.signatures import SIGNATURES
from polvet.policy.trees import Origin, Tree, TreeEnsemble, check_tree, make_tree

AGAIN = "The file is damaged or of a newer format: write it again with Booster.save_model."

CATEGORICAL, DEFAULT_LEFT = 1, 2  # bits of decision_type; the two bits above are the kind of missing value
_NAMELESS = re.compile(r"Column_\d+")


@dataclass(frozen=True, slots=True)
class Text:
    """A LightGBM model's text in its parts: header lines, one field table per tree, everything after the trees."""

    header: tuple[str, ...]
    trees: tuple[dict[str, str], ...]
    footer: str


def ensemble_from_lightgbm(
    text: str, where: Where, inputs: Sequence[str] | None = None, outputs: Sequence[str] | None = None
) -> TreeEnsemble:
    """Return the ensemble of a LightGBM text model, or raise an InputError that names the tree."""
    parts = _split(text, where)
    header = dict(line.partition("=")[::2] for line in parts.header if "=" in line)
    features = _header_integer(header, "max_feature_idx", where) + 1
    groups = _header_integer(header, "num_tree_per_iteration", where)
    if groups < 1 or features < 1:
        raise InputError(f"the model has {features} features and {groups} trees per round.", where, AGAIN)
    if "tree_sizes" in header and len(header["tree_sizes"].split()) != len(parts.trees):
        raise InputError(
            f"{len(header['tree_sizes'].split())} trees are announced, {len(parts.trees)} are there.",
            where.at("tree_sizes"),
            "The file is truncated.",
        )
    binary = groups == 1 and header.get("objective", "").split(" ")[0] in ("binary", "cross_entropy")
    count = 2 if binary else groups
    trees = []
    for index, table in enumerate(parts.trees):
        tree = _tree(table, 1 if binary else index % groups, where.at("trees").at(index))
        check_tree(tree, index, features, count, where)
        trees.append(tree)
    own_inputs = _own_names(header, "polvet.inputs", where)
    if own_inputs is None:
        own_inputs = header.get("feature_names", "").split(" ")
        if len(own_inputs) != features or all(_NAMELESS.fullmatch(name) for name in own_inputs):
            own_inputs = None
    return TreeEnsemble(
        names_or_positions(inputs, own_inputs, features, "input", where),
        names_or_positions(outputs, _own_names(header, "polvet.outputs", where), count, "output", where),
        tuple(trees),
        (0.0,) * count,
        comparison="<=",
        arithmetic="float64",
        origin=Origin("lightgbm", parts, rounds=True),
    )


def save_lightgbm(ensemble: TreeEnsemble, path: str | Path) -> None:
    """Write the ensemble as a LightGBM text model."""
    write_whole(path, lightgbm_text(ensemble))


def lightgbm_text(ensemble: TreeEnsemble) -> str:
    """Return the text model of an ensemble that was read from LightGBM; trees may have been changed or added."""
    if ensemble.origin is None or ensemble.origin.kind != "lightgbm":
        raise InputError(
            "only an ensemble that was read from LightGBM is saved as LightGBM text.",
            hint="Save it as XGBoost JSON: a name that ends in .json.",
        )
    parts: Text = ensemble.origin.document
    groups = next(int(line.partition("=")[2]) for line in parts.header if line.startswith("num_tree_per_iteration="))
    shift = 1 if groups == 1 and len(ensemble.outputs) == 2 else 0
    for index, tree in enumerate(ensemble.trees):
        if tree.output - shift != index % groups:
            raise InputError(
                f"tree {index} adds to output {tree.output}; LightGBM's order puts output {index % groups + shift} there.",
                hint="Add whole rounds: one tree per class.",
            )
    if len(ensemble.trees) % groups:
        raise InputError(f"{len(ensemble.trees)} trees are not whole rounds of {groups}.", hint="Add whole rounds.")
    blocks = [
        _block(tree, index, parts.trees[index] if index < len(parts.trees) else None)
        for index, tree in enumerate(ensemble.trees)
    ]
    dropped = ("tree_sizes=", "polvet.inputs=", "polvet.outputs=")
    header = [line for line in parts.header if line and not line.startswith(dropped)]
    header.append("polvet.inputs=" + json.dumps(list(ensemble.inputs), ensure_ascii=False))
    header.append("polvet.outputs=" + json.dumps(list(ensemble.outputs), ensure_ascii=False))
    header.append("tree_sizes=" + " ".join(str(len(block.encode())) for block in blocks))
    return "\n".join(header) + "\n\n" + "".join(blocks) + parts.footer


def _split(text: str, where: Where) -> Text:
    head, separator, rest = text.partition("\nTree=")
    if not separator:
        head, separator, rest = text.partition("\nend of trees")
        if not separator:
            raise InputError("the model has no trees and no 'end of trees'.", where, "The file is truncated.")
        return Text(tuple(head.splitlines()), (), "end of trees" + rest)
    body, end, footer = rest.partition("end of trees")
    if not end:
        raise InputError("'end of trees' is missing.", where, "The file is truncated.")
    tables = []
    for number, block in enumerate(("\nTree=" + body).split("\nTree=")[1:]):
        lines = block.splitlines()
        if not lines or lines[0].strip() != str(number):
            raise InputError(
                f"tree {number} is called '{lines[0] if lines else ''}'.", where.at("trees").at(number), AGAIN
            )
        tables.append(dict(line.partition("=")[::2] for line in lines[1:] if line))
    return Text(tuple(head.splitlines()), tuple(tables), end + footer)


def _tree(table: dict[str, str], output: int, where: Where) -> Tree:
    if table.get("num_cat", "0") != "0":
        raise InputError(
            "the tree has categorical splits, which are not supported.",
            where.at("num_cat"),
            "Train with numeric features only.",
        )
    if table.get("is_linear", "0") != "0":
        raise InputError(
            "the tree is linear, which is not supported.", where.at("is_linear"), "Train without linear_tree."
        )
    leaves = len(_list(table, "leaf_value", where))
    if table.get("num_leaves") != str(leaves) or not leaves:
        raise InputError(
            f"{leaves} leaf values, 'num_leaves' says {table.get('num_leaves')}.", where.at("leaf_value"), AGAIN
        )
    inner = leaves - 1
    names = ("split_feature", "threshold", "decision_type", "left_child", "right_child")
    feature, threshold, kinds, left, right = (_list(table, name, where) if inner else np.zeros(0) for name in names)
    for name, array in zip(names, (feature, threshold, kinds, left, right), strict=True):
        if len(array) != inner:
            raise InputError(f"{len(array)} entries for {inner} splits.", where.at(name), AGAIN)
        if name != "threshold" and not ((array == np.floor(array)).all() and (np.abs(array) < 2**31).all()):
            raise InputError("the entries must be integers.", where.at(name), AGAIN)
    decisions = kinds.astype(np.int64)
    if (decisions & CATEGORICAL).any():
        raise InputError(
            "the tree has categorical splits, which are not supported.",
            where.at("decision_type"),
            "Train with numeric features only.",
        )
    if ((decisions < 0) | (decisions >> 2 > 2)).any():
        raise InputError("a decision type is unknown.", where.at("decision_type"), AGAIN)
    if (feature < 0).any():
        raise InputError("a split tests a feature with a negative number.", where.at("split_feature"), AGAIN)

    def nodes(children: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Leaf i is written as -i - 1 and stands after the inner nodes here."""
        return np.concatenate([np.where(children < 0, inner - children - 1, children), np.full(leaves, -1.0)])

    pad = np.zeros(leaves)
    return make_tree(
        output,
        np.concatenate([feature, pad - 1]),
        np.concatenate([threshold, pad]),
        nodes(left),
        nodes(right),
        np.concatenate([np.zeros(inner), _list(table, "leaf_value", where)]),
        np.concatenate([decisions & DEFAULT_LEFT, pad]) != 0,
        np.concatenate([decisions >> 2, pad]).astype(np.uint8),
    )


def _block(tree: Tree, index: int, old: dict[str, str] | None) -> str:
    """Return the tree's text; statistics come from the old text where the shape is the same."""
    inner, leaves = np.flatnonzero(tree.feature >= 0), tree.leaves
    number = np.zeros(len(tree.feature), dtype=np.int64)
    number[inner] = np.arange(len(inner))
    number[leaves] = -1 - np.arange(len(leaves))
    table: dict[str, str] = {"num_leaves": str(len(leaves)), "num_cat": "0"}
    fields: Json = {}
    if len(inner):
        fields = {
            "split_feature": tree.feature[inner],
            "split_gain": np.zeros(len(inner)),
            "threshold": tree.threshold[inner],
            "decision_type": tree.default_left[inner] * DEFAULT_LEFT + (tree.missing[inner].astype(np.int64) << 2),
            "left_child": number[tree.left[inner]],
            "right_child": number[tree.right[inner]],
        }
    fields["leaf_value"] = tree.values[leaves, 0]
    if len(inner):
        fields |= {
            "leaf_weight": np.zeros(len(leaves)),
            "leaf_count": np.zeros(len(leaves), dtype=np.int64),
            "internal_value": np.zeros(len(inner)),
            "internal_weight": np.zeros(len(inner)),
            "internal_count": np.zeros(len(inner), dtype=np.int64),
        }
    table |= {key: " ".join(map(_number, array.tolist())) for key, array in fields.items()}
    table |= {"is_linear": "0", "shrinkage": "1"}
    shape = ("num_leaves", "split_feature", "decision_type", "left_child", "right_child")
    if old is not None and all(old.get(key) == table.get(key) for key in shape):
        changed: dict[str, str] = {key: table[key] for key in ("threshold", "leaf_value") if key in table}
        # Numbers that are the same keep their spelling.
        kept: dict[str, str] = {key: old[key] for key in changed if _same_numbers(old.get(key), changed[key])}
        table = {**old, **changed, **kept}
    return f"Tree={index}\n" + "".join(f"{key}={value}\n" for key, value in table.items()) + "\n\n"


def _same_numbers(old: str | None, new: str) -> bool:
    return old is not None and [float(part) for part in old.split()] == [float(part) for part in new.split()]


def _number(value: float) -> str:
    return repr(value)


def _list(table: dict[str, str], key: str, where: Where) -> npt.NDArray[np.float64]:
    try:
        return np.array([float(part) for part in table[key].split()], dtype=np.float64)
    except KeyError:
        raise InputError(f"'{key}' is missing.", where, "The file is truncated.") from None
    except ValueError:
        raise InputError("the line holds something that is not a number.", where.at(key), AGAIN) from None


def _header_integer(header: dict[str, str], key: str, where: Where) -> int:
    try:
        value = int(header[key])
    except (KeyError, ValueError):
        raise InputError(f"'{key}' is missing or not an integer.", where.at(key), AGAIN) from None
    if not 0 <= value <= 10_000_000:
        raise InputError(f"'{key}' is {value}.", where.at(key), "It must be between 0 and 10000000.")
    return value


def _own_names(header: dict[str, str], key: str, where: Where) -> list[str] | None:
    if key not in header:
        return None
    try:
        names = json.loads(header[key])
    except ValueError:
        names = None
    if not isinstance(names, list):
        raise InputError("the line is not a JSON list of names.", where.at(key), 'Write ["x", "y"].')
    return list(checked_names(names, len(names), key.removeprefix("polvet.").removesuffix("s"), where.at(key)))


def _writes(policy: Policy, path: str) -> bool:
    return isinstance(policy, TreeEnsemble) and policy.origin is not None and policy.origin.kind == "lightgbm"


def _write(policy: Policy, path: str) -> None:
    assert isinstance(policy, TreeEnsemble)
    save_lightgbm(policy, path)


LIGHTGBM = PolicyFormat(
    "lightgbm",
    "LightGBM text",
    "`tree` in the first line",
    "header lines `polvet.inputs=[...]`, `polvet.outputs=[...]`, else `feature_names`",
    detects=SIGNATURES["lightgbm"],
    read=lambda content, names: ensemble_from_lightgbm(content.text, content.where, *names.both),
    writes=_writes,
    write=_write,
    saved="yes; loads in LightGBM",
)
