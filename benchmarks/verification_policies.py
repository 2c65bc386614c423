"""Networks for the verification benchmark: they imitate a careful rule, so that their safety is plausible but not given, or learn by
deep Q-learning (`-dqn`), as in the paper on policy predicate abstraction: 1 at goals, -1 at fails, some with mild shaping.

Run as `python -m benchmarks.verification_policies [REGEX]` (needs torch); the results are kept in benchmarks/policies/.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from polvet.domains import generate
from polvet.kernel.starts import Starts
from polvet.model.semantics import Semantics, State
from polvet.model.task import Task
from polvet.policy.onnx_save import save_onnx
from polvet.policy.torch_network import network_from_torch
from polvet.safety.decide import Decider

FOLDER = Path(__file__).parent / "policies"
BARTO_SMALL = Path(__file__).parents[2] / "shared/benchmarks/racetrack-momba/tracks/barto-small.track.txt"
"""The paper's map, which is not shipped; left out where it is not there."""
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


def stacking(state: dict[str, int]) -> str:
    """Never use the table: grasp the first clear block, put it on the last clear one."""
    blocks = sum(1 for name in state if name.startswith("clear_"))
    clear = [k for k in range(blocks) if state[f"clear_{k}"] and state[f"block_{k}"] != 0]
    if state["hand-empty"]:
        return f"choose_block_{clear[0]}"
    return f"choose_block_{clear[-1]}" if clear else "choose_table"


