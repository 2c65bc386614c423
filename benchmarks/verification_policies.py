"""Networks for the verification benchmark: each imitates a careful rule, so that its safety is plausible but not given.

Run as `python -m benchmarks.verification_policies` (needs torch); the results are kept in benchmarks/policies/.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np

from polvet.domains import generate
from polvet.kernel.starts import Starts
from polvet.model.semantics import Semantics, State
from polvet.model.task import Task
from polvet.policy.networks import network_of
from polvet.policy.onnx_file import save_onnx

FOLDER = Path(__file__).parent / "policies"
Rule = Callable[[dict[str, int]], str]


def careful_truck(state: dict[str, int]) -> str:
    """Carry one package at a time over the bridge; put down whatever is too much."""
    locations = sum(1 for name in state if name.startswith("location_load_"))
    here, load, last = state["truck_0"], state["truck_load_0"], locations - 1
    waiting = state[f"location_load_{here}"]
    if here == last:
        return "drop_truck_0" if load else "drive_backward"
    if load >= 2:
        return "drop_truck_0"
    if load == 1:
        return "drive_forward"
    if waiting:
        return "pick_up_truck_0"
    behind = any(state[f"location_load_{k}"] for k in range(here))
    return "drive_backward" if behind and here else "drive_forward"


def samples(task: Task, rule: Rule, count: int, seed: int) -> list[tuple[State, str]]:
    """States along runs of the rule from random starts, with a random step now and then, and what the rule does there."""
    semantics, rng = Semantics(task.network), random.Random(seed)
    names = [variable.name for variable in task.network.variables]
    fails = semantics.compile(task.fail)
    found: list[tuple[State, str]] = []
    starts = Starts.of(task)
    while len(found) < count:
        state = starts.sample(1, rng)[0]
        for _ in range(12):
            action = rule(dict(zip(names, state, strict=True)))
            found.append((state, action))
            labels = semantics.applicable(state)
            taken = rng.choice(labels) if rng.random() < 0.3 else action
            if taken not in labels:
                break
            state = rng.choice(sorted(semantics.outcomes(state, taken)))
            if fails(state):
                break
    return found


def imitate(
    task: Task, rule: Rule, hidden: tuple[int, ...], path: Path, *, count: int = 40_000, seed: int = 0
) -> float:
    """Train a network on the rule, save it, and return the share of samples on which it agrees."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    names = [v.name for v in task.network.variables if v.name != "last_capacity_diff"]
    places = [k for k, v in enumerate(task.network.variables) if v.name in names]
    labels = list(task.network.labels)
    pairs = samples(task, rule, count, seed)
    inputs = torch.tensor([[float(state[k]) for k in places] for state, _ in pairs])
    wanted = torch.tensor([labels.index(action) for _, action in pairs])
    sizes = [len(names), *hidden, len(labels)]
    layers: list[torch.nn.Module] = []
    for k in range(len(sizes) - 1):
        layers += [torch.nn.Linear(sizes[k], sizes[k + 1]), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers[:-1])
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(4_000):
        if step == 3_000:
            optimizer.param_groups[0]["lr"] = 5e-4
        rows = torch.randint(0, len(pairs), (512,))
        loss = torch.nn.functional.cross_entropy(model(inputs[rows]), wanted[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    agreed = float((model(inputs).argmax(1) == wanted).float().mean())
    linear = [layer for layer in model if isinstance(layer, torch.nn.Linear)]
    arrays = [(np.array(one.weight.detach()), np.array(one.bias.detach())) for one in linear]
    path.parent.mkdir(exist_ok=True)
    save_onnx(network_of(arrays, names, labels), str(path))
    return agreed


def main() -> None:
    """Train all of them."""
    for locations, packages in ((4, 4), (10, 15)):
        task = generate("transport", locations=locations, packages=packages).task()
        for width in (16, 32, 64):
            path = FOLDER / f"transport-{locations}-{packages}-2x{width}.onnx"
            print(path.name, imitate(task, careful_truck, (width, width), path))


if __name__ == "__main__":
    main()
