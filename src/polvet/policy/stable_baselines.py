"""stable-baselines3 archives: DQN's Q-network, PPO's and A2C's actor, without unpickling anything.

`policy.pth` is read with torch's `weights_only=True` loader, `data` as JSON; its serialized entries are never touched.
Refused  Tanh (the default of PPO and A2C: train with activation_fn=ReLU), other activations, feature extractors with
         weights, observations that are not a Box, actions that are not Discrete; each by name
Limits   normalisation by VecNormalize is not part of the archive: a policy trained with it must be exported with it folded in
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Any

from polvet.errors import InputError, Where
from polvet.files import parse_json
from polvet.policy.archives import open_archive, read_member
from polvet.policy.networks import Network, network_of
from polvet.policy.torch_network import torch_package

AGAIN = "Save the model again with model.save, or export the policy to ONNX."

_ACTIVATION = re.compile(r"<class '(?:[\w.]*\.)?(\w+)'>")
_IGNORED = ("q_net_target.", "mlp_extractor.value_net.", "value_net.")
_ALIASES = ("pi_features_extractor.", "vf_features_extractor.", "features_extractor.")


def network_from_stable_baselines(
    data: bytes, where: Where, inputs: Sequence[str] | None = None, outputs: Sequence[str] | None = None
) -> Network:
    """Return the network that `model.predict(..., deterministic=True)` takes the best output of."""
    archive = open_archive(data, where)
    text = read_member(archive, "data", where)
    try:
        settings = parse_json(text.decode(), where.at("data"), parse_constant=float)
    except UnicodeDecodeError:
        raise InputError("'data' in the archive is not UTF-8 text.", where, AGAIN) from None
    if not isinstance(settings, dict):
        raise InputError("'data' in the archive is not a JSON object.", where, AGAIN)
    weights = _weights(read_member(archive, "policy.pth", where), where)
    q_network = any(key.startswith("q_net.") for key in weights)
    _check_space(settings, "observation_space", "Box", where)
    _check_space(settings, "action_space", "Discrete", where)
    if settings["observation_space"].get("dtype") == "uint8":
        place = where.at("data").at("observation_space")
        raise InputError(
            "the observations are bytes, which the library may scale as images.", place, "Use float32 observations."
        )
    _check_activation(settings, "ReLU" if q_network else "Tanh", where)
    layers = _chain(weights, q_network, where)
    return network_of(layers, inputs, outputs, where)


def _weights(data: bytes, where: Where) -> dict[str, Any]:
    torch = torch_package()
    place = where.at("policy.pth")
    open_archive(data, place)  # torch's own format is a zip archive, too: its size is checked before torch unpacks it
    try:
        found = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises pickle, zip and runtime errors of many kinds
        reason = str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
        raise InputError(f"is not a plain table of weights ({reason}).", place, AGAIN) from None
    if not isinstance(found, dict) or not all(isinstance(value, torch.Tensor) for value in found.values()):
        raise InputError("is not a plain table of weights.", place, AGAIN)
    return found


def _chain(weights: dict[str, Any], q_network: bool, where: Where) -> list[tuple[Any, Any]]:
    torch = torch_package()
    prefix = "q_net.q_net." if q_network else "mlp_extractor.policy_net."
    place = where.at("policy.pth")
    numbers = []
    for key in weights:
        if key.startswith(prefix) and key.endswith(".weight"):
            numbers.append(key.removeprefix(prefix).removesuffix(".weight"))
        elif key.startswith(_ALIASES) or "features_extractor." in key:
            raise InputError(
                f"'{key}': the policy has a feature extractor with weights.", place, "Only MlpPolicy is read."
            )
        elif not key.startswith((prefix, "action_net.", *_IGNORED)):
            raise InputError(
                f"'{key}' is not part of an MLP policy.", place, "DQN, PPO and A2C with MlpPolicy are read."
            )
    if not all(number.isdigit() for number in numbers):
        raise InputError(f"the layers are called {numbers}.", place, "Only MlpPolicy is read.")
    names = [prefix + number for number in sorted(numbers, key=int)]
    if not q_network:
        names.append("action_net")
    layers = []
    for name in names:
        if f"{name}.weight" not in weights or f"{name}.bias" not in weights:
            raise InputError(f"'{name}' has no weight or no bias.", place, AGAIN)
        pair = weights[f"{name}.weight"], weights[f"{name}.bias"]
        for part in pair:
            if part.dtype != torch.float32:
                raise InputError(
                    f"'{name}' has {part.dtype} weights; only float32 is read.", place, "Save the model in float32."
                )
        layers.append((pair[0].numpy(), pair[1].numpy()))
    if not layers:
        raise InputError("there is no layer in the policy.", place, AGAIN)
    return layers


def _check_space(settings: dict[str, Any], key: str, needed: str, where: Where) -> None:
    space = settings.get(key)
    kind = space.get(":type:", "") if isinstance(space, dict) else ""
    found = _ACTIVATION.fullmatch(kind) if isinstance(kind, str) else None
    name = found.group(1) if found else None
    if name != needed:
        raise InputError(
            f"the {key.replace('_', ' ')} is {name or 'unknown'}; only {needed} is read.",
            where.at("data").at(key),
            "Use MlpPolicy with ReLU, or export the policy to ONNX.",
        )


def _check_activation(settings: dict[str, Any], default: str, where: Where) -> None:
    options = settings.get("policy_kwargs")
    place = where.at("data").at("policy_kwargs")
    if options is not None and not isinstance(options, dict):
        raise InputError("the policy's options are not an object.", place, AGAIN)
    written = (options or {}).get("activation_fn")
    name = default
    if written is not None:
        found = _ACTIVATION.fullmatch(written) if isinstance(written, str) else None
        name = found.group(1) if found else str(written)
    if name != "ReLU":
        raise InputError(
            f"the activation function is {name}{' (the default)' if written is None else ''}; only ReLU is read.",
            place.at("activation_fn"),
            "Train with policy_kwargs=dict(activation_fn=torch.nn.ReLU).",
        )
