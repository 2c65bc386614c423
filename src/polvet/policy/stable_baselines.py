"""stable-baselines3 archives: what `model.predict(..., deterministic=True)` takes the best of, without unpickling anything.

`policy.pth` is read with torch's `weights_only=True` loader, `data` as JSON; its serialized entries are never touched.
Read     PPO, A2C, TRPO, MaskablePPO: the actor; DQN: the Q-network; QRDQN: the mean of its quantiles. Tanh, ReLU and the other units of
         `torch_network.ACTIVATIONS`; observations in a Box, Discrete and MultiDiscrete ones (one-hot), MultiBinary ones
Refused  recurrent policies, feature extractors with weights, dictionaries of observations, actions that are not Discrete; policy
         classes, feature extractors and activation functions that somebody else wrote: their code is not in the archive; each by name
Normal   the statistics of a VecNormalize are read from the member `polvet.normalization.json`, which `normalization_of` makes of the
         wrapper: (observation - mean) / sqrt(variance + epsilon), clipped. The library never looks at that member
Saved    with other weights in the last layer; every other member is copied as it is
An actor's choice is the best *probability*: what its softmax may level is part of the near ties.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from polvet.errors import InputError, Where
from polvet.files import Json, parse_json, write_whole
from polvet.policy.archives import open_archive, read_member
from polvet.policy.format import PolicyFormat
from polvet.policy.networks import Archive
from polvet.policy.protocol import Policy
from polvet.policy.signatures import SIGNATURES
from polvet.policy.tape import Tape
from polvet.policy.torch_network import ACTIVATIONS, torch_package
from polvet.policy.unit_graph import AnyNetwork, Columns, dense_layers

AGAIN = "Save the model again with model.save, or export the policy to ONNX."

_CLASS = re.compile(r"<class '(?:([\w.]*)\.)?(\w+)'>")
_LIBRARIES, _MASKED = ("stable_baselines3.", "sb3_contrib."), "sb3_contrib.common.maskable."
_IGNORED = ("q_net_target.", "quantile_net_target.", "mlp_extractor.value_net.", "value_net.")
_SHARED, _ACTOR = "mlp_extractor.shared_net.", "mlp_extractor.policy_net."
_VALUES = {"q_net.q_net.": "DQN", "quantile_net.quantile_net.": "QRDQN"}
OWN_CODE = "Classes of your own are code that is not in the archive: export the policy to ONNX."
MOST_VALUES = 1 << 16
NORMALIZATION = "polvet.normalization.json"
NORMAL_HINT = (
    "Write it with json.dumps of mean, variance, epsilon and clip of the VecNormalize, one number per observed value."
)


def network_from_stable_baselines(
    data: bytes, where: Where, inputs: Sequence[str] | None = None, outputs: Sequence[str] | None = None
) -> AnyNetwork:
    """Return the network that `model.predict(..., deterministic=True)` takes the best output of."""
    archive = open_archive(data, where)
    text = read_member(archive, "data", where)
    try:
        settings = parse_json(text.decode(), where.at("data"), parse_constant=float)
    except UnicodeDecodeError:
        raise InputError("'data' in the archive is not UTF-8 text.", where, AGAIN) from None
    if not isinstance(settings, dict):
        raise InputError("'data' in the archive is not a JSON object.", where, AGAIN)
    masked = _check_classes(settings, where.at("data")).startswith(_MASKED)
    weights = _weights(read_member(archive, "policy.pth", where), where)
    values = next((prefix for prefix in _VALUES if any(key.startswith(prefix) for key in weights)), None)
    actions = _count(_space(settings, "action_space", ("Discrete",), where), "n", where.at("data").at("action_space"))
    activation = _activation(settings, "Tanh" if values is None else "ReLU", where)
    place = where.at("policy.pth")
    names = _layer_names(weights, values, place)
    layers = [_layer(weights, name, place) for name in names]
    tape, columns, counts = _observed(settings, where)
    if NORMALIZATION in archive.namelist():
        columns = _normalized(tape, columns, settings, read_member(archive, NORMALIZATION, where), where)
    for index, (matrix, bias) in enumerate(layers):
        if matrix.shape[1] != len(columns):
            raise InputError(f"'{names[index]}' takes {matrix.shape[1]} values, {len(columns)} arrive.", place, AGAIN)
        columns = tape.affine(columns, matrix, bias)
        if index + 1 < len(layers):
            columns = ACTIVATIONS[activation](tape, columns, None)
    if values == "quantile_net.quantile_net.":
        columns = _means(tape, columns, actions, place)
    if len(columns) != actions:
        raise InputError(f"there are {len(columns)} scores for {actions} actions.", place, AGAIN)
    return replace(
        tape.policy(columns, inputs, outputs, softmax=values is None),
        archive=Archive("stable-baselines3", data, names[-1], values=counts, masked=masked),
    )


def save_stable_baselines(network: AnyNetwork, path: str | Path) -> None:
    """Write the archive that the network was read from, with the network's last layer."""
    if network.archive is None or network.archive.kind != "stable-baselines3":
        raise InputError(
            "this network does not come from a stable-baselines3 archive.", Where(str(path)), "Save it as .onnx."
        )
    torch = torch_package()
    where, name = Where(str(path)), network.archive.layer
    old = open_archive(network.archive.document, where)
    weights = _weights(read_member(old, "policy.pth", where), where)
    layers = dense_layers(network)
    for part, made in zip(("weight", "bias"), layers[-1], strict=True):
        before = weights[f"{name}.{part}"]
        if tuple(before.shape) != made.shape:
            raise InputError(
                f"the repaired network has another shape than '{name}' in the archive.", where, "Save it as .onnx."
            )
        weights[f"{name}.{part}"] = torch.from_numpy(made.copy())
    stored, fresh = io.BytesIO(), io.BytesIO()
    torch.save(weights, stored)
    with zipfile.ZipFile(fresh, "w", zipfile.ZIP_STORED) as archive:
        for member in old.infolist():
            content = stored.getvalue() if member.filename == "policy.pth" else read_member(old, member.filename, where)
            archive.writestr(zipfile.ZipInfo(member.filename, member.date_time), content)
    write_whole(path, fresh.getvalue())


