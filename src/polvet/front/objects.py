"""Policies as the objects that people hold: each kind of library object as a file's bytes, and back.

What is digested  the bytes that `Policy.save` writes: XGBoost's JSON, LightGBM's text, skops, stable-baselines3's zip, ONNX of a
         torch module, `table/1` of a dictionary or array. An object is turned into them once, when it comes in, and everything
         polvet says is about these bytes. A Python function has none: what is said of it holds for its answers (`by execution`)
Kinds    `KINDS` lists them as data; an object is told by the modules of its classes, so that no library is imported for it
"""

from __future__ import annotations

import copy
import io
import json
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from inspect import signature
from typing import Any

import numpy as np

from polvet.errors import InputError, MissingExtra, Where
from polvet.files import Json
from polvet.policy.agents import Agent
from polvet.policy.arrays import table_from_array
from polvet.policy.tables import table_text


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of object: the library it belongs to, the ending of its file, how it becomes bytes, and how it comes back.

    `restore(bytes, object)` returns an object of the given one's class that chooses as the bytes say.
    """

    name: str
    library: str
    suffix: str
    dump: Callable[[Any], bytes]
    restore: Callable[[bytes, Any], Any]
    predict: Callable[[Any], Agent] | None = None  # how an object is asked for its own choices


@dataclass(frozen=True, slots=True)
class Payload:
    """An object as the bytes of a file."""

    data: bytes
    suffix: str
    kind: Kind | None = None
    given: Any = None


def payload_of(value: Any) -> Payload | None:
    """Return the library object as bytes; None where it is of no library that polvet knows."""
    libraries = {cls.__module__.partition(".")[0] for cls in type(value).__mro__}
    for kind in KINDS:
        if kind.library in libraries:
            return Payload(kind.dump(value), kind.suffix, kind, value)
    return None


def table_payload(given: Any, inputs: Sequence[str], labels: Sequence[str]) -> Payload:
    """Return a dictionary from states to actions (or scores), a pandas object, or an array by state as `table/1`.

    A key is the value of the only input, or a tuple with one value per input; an action is a label or its number. A Series is a
    dictionary by its index; a frame has a column of scores per label, by its index, or a column per input and `action`.
    """
    where = Where("policy")
    if not isinstance(given, Mapping) and not _is_frame(given):
        table = table_from_array(np.asarray(given), where, inputs, labels)
        return Payload(table_text(table).encode(), ".json", TABLE, given)
    listed = []
    for key, answer in _pairs(given, inputs, labels, where):
        values = key if isinstance(key, tuple) else (key,)
        if len(values) != len(inputs):
            raise InputError(
                f"the key {key!r} has {len(values)} values; the policy reads {len(inputs)} inputs.",
                where,
                f"Give one value each for {', '.join(inputs)}.",
            )
        state = {name: _plain(value) for name, value in zip(inputs, values, strict=True)}
        listed.append({"state": state, **_answer(answer, labels, where)})
    document = {"format": "table/1", "inputs": list(inputs), "outputs": list(labels), "rows": listed}
    return Payload((json.dumps(document, ensure_ascii=False) + "\n").encode(), ".json", TABLE, given)


def _restore_table(data: bytes, value: Any) -> Any:
    """Return a dictionary of labels by state (its keys as they came), or an array of scores of the given one's shape."""
    document = json.loads(data)
    labels, rows = document["outputs"], document["rows"]
    by_state = {
        tuple(row["state"].values()): row["scores"] if "scores" in row else [float(x == row["action"]) for x in labels]
        for row in rows
    }
    if _is_frame(value):
        return _restored_frame(value, document["inputs"], labels, by_state)
    if not isinstance(value, Mapping):
        fresh = np.array(value)
        numbers = fresh.ndim == len(document["inputs"])
        fresh = fresh if numbers else fresh.astype(float)
        for key, scores in by_state.items():
            fresh[tuple(map(int, key))] = scores.index(max(scores)) if numbers else scores
        return fresh
    chosen = {key: labels[scores.index(max(scores))] for key, scores in by_state.items()}
    return {key: chosen[tuple(map(_plain, key)) if isinstance(key, tuple) else (_plain(key),)] for key in value} | {
        key if len(key) > 1 else key[0]: label for key, label in chosen.items() if not _has(value, key)
    }