def safe_rule(task: Task) -> Rule:
    """Take the first safe action, if there is one."""
    decider = Decider(task)
    names = [variable.name for variable in task.network.variables]
    labels = task.network.labels

    def rule(state: dict[str, int]) -> str:
        safe = decider.safe_actions(tuple(state[name] for name in names))
        return next((label for label in safe if label is not None), labels[0])

    return rule


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
    task: Task,
    rule: Rule,
    hidden: tuple[int, ...],
    path: Path,
    leave_out: tuple[str, ...] = (),
    *,
    count: int = 6_000,
    seed: int = 0,
    unit: str = "ReLU",
) -> float:
    """Train a network on the rule, save it, and return the share of samples on which it agrees."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    names = [v.name for v in task.network.variables if not v.is_location and not v.name.startswith(leave_out)]
    places = [k for k, v in enumerate(task.network.variables) if v.name in names]
    labels = list(task.network.labels)
    pairs = samples(task, rule, count, seed)
    inputs = torch.tensor([[float(state[k]) for k in places] for state, _ in pairs])
    wanted = torch.tensor([labels.index(action) for _, action in pairs])
    sizes = [len(names), *hidden, len(labels)]
    layers: list[torch.nn.Module] = []
    for k in range(len(sizes) - 1):
        layers += [torch.nn.Linear(sizes[k], sizes[k + 1]), getattr(torch.nn, unit)()]
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
    path.parent.mkdir(exist_ok=True)
    save_onnx(network_from_torch(model, names, labels), str(path))
    return agreed


def instances() -> Iterator[tuple[str, Task, Rule, tuple[int, ...], tuple[str, ...]]]:
    """Yield name, task, teacher, hidden sizes, and the variables that the network does not see."""
    widths = (16, 32, 64)
    for locations, packages in ((4, 4), (10, 15)):
        task = generate("transport", locations=locations, packages=packages).task()
        for width in widths:
            name = f"transport-{locations}-{packages}-2x{width}"
            yield name, task, careful_truck, (width, width), ("last_capacity_diff",)
    for blocks in (4, 6, 8):
        task = generate("blocksworld", n=blocks).task()
        for width in widths if blocks > 4 else widths[:1]:
            hidden = width, width
            yield f"blocksworld-{blocks}-ci-2x{width}", task, stacking, hidden, ("cost_block", "step_cost")
            yield f"blocksworld-{blocks}-ca-2x{width}", task, stacking, hidden, ("step_cost",)
    three = generate("sliding-tiles", n=3, cost=3).task()
    rule = safe_rule(generate("sliding-tiles", n=3, cost=0).task())
    yield "sliding-tiles-3-ci-2x16", three, rule, (16, 16), ("cost_", "step_cost")
    tiles = generate("sliding-tiles", n=8).task()
    careful = safe_rule(generate("sliding-tiles", n=8, cost=0).task())
    for width in widths:
        yield f"sliding-tiles-8-ci-2x{width}", tiles, careful, (width, width), ("cost_", "step_cost")
        yield f"sliding-tiles-8-ca-2x{width}", tiles, careful, (width, width), ("step_cost",)
    maps = {"corner": "corner"}
    if BARTO_SMALL.exists():
        maps["barto-small"] = str(BARTO_SMALL)
    for name, file in maps.items():
        track = generate("racetrack", map=file).task()
        for width in widths:
            yield f"racetrack-{name}-2x{width}", track, safe_rule(track), (width, width), ()


FEW_SAMPLES = 60


def imperfect_instances() -> Iterator[tuple[str, Task, Rule, tuple[int, ...], tuple[str, ...]]]:
    """Yield what `instances` does, of networks that see a few samples of the rule: they are not safe from everywhere."""
    wide = (32, 32)
    line = generate("one-way-line", n=8, p=5).task()
    yield "one-way-line-8-5-2x32-few", line, safe_rule(line), wide, ()
    blocks = generate("blocksworld", n=6).task()
    yield "blocksworld-6-ci-2x32-few", blocks, stacking, wide, ("cost_block", "step_cost")
    road = generate("transport", locations=4, packages=4).task()
    yield "transport-4-4-2x32-few", road, careful_truck, wide, ("last_capacity_diff",)


@dataclass(frozen=True, slots=True)
class Pupil:
    """A network that learns by deep Q-learning: of which task, of what size, from which variables, and how."""

    name: str
    task: Task
    hidden: tuple[int, ...]
    leave_out: tuple[str, ...] = ()
    steps: int = 300_000
    shaping: str | None = None


def pupils() -> Iterator[Pupil]:
    """Yield what learns: `-short` for a while only, `-shaped` with rewards for packages that are delivered or on the truck."""
    for name, task, _, hidden, leave_out in instances():
        yield Pupil(f"{name}-dqn", task, hidden, leave_out)
    for n, p in ((3, 4), (8, 5)):
        line = generate("one-way-line", n=n, p=p).task()
        for width in (16, 32, 64):
            yield Pupil(f"one-way-line-{n}-{p}-2x{width}-dqn-short", line, (width, width), steps=40_000)
    road = generate("transport", locations=4, packages=4).task()
    for width in (16, 32, 64):
        delivered = "(2 * location_load_3 + truck_load_0) / 16"
        yield Pupil(
            f"transport-4-4-2x{width}-dqn-shaped", road, (width, width), ("last_capacity_diff",), shaping=delivered
        )


def teach(pupil: Pupil, path: Path) -> None:
    """Train a network by deep Q-learning on the variables it may see, and save it."""
    from polvet.train.course import Course, pupil_of, train

    seen = (variable for variable in pupil.task.network.variables if not variable.is_location)
    names = tuple(one.name for one in seen if not one.name.startswith(pupil.leave_out))
    course = Course(
        "mlp", hidden=",".join(map(str, pupil.hidden)), steps=pupil.steps, max_steps=100, shaping=pupil.shaping
    )
    fitted = pupil_of(replace(pupil.task, reading=replace(pupil.task.reading, inputs=names)))
    policy, figures = train(fitted, course, seed=0)
    print(pupil.name, figures["curve"][-1], flush=True)
    save_onnx(policy, str(path))


def tasks() -> Iterator[tuple[str, Task]]:
    """Yield the name of every network that there is, with its task."""
    for name, task, *_ in (*instances(), *imperfect_instances()):
        yield name, task
    for pupil in pupils():
        yield pupil.name, pupil.task


def main(only: str = "") -> None:
    """Train those that match and whose file is missing."""
    for many, count in ((instances(), 6_000), (imperfect_instances(), FEW_SAMPLES)):
        for name, task, rule, hidden, leave_out in many:
            path = FOLDER / f"{name}.onnx"
            if re.search(only, name) and not path.exists():
                print(name, imitate(task, rule, hidden, path, leave_out, count=count), flush=True)
    for pupil in pupils():
        path = FOLDER / f"{pupil.name}.onnx"
        if only and re.search(only, pupil.name) and not path.exists():  # all together would take an hour
            teach(pupil, path)


if __name__ == "__main__":
    main(*sys.argv[1:])