def normalization_of(wrapper: Any) -> str:
    """Return the statistics of a VecNormalize as the JSON text that the archive's member `polvet.normalization.json` holds."""
    moments = wrapper.obs_rms
    return json.dumps(
        {
            "mean": np.asarray(moments.mean, dtype=np.float64).reshape(-1).tolist(),
            "variance": np.asarray(moments.var, dtype=np.float64).reshape(-1).tolist(),
            "epsilon": float(wrapper.epsilon),
            "clip": float(wrapper.clip_obs),
        }
    )


def _normalized(tape: Tape, columns: Columns, settings: Json, text: bytes, where: Where) -> Columns:
    place = where.at(NORMALIZATION)
    _space(settings, "observation_space", ("Box",), where)
    try:
        table = json.loads(text)
        mean, variance = (np.array(table[key], dtype=np.float64) for key in ("mean", "variance"))
        epsilon, clip = float(table["epsilon"]), float(table["clip"])
    except (ValueError, KeyError, TypeError):
        raise InputError("is not JSON with mean, variance, epsilon and clip.", place, NORMAL_HINT) from None
    if mean.shape != (len(columns),) or variance.shape != mean.shape:
        raise InputError(f"has {mean.size} means for {len(columns)} observed values.", place, NORMAL_HINT)
    with np.errstate(invalid="ignore"):
        deviation = np.sqrt(variance + epsilon)
    if not (np.isfinite(mean).all() and np.isfinite(deviation).all() and (deviation > 0).all() and clip > 0):
        raise InputError("has a number that is not finite, or a deviation that is not positive.", place, NORMAL_HINT)
    scaled = tape.normalised(columns, mean, deviation, np.ones_like(mean), np.zeros_like(mean))
    return tape.unit("clip", scaled, -clip, clip)