def _is_frame(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "pandas"


def _pairs(value: Any, inputs: Sequence[str], labels: Sequence[str], where: Where) -> list[tuple[Any, Any]]:
    """Return states and answers of a dictionary, a Series or a frame."""
    if not hasattr(value, "columns"):
        return list(value.items())
    if set(labels) <= set(value.columns):
        return list(zip(value.index, value[list(labels)].to_numpy(dtype=float), strict=True))
    if {*inputs, "action"} <= set(value.columns):
        states = value[list(inputs)].itertuples(index=False, name=None)
        return list(zip(states, value["action"], strict=True))
    raise InputError(
        f"the frame has the columns {', '.join(map(str, value.columns))}.",
        where,
        f"Give a column of scores for each of {', '.join(labels)}; or columns {', '.join(inputs)} and action.",
    )


def _restored_frame(value: Any, inputs: Sequence[str], labels: Sequence[str], scores: Mapping[Any, list[float]]) -> Any:
    """Return a pandas object of the given shape with the scores or labels of its states."""
    fresh = value.copy()
    listed = [
        scores[tuple(map(_plain, key)) if isinstance(key, tuple) else (_plain(key),)]
        for key, _ in _pairs(value, inputs, labels, Where("policy"))
    ]
    best = [labels[one.index(max(one))] for one in listed]
    if not hasattr(value, "columns"):
        return type(value)(best, index=value.index, name=value.name)
    if set(labels) <= set(value.columns):
        fresh[list(labels)] = np.array(listed, dtype=float)
    else:
        fresh["action"] = best
    return fresh


def _has(value: Mapping[Any, Any], key: tuple[Any, ...]) -> bool:
    return key in value or (len(key) == 1 and key[0] in value)


def _answer(answer: Any, labels: Sequence[str], where: Where) -> Json:
    answer = _plain(answer)
    if isinstance(answer, str):
        return {"action": answer}
    if isinstance(answer, int):
        if not 0 <= answer < len(labels):
            raise InputError(
                f"there is no action {answer}.", where, f"Number the {len(labels)} labels from 0, or name one."
            )
        return {"action": labels[answer]}
    if isinstance(answer, list | tuple):
        return {"scores": [_plain(score) for score in answer]}
    raise InputError(
        f"{answer!r} is no action.", where, f"Give one of {', '.join(labels)}, its number, or a score per label."
    )


def _plain(value: Any) -> Any:
    """Return numpy's scalars and arrays as Python's own."""
    return value.tolist() if hasattr(value, "tolist") else value


def _library(name: str, extra: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise MissingExtra(name, extra) from None


def _dump_xgboost(model: Any) -> bytes:
    booster = model
    if hasattr(model, "get_booster"):  # an estimator's predict leaves out what came after the best round
        booster = model.get_booster()
        best = booster.attr("best_iteration")
        booster = booster if best is None else booster[: int(best) + 1]
    return bytes(booster.save_raw("json"))


def _restore_xgboost(data: bytes, model: Any) -> Any:
    fresh = type(model)()
    fresh.load_model(bytearray(data))
    return fresh


def _dump_lightgbm(model: Any) -> bytes:
    booster = model if hasattr(model, "model_to_string") else model.booster_
    text: str = booster.model_to_string()
    return text.encode()


def _restore_lightgbm(data: bytes, model: Any) -> Any:
    booster = _library("lightgbm", "trees").Booster(model_str=data.decode())
    if hasattr(model, "model_to_string"):
        return booster
    estimator = copy.copy(model)
    estimator._Booster = booster
    return estimator


def _dump_sklearn(model: Any) -> bytes:
    return _renumbered(_library("skops.io", "trees").dumps(model))


def _renumbered(data: bytes) -> bytes:
    """Return what skops wrote with the addresses of objects replaced by numbers: the same estimator gives the same bytes."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    numbers: dict[str, str] = {}

    def number(address: re.Match[str]) -> str:
        return address[1] + numbers.setdefault(address[2], str(len(numbers)))

    schema = re.sub(r'("__id__": |"file": ")(\d+)', number, parts.pop("schema.json").decode())
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("schema.json"), schema)
        named = {
            f"{numbers.get(name.partition('.')[0], name.partition('.')[0])}.{name.partition('.')[2]}": name
            for name in parts
        }
        for name in sorted(named):
            archive.writestr(zipfile.ZipInfo(name), parts[named[name]])
    return buffer.getvalue()


def _restore_sklearn(data: bytes, model: Any) -> Any:
    library = _library("skops.io", "trees")
    return library.loads(data, trusted=library.get_untrusted_types(data=data))


def _dump_stable_baselines(model: Any) -> bytes:
    from polvet.policy.stable_baselines import NORMALIZATION, normalization_of

    if not hasattr(model, "get_vec_normalize_env"):
        what = f"a {type(model).__name__} of stable-baselines3 is a part of a model."
        raise InputError(what, Where("policy"), "Give the model itself, which says how observations are read.")
    buffer = io.BytesIO()
    model.save(buffer)
    wrapper = model.get_vec_normalize_env()
    if wrapper is not None and wrapper.norm_obs:
        with zipfile.ZipFile(buffer, "a") as archive:
            archive.writestr(zipfile.ZipInfo(NORMALIZATION), normalization_of(wrapper))
    return buffer.getvalue()


def _ask_stable_baselines(model: Any) -> Agent:
    """Return the agent: what it takes the best of, in its own words, and whether its own environment masks actions."""
    masked = "action_masks" in signature(model.predict).parameters
    wrapper, own = model.get_vec_normalize_env(), model.get_env()

    def predict(observations: Any, masks: Any) -> Any:
        seen = observations if wrapper is None else wrapper.normalize_obs(observations)
        return model.predict(seen, deterministic=True, **({"action_masks": masks} if masked else {}))[0]

    try:
        return Agent(predict, masked and own is not None and own.has_attr("action_masks"))
    except (
        OSError,
        EOFError,
    ):  # environments in processes of their own that were closed: the world's masks are all there is
        return Agent(predict)


def _restore_stable_baselines(data: bytes, model: Any) -> Any:
    return type(model).load(io.BytesIO(data), env=model.get_env(), device="cpu")


def _dump_torch(model: Any) -> bytes:
    import tempfile
    from pathlib import Path

    from polvet.policy.save import save_policy
    from polvet.policy.torch_network import network_from_torch

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "policy.onnx"
        save_policy(network_from_torch(model), file)
        return file.read_bytes()


def _restore_torch(data: bytes, model: Any) -> Any:
    """Return a copy of the module with the network's weights; layers may have become wider, and a plain chain longer."""
    from polvet.policy.networks import Network
    from polvet.policy.onnx_file import network_from_onnx
    from polvet.policy.unit_graph import dense_layers

    torch = _library("torch", "train")
    network = network_from_onnx(data, Where("policy"))
    fresh = copy.deepcopy(model)
    linear = [part for part in fresh.modules() if isinstance(part, torch.nn.Linear)]
    layers = dense_layers(network)
    is_chain = isinstance(network, Network)  # of layers and ReLU: nothing of it stands outside of its layers
    if is_chain and len(linear) != len(layers) and type(model) is torch.nn.Sequential and _only_rectified(model, torch):
        linear = [torch.nn.Linear(1, 1) for _ in layers]
        fresh = torch.nn.Sequential(*(part for one in linear for part in (one, torch.nn.ReLU())))[:-1]
    same = [tuple(part.weight.shape) for part in linear] == [weights.shape for weights, _ in layers]
    if len(linear) != len(layers) or not (same or is_chain):
        raise InputError(
            "the repaired network has another shape than the module.",
            hint="Save it as ONNX, or repair with method='last-layer'.",
        )
    for part, (weights, bias) in zip(linear, layers, strict=True):
        part.out_features, part.in_features = weights.shape
        part.weight = torch.nn.Parameter(torch.from_numpy(weights.copy()))
        if part.bias is not None or bias.any():
            part.bias = torch.nn.Parameter(torch.from_numpy(bias.copy()))
    return fresh


def _only_rectified(model: Any, torch: Any) -> bool:
    """Return whether the chain is one of linear layers and ReLU alone, so that a longer one is of the same kind."""
    return all(isinstance(part, torch.nn.Linear | torch.nn.ReLU) for part in model)


def _dump_table(model: Any) -> bytes:
    raise AssertionError("a table is dumped by `table_payload`, which knows the task")


TABLE = Kind("table", "", ".json", _dump_table, _restore_table)
KINDS: tuple[Kind, ...] = (
    Kind("XGBoost", "xgboost", ".json", _dump_xgboost, _restore_xgboost),
    Kind("LightGBM", "lightgbm", ".txt", _dump_lightgbm, _restore_lightgbm),
    Kind(
        "stable-baselines3",
        "stable_baselines3",
        ".zip",
        _dump_stable_baselines,
        _restore_stable_baselines,
        _ask_stable_baselines,
    ),
    Kind("scikit-learn", "sklearn", ".skops", _dump_sklearn, _restore_sklearn),
    Kind("torch", "torch", ".onnx", _dump_torch, _restore_torch),
)
"""In this order: XGBoost's and LightGBM's estimators are scikit-learn's, too."""
