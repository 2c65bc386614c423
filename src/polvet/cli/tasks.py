"""The options that turn a file into a task, shared by all commands that take TASK or MODEL."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polvet.errors import InputError, Where
from polvet.model.task import Task, TaskOptions
from polvet.sources import parse_avoid, parse_constants, parse_mode, parse_out_of_bounds

if TYPE_CHECKING:
    from polvet.workers.protocol import Crew
    from polvet.workers.protocol import Workers as AnyWorkers

RAY = "ray:"
TaskFile = Annotated[Path, typer.Argument(metavar="TASK", help="A task.toml, or a JANI, PRISM or PDDL model.")]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A JANI, PRISM or PDDL model, or a task.toml.")]
Constants = Annotated[str, typer.Option("--constants", help="Values of open constants: N=4,p=0.1.")]
Start = Annotated[str | None, typer.Option("--start", help="Where runs start: an expression or property:NAME.")]
Fail = Annotated[str | None, typer.Option("--fail", help="What must be avoided: an expression or property:NAME.")]
Goal = Annotated[str | None, typer.Option("--goal", help="What should be reached: an expression or property:NAME.")]
Domain = Annotated[
    Path | None, typer.Option("--domain", help="The domain of a PDDL problem (default: domain.pddl beside it).")
]
OutOfBounds = Annotated[
    str, typer.Option("--out-of-bounds", help="An assignment outside its bounds: 'error', or 'disable' the operator.")
]
MaxStates = Annotated[int | None, typer.Option("--max-states", help="Stop above this many states.", min=1)]


def task_options(
    constants: str, start: str | None = None, fail: str | None = None, goal: str | None = None,
    out_of_bounds: str = "error", mode: str | None = None, avoid: str = "", domain: Path | None = None,
) -> TaskOptions:  # fmt: skip
    """Return the options as `load_task` takes them."""
    return TaskOptions(
        parse_constants(constants), start, fail, goal, parse_out_of_bounds(out_of_bounds, Where("--out-of-bounds")),
        parse_mode(mode, Where("--mode")), parse_avoid(avoid, Where("--avoid")),
        domain,
    )  # fmt: skip


def threads_of(workers: str, tasks: int) -> int:
    """Return how many threads `--workers` asks for: `all` is every core, but no more than there are tasks."""
    if workers == "all":
        return max(1, min(os.cpu_count() or 1, tasks))
    if is_cluster(workers):
        raise InputError(
            "this command runs on one machine.",
            Where("--workers"),
            "Give a number of threads, or 'all'; see docs/scale.md.",
        )
    if not workers.isdigit() or int(workers) < 1:
        raise InputError(f"'{workers}' is no number of threads.", Where("--workers"), "Give 1 or more, or 'all'.")
    return int(workers)


def is_cluster(workers: str) -> bool:
    """Return whether `--workers` asks for a Ray cluster."""
    return workers.startswith(RAY)


@contextmanager
def crew_of(workers: str, task: Task, *, policy: Path | None = None) -> Iterator[Crew | None]:
    """Connect to the Ray cluster that `--workers` names, and pack what its processes need; None where it names none."""
    if not is_cluster(workers):
        yield None
        return
    from polvet.workers.parcel import pack
    from polvet.workers.protocol import Crew

    parcel = pack(task, policy=policy)
    with workers_of(workers) as cluster:
        assert cluster is not None
        yield Crew(cluster, parcel)


@contextmanager
def workers_of(workers: str) -> Iterator[AnyWorkers | None]:
    """Connect to the Ray cluster that `--workers` names; None where it names none."""
    if not is_cluster(workers):
        yield None
        return
    from polvet.workers.ray_cluster import open_cluster

    with open_cluster(workers.removeprefix(RAY)) as cluster:
        yield cluster


def only_state(given: list[str] | None) -> str | None:
    """Return the state of `--state`; a second one is refused rather than forgotten."""
    if given is not None and len(given) > 1:
        shown = " and ".join(f"'{one[:40]}'" for one in given[:2])
        raise InputError(
            f"{shown}: one state is asked for.",
            Where("--state"),
            "Give it once; polvet decide takes several from --states FILE.",
        )
    return given[0] if given else None