def _observed(settings: Json, where: Where) -> tuple[Tape, Columns, tuple[int, ...]]:
    """Return a tape with the observation as the library gives it to the first layer: whole numbers one-hot (how many), others flat."""
    place = where.at("data").at("observation_space")
    space = _space(settings, "observation_space", ("Box", "Discrete", "MultiDiscrete", "MultiBinary"), where)
    kind = _CLASS.fullmatch(space[":type:"])
    assert kind is not None
    if kind.group(2) == "Box" and space.get("dtype") == "uint8":
        raise InputError(
            "the observations are bytes, which the library may scale as images.", place, "Use float32 observations."
        )
    if kind.group(2) in ("Box", "MultiBinary"):
        sizes = _numbers(space.get("_shape"), place.at("_shape"))
        width = int(np.prod(sizes, dtype=np.float64)) if sizes else 0
        if not 0 < width <= MOST_VALUES:
            raise InputError(f"the observations have the shape {sizes}.", place, "Use a vector of observations.")
        tape = Tape(width, where)
        return tape, np.arange(width, dtype=np.int32), ()
    sizes = (
        [_count(space, "n", place)] if kind.group(2) == "Discrete" else _numbers(space.get("nvec"), place.at("nvec"))
    )
    starts = _numbers(space.get("start", 0), place.at("start"))
    if not sizes or min(sizes) < 1 or sum(sizes) > MOST_VALUES or any(starts):
        raise InputError(f"the observations count {sizes} values from {starts}.", place, "Count from 0, and fewer.")
    tape = Tape(len(sizes), where)
    place_of = np.repeat(np.arange(len(sizes)), sizes)
    number = np.concatenate([np.arange(size) for size in sizes])
    return tape, tape.unit("equal", place_of, number, number), tuple(sizes)


def _means(tape: Tape, columns: Columns, actions: int, place: Where) -> Columns:
    """Write the mean over quantiles of each action's values, which stand [quantiles, actions]."""
    if len(columns) % actions:
        raise InputError(f"{len(columns)} quantiles do not fit {actions} actions.", place, AGAIN)
    groups = columns.reshape(-1, actions).T
    share = np.float32(1 / groups.shape[1])
    exact = float(share) * groups.shape[1] == 1
    return tape.affine(groups, np.full(groups.shape, share), None, None, 0 if exact else 2)


def _weights(data: bytes, where: Where) -> Json:
    torch = torch_package()
    place = where.at("policy.pth")
    open_archive(data, place)  # torch's own format is a zip archive, too: its size is checked before torch unpacks it
    try:
        weights = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises pickle, zip and runtime errors of many kinds
        reason = str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
        raise InputError(f"is not a plain table of weights ({reason}).", place, AGAIN) from None
    if not isinstance(weights, dict) or not all(isinstance(value, torch.Tensor) for value in weights.values()):
        raise InputError("is not a plain table of weights.", place, AGAIN)
    return weights


def _layer_names(weights: Json, values: str | None, place: Where) -> list[str]:
    """Return the layers that lead to the scores, in order."""
    numbers_of: dict[str, list[str]] = {prefix: [] for prefix in ((_SHARED, _ACTOR) if values is None else (values,))}
    for key in weights:
        own = next((prefix for prefix in numbers_of if key.startswith(prefix)), None)
        if own is not None:
            if key.endswith(".weight"):
                numbers_of[own].append(key.removeprefix(own).removesuffix(".weight"))
        elif "lstm" in key:
            raise InputError(f"'{key}': the policy has a memory.", place, "Recurrent policies are not read.")
        elif "features_extractor." in key:
            raise InputError(
                f"'{key}': the policy has a feature extractor with weights.", place, "Only MlpPolicy is read."
            )
        elif not key.startswith(("action_net.", *_IGNORED)):
            raise InputError(
                f"'{key}' is not part of an MLP policy.",
                place,
                "PPO, A2C, TRPO, MaskablePPO, DQN and QRDQN with MlpPolicy are read.",
            )
    numbers = [number for part in numbers_of.values() for number in part]
    if not all(number.isdigit() for number in numbers):
        raise InputError(f"the layers are called {numbers}.", place, "Only MlpPolicy is read.")
    names = [prefix + number for prefix, part in numbers_of.items() for number in sorted(part, key=int)]
    return names if values is not None else [*names, "action_net"]


def _layer(weights: Json, name: str, place: Where) -> tuple[Any, Any]:
    torch = torch_package()
    if f"{name}.weight" not in weights or f"{name}.bias" not in weights:
        raise InputError(f"'{name}' has no weight or no bias.", place, AGAIN)
    matrix, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
    for part in (matrix, bias):
        if part.dtype != torch.float32:
            raise InputError(
                f"'{name}' has {part.dtype} weights; only float32 is read.", place, "Save the model in float32."
            )
    if matrix.ndim != 2 or bias.shape != matrix.shape[:1]:
        raise InputError(f"'{name}' has the shapes {tuple(matrix.shape)} and {tuple(bias.shape)}.", place, AGAIN)
    return matrix.numpy(), bias.numpy()


