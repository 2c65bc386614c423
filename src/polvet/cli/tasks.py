"""The options that turn a file into a task, shared by all commands that take TASK or MODEL."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from polvet.errors import InputError, Where
from polvet.kernel.compiled import Limits, Progress
from polvet.load import TaskOptions, parse_constants

TaskFile = Annotated[Path, typer.Argument(metavar="TASK", help="A task.toml, or a JANI or PRISM model.")]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A JANI or PRISM model, or a task.toml.")]
Constants = Annotated[str, typer.Option("--constants", help="Values of open constants: N=4,p=0.1.")]
Start = Annotated[str | None, typer.Option("--start", help="Where runs start: an expression or property:NAME.")]
Fail = Annotated[str | None, typer.Option("--fail", help="What must be avoided: an expression or property:NAME.")]
Goal = Annotated[str | None, typer.Option("--goal", help="What should be reached: an expression or property:NAME.")]
OutOfBounds = Annotated[
    str, typer.Option("--out-of-bounds", help="An assignment outside its bounds: 'error', or 'disable' the operator.")
]
MaxStates = Annotated[int | None, typer.Option("--max-states", help="Stop above this many states.", min=1)]


def task_options(
    constants: str, start: str | None = None, fail: str | None = None, goal: str | None = None
) -> TaskOptions:
    """Return the options as `load_task` takes them."""
    return TaskOptions(parse_constants(constants), start, fail, goal)


def disables_out_of_bounds(choice: str) -> bool:
    """Return whether operators that leave a variable's bounds are turned off."""
    if choice not in ("error", "disable"):
        raise InputError(f"'{choice}' is unknown.", Where("--out-of-bounds"), "Use error or disable.")
    return choice == "disable"


def limits_of(
    time_limit: float | None, memory_limit: int | None, max_states: int | None, progress: Progress | None = None
) -> Limits:
    """Return the limits a kernel obeys."""
    return Limits(time_limit, memory_limit, max_states, progress)


@contextmanager
def counting(what: str) -> Iterator[Progress | None]:
    """Show how far a kernel has got, on a terminal only."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.status import Status

    with Status(f"{what} ...", console=Console(stderr=True)) as status:
        yield lambda done, known: status.update(f"{what}: {done:,} of {known:,} states so far")
