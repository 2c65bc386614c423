"""torch models in memory: an `nn.Sequential` of Linear and ReLU as a network.

Flatten, Identity and Dropout (in evaluation mode) change nothing; every other module is refused by its class and position.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from polvet.errors import InputError, MissingExtra, Where
from polvet.policy.networks import Network, network_of


def torch_package() -> Any:
    """Return the package `torch`, or raise MissingExtra."""
    try:
        import torch
    except ImportError:
        raise MissingExtra("torch", "train") from None
    return torch


def network_from_torch(
    module: Any, inputs: Sequence[str] | None = None, outputs: Sequence[str] | None = None, where: Where | None = None
) -> Network:
    """Return the network of a torch `nn.Sequential` or `nn.Linear`, or raise an InputError that names the module."""
    torch = torch_package()
    place = where or Where(type(module).__name__)
    layers: list[tuple[Any, Any]] = []
    rectified = True
    for name, part in _flat(torch, module, ""):
        shown = f"the module '{name}' ({type(part).__name__})"
        if isinstance(part, torch.nn.Linear):
            if not rectified:
                raise InputError(
                    f"{shown} follows a linear layer without ReLU between.", place, "Multiply the two layers out."
                )
            if part.weight.dtype != torch.float32:
                raise InputError(
                    f"{shown} has {part.weight.dtype} weights; only float32 is read.",
                    place,
                    "Convert the module with .float().",
                )
            weights = part.weight.detach().cpu().numpy()
            bias = np.zeros(len(weights), dtype=np.float32) if part.bias is None else part.bias.detach().cpu().numpy()
            layers.append((weights, bias))
            rectified = False
        elif isinstance(part, torch.nn.ReLU):
            if not layers:
                raise InputError(
                    f"{shown} is applied to the inputs themselves.", place, "Use Linear layers with ReLU between them."
                )
            rectified = True
        elif isinstance(part, torch.nn.Dropout) and part.training:
            raise InputError(f"{shown} is random while training.", place, "Call .eval() first.")
        elif not isinstance(part, torch.nn.Flatten | torch.nn.Identity | torch.nn.Dropout):
            raise InputError(
                f"{shown} is not supported.", place, "Supported are Linear, ReLU, Flatten, Identity, Dropout."
            )
    if not layers:
        raise InputError("the module has no linear layer.", place, "Use Linear layers with ReLU between them.")
    if rectified:
        size = len(layers[-1][0])
        layers.append((np.eye(size, dtype=np.float32), np.zeros(size, dtype=np.float32)))
    return network_of(layers, inputs, outputs, place)


def _flat(torch: Any, module: Any, name: str) -> Iterator[tuple[str, Any]]:
    if isinstance(module, torch.nn.Sequential):
        for key, part in module.named_children():
            yield from _flat(torch, part, f"{name}.{key}" if name else key)
    else:
        yield name or "0", module