def _check_classes(settings: Json, place: Where) -> str:
    """Return the module of the policy's class; raise an InputError where it, or the feature extractor's, is not the library's.

    SOUND: such a class may compute anything from the same weights.
    """
    written = settings.get("policy_class")
    module = written.get("__module__") if isinstance(written, dict) else None
    if not isinstance(module, str) or not module.startswith(_LIBRARIES):
        raise InputError(f"the policy's class is of the module {module!r}.", place.at("policy_class"), OWN_CODE)
    extractor = _options(settings, place).get("features_extractor_class")
    if extractor is not None and not str(extractor).endswith(".FlattenExtractor'>"):
        raise InputError(f"the feature extractor is {str(extractor)[:80]}.", place.at("policy_kwargs"), OWN_CODE)
    return module


def _options(settings: Json, place: Where) -> Json:
    options = settings.get("policy_kwargs")
    if options is not None and not isinstance(options, dict):
        raise InputError("the policy's options are not an object.", place.at("policy_kwargs"), AGAIN)
    return options or {}


def _space(settings: Json, key: str, known: tuple[str, ...], where: Where) -> Json:
    space = settings.get(key)
    kind = space.get(":type:", "") if isinstance(space, dict) else ""
    match = _CLASS.fullmatch(kind) if isinstance(kind, str) else None
    name = match.group(2) if match and (match.group(1) or "").startswith(("gymnasium.", "gym.")) else None
    if name not in known or not isinstance(space, dict):
        raise InputError(
            f"the {key.replace('_', ' ')} is {name or 'unknown'}; {', '.join(known)} {'is' if len(known) == 1 else 'are'} read.",
            where.at("data").at(key),
            "Wrap the environment so that it has such a space, or export the policy to ONNX.",
        )
    return space


def _count(space: Json, key: str, place: Where) -> int:
    numbers = _numbers(space.get(key), place.at(key))
    if len(numbers) != 1 or not 0 < numbers[0] <= MOST_VALUES:
        raise InputError(f"'{key}' is {space.get(key)!r}.", place.at(key), AGAIN)
    return numbers[0]


def _numbers(written: Any, place: Where) -> list[int]:
    """Return the whole numbers in a JSON value or in the text numpy makes of an array, such as '[3 4]'."""
    if isinstance(written, int) and not isinstance(written, bool):
        return [written]
    if isinstance(written, list) and all(isinstance(one, int) for one in written):
        return list(written)
    if isinstance(written, str) and re.fullmatch(r"[\[\]\s\d,()]*", written):
        return [int(one) for one in re.findall(r"\d{1,9}", written)]
    raise InputError(f"{str(written)[:60]!r} is not a list of whole numbers.", place, AGAIN)


def _activation(settings: Json, default: str, where: Where) -> str:
    place = where.at("data")
    written = _options(settings, place).get("activation_fn")
    if written is None:
        return default
    match = _CLASS.fullmatch(written) if isinstance(written, str) else None
    name = match.group(2) if match and (match.group(1) or "").startswith("torch.nn.") else str(written)[:80]
    if name not in ACTIVATIONS:
        raise InputError(
            f"the activation function is {name}.",
            place.at("policy_kwargs").at("activation_fn"),
            f"Read are torch's {', '.join(ACTIVATIONS)}.",
        )
    return name


def _write(policy: Policy, path: str) -> None:
    assert isinstance(policy, AnyNetwork)
    save_stable_baselines(policy, path)


STABLE_BASELINES = PolicyFormat(
    "stable-baselines3",
    "stable-baselines3's or sb3-contrib's zip",
    "`policy.pth` in the archive",
    "none",
    detects=SIGNATURES["stable-baselines3"],
    read=lambda content, names: network_from_stable_baselines(content.data, content.where, *names.both),
    writes=lambda policy, path: isinstance(policy, AnyNetwork) and path.endswith(".zip"),
    write=_write,
    saved="yes: the archive with another last layer, which the library loads; as ONNX by the ending `.onnx`",
    extra="train",
)
