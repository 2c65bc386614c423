"""torch models in memory: an `nn.Sequential` of Linear layers and units as a network.

Flatten, Identity and Dropout (in evaluation mode) change nothing; BatchNorm1d is read in evaluation mode. A softmax at the end is
dropped, as in ONNX files. Every module that is not named here is refused by its class and position, and so is a subclass or a module
with hooks: both may compute anything. `ACTIVATIONS` also tells stable-baselines3's `activation_fn` by its class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from polvet.errors import InputError, MissingExtra, Where
from polvet.policy.tape import Tape
from polvet.policy.unit_graph import AnyNetwork, Columns

Activation: TypeAlias = Callable[[Tape, Columns, Any], Columns]
"""Writes a module's values on a tape; without a module, those of the class made without arguments."""


def torch_package() -> Any:
    """Return the package `torch`, or raise MissingExtra."""
    try:
        import torch
    except ImportError:
        raise MissingExtra("torch", "train") from None
    return torch


def _simple(name: str) -> Activation:
    return lambda tape, columns, module: tape.unit(name, columns)


def _option(module: Any, name: str, default: float) -> float:
    return float(getattr(module, name, default))


def _prelu(tape: Tape, columns: Columns, module: Any) -> Columns:
    slopes = [0.25] if module is None else module.weight.detach().cpu().numpy()
    return tape.unit("leaky", columns, slopes)


def _gelu(tape: Tape, columns: Columns, module: Any) -> Columns:
    return tape.unit("gelu_tanh" if getattr(module, "approximate", "none") == "tanh" else "gelu", columns)


ACTIVATIONS: dict[str, Activation] = {
    "ReLU": lambda tape, columns, module: tape.relu(columns),
    "ReLU6": lambda tape, columns, module: tape.unit("clip", columns, 0.0, 6.0),
    "LeakyReLU": lambda tape, columns, module: tape.unit("leaky", columns, _option(module, "negative_slope", 0.01)),
    "PReLU": _prelu,
    "Hardtanh": lambda tape, columns, module: tape.unit(
        "clip", columns, _option(module, "min_val", -1.0), _option(module, "max_val", 1.0)
    ),
    "Hardsigmoid": lambda tape, columns, module: tape.unit("clip", tape.scaled(columns, 1 / 6, 0.5), 0.0, 1.0),
    "Tanh": _simple("tanh"),
    "Sigmoid": _simple("sigmoid"),
    "Softsign": _simple("softsign"),
    "Softplus": _simple("softplus"),
    "SiLU": _simple("silu"),
    "Mish": _simple("mish"),
    "GELU": _gelu,
    "Hardswish": _simple("hard_swish"),
    "ELU": lambda tape, columns, module: tape.unit("elu", columns, _option(module, "alpha", 1.0), 1.0),
    "SELU": lambda tape, columns, module: tape.unit("elu", columns, 1.6732632423543772, 1.0507009873554805),
    "Identity": lambda tape, columns, module: columns,
}


def network_from_torch(
    module: Any, inputs: Sequence[str] | None = None, outputs: Sequence[str] | None = None, where: Where | None = None
) -> AnyNetwork:
    """Return the network of a torch `nn.Sequential` or `nn.Linear`, or raise an InputError that names the module."""
    torch = torch_package()
    place = where or Where(type(module).__name__)
    parts = list(_flat(torch, module, "", place))
    first = next((part for _, part in parts if isinstance(part, torch.nn.Linear)), None)
    if first is None:
        raise InputError("the module has no linear layer.", place, "Use Linear layers with units between them.")
    tape = Tape(first.in_features, place)
    columns: Columns = np.arange(first.in_features, dtype=np.int32)
    softmax = ""
    for name, part in parts:
        shown, kind = f"the module '{name}' ({type(part).__name__})", type(part).__name__
        if softmax:
            raise InputError(f"{shown} follows {softmax}.", place, "A softmax is read at the end only.")
        if any(value.dtype != torch.float32 for value in part.parameters()):
            dtype = next(value.dtype for value in part.parameters() if value.dtype != torch.float32)
            raise InputError(
                f"{shown} has {dtype} weights; only float32 is read.", place, "Convert the module with .float()."
            )
        match kind:
            case "Linear":
                bias = None if part.bias is None else part.bias.detach().cpu().numpy()
                if part.in_features != len(columns):
                    raise InputError(
                        f"{shown} takes {part.in_features} values, {len(columns)} arrive.", place, "Fix it."
                    )
                columns = tape.affine(columns, part.weight.detach().cpu().numpy(), bias)
            case "Dropout":
                if part.training:
                    raise InputError(f"{shown} is random while training.", place, "Call .eval() first.")
            case "BatchNorm1d":
                columns = _batch_norm(tape, columns, part, shown, place)
            case "Softplus":
                if (part.beta, part.threshold) != (1, 20):
                    raise InputError(f"{shown} has beta {part.beta}; only 1 is read.", place, "Use beta = 1.")
                columns = tape.unit("softplus", columns)
            case "Softmax" | "LogSoftmax" if part.dim in (1, -1):
                softmax = shown
            case "Flatten" if part.start_dim == 1:
                pass
            case _ if kind in ACTIVATIONS:
                columns = ACTIVATIONS[kind](tape, columns, part)
            case _:
                known = ("Linear", "BatchNorm1d", "Dropout", "Flatten", "Softmax", "LogSoftmax", *ACTIVATIONS)
                raise InputError(
                    f"{shown} is not supported.", place, f"Export it to ONNX; read here are {', '.join(known)}."
                )
    return tape.policy(columns, inputs, outputs, softmax=bool(softmax))


def _batch_norm(tape: Tape, columns: Columns, part: Any, shown: str, place: Where) -> Columns:
    if part.training or part.running_mean is None:
        raise InputError(f"{shown} looks at the batch.", place, "Call .eval() first, with tracked statistics.")
    mean, variance = (
        value.detach().cpu().numpy().astype(np.float64) for value in (part.running_mean, part.running_var)
    )
    scale, shift = np.ones_like(mean), np.zeros_like(mean)
    if part.affine:
        scale, shift = (value.detach().cpu().numpy().astype(np.float64) for value in (part.weight, part.bias))
    return tape.normalised(columns, mean, np.sqrt(variance + part.eps), scale, shift)


def _flat(torch: Any, module: Any, name: str, place: Where) -> Iterator[tuple[str, Any]]:
    kind = type(module)
    # SOUND: a subclass may have another `forward`, and a hook may change what a module computes.
    hooks = ("_forward_hooks", "_forward_pre_hooks")
    if not kind.__module__.startswith("torch.nn.modules.") or any(getattr(module, hook, None) for hook in hooks):
        raise InputError(
            f"the module '{name or '0'}' is a {kind.__module__}.{kind.__name__} or has hooks: it may compute anything.",
            place,
            "Export it to ONNX.",
        )
    if isinstance(module, torch.nn.Sequential):
        for key, part in module.named_children():
            yield from _flat(torch, part, f"{name}.{key}" if name else key, place)
    else:
        yield name or "0", module
