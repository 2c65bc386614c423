"""`polvet domains`: list the papers' benchmark worlds, explain one, or write it as JANI with its task."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polvet.budget import Budget, Stopwatch, stopwatch
from polvet.cli.answer import Answer, ExitCode
from polvet.cli.options import Json, Output
from polvet.domains.catalogue import CATALOGUE, Entry, Parameter, find_entry, generate, parse_parameters
from polvet.domains.shipped import shipped_files
from polvet.errors import InputError, LimitReached, Where
from polvet.files import write_whole
from polvet.model.task import Task

COUNTING_SECONDS = 5.0


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("domains")(domains)


def domains(
    name: Annotated[str | None, typer.Argument(help="One of the listed names.")] = None,
    parameters: Annotated[list[str] | None, typer.Argument(help="Its parameters: key=value, or a flag.")] = None,
    policies: Annotated[
        Path | None, typer.Option("--policies", help="Write the shipped tasks and policies into this folder.")
    ] = None,
    output: Output = None,
    json: Json = False,
) -> int:
    """List the built-in benchmarks; with a name explain one; with -o FILE.jani write it, and FILE.toml beside it.

    Example: `polvet domains one-way-line n=8 p=5 -o line.jani`.
    """
    spent = stopwatch()
    if policies is not None:
        answer = _ship(policies, spent)
    elif name is None:
        if output is not None:
            raise InputError("nothing to write.", Where("-o"), "Name a domain: polvet domains janitor -o j.jani")
        answer = _list(spent)
    else:
        entry = find_entry(name)
        given = parse_parameters(parameters or [])
        if output is None and not given:
            answer = _explain(entry, spent)
        else:
            instance = generate(name, **given)
            task = instance.task()
            written = instance.write(output) if output is not None else ()
            answer = _written(task, [str(path) for path in written], spent)
    return answer.show(as_json=json)


def _list(spent: Stopwatch) -> Answer:
    lines = [
        line
        for entry in CATALOGUE.values()
        for line in (f"  {entry.name} {_usage(entry.parameters)}", f"      {entry.summary}")
    ]
    return Answer(
        f"{len(CATALOGUE)} domains", ExitCode.DONE, spent(), lines=lines,
        more={"domains": [entry.describe() for entry in CATALOGUE.values()]},
    )  # fmt: skip


def _ship(folder: Path, spent: Stopwatch) -> Answer:
    files = shipped_files()
    for file in files:
        write_whole(folder / file.name, file.read_bytes())
    lines = [f"wrote {folder / file.name}" for file in files]
    paths = [str(folder / file.name) for file in files]
    return Answer("written", ExitCode.DONE, spent(), lines=lines, more={"files": paths})


def _usage(parameters: tuple[Parameter, ...]) -> str:
    shown = (f"[{one.name}]" if one.kind == "flag" else f"[{one.name}={one.default}]" for one in parameters)
    return " ".join(shown)


def _explain(entry: Entry, spent: Stopwatch) -> Answer:
    lines = [f"from the paper on {entry.paper}", "", entry.explain(), ""]
    for one in entry.parameters:
        lines.append(f"  {one.name:15} {one.kind:7} default {one.default or 'none'}: {one.meaning}")
    lines += ["", f"write it with: polvet domains {entry.name} -o FILE.jani"]
    more = {"domain": {**entry.describe(), "explanation": entry.explain()}}
    return Answer(entry.name, ExitCode.DONE, spent(), lines=lines, more=more)


def _written(task: Task, paths: list[str], spent: Stopwatch) -> Answer:
    network = task.network
    figures: dict[str, int | None] = {
        "variables": len(network.variables), "edges": len(network.edges), "labels": len(network.labels),
        "start_states": _count(task),
    }  # fmt: skip
    lines = [f"{key.replace('_', ' '):14} {value}" for key, value in figures.items()]
    if figures["start_states"] is None:
        lines[-1] = "start states   infinitely many, or too many to count quickly"
    lines += [f"wrote {path}" for path in paths]
    more = {"name": network.model.name, "model": paths[0], "task": paths[1]} if paths else {"name": network.model.name}
    verdict = "written" if paths else "generated"
    return Answer(verdict, ExitCode.DONE, spent(), figures=figures, lines=lines, more=more)


def _count(task: Task) -> int | None:
    """Return the number of start states where it is found quickly."""
    from polvet.kernel.starts import Starts

    if task.start is None:
        return Starts.initial(task.network).count
    try:
        return Starts(task.network, task.start, budget=Budget(COUNTING_SECONDS)).count
    except LimitReached:
        return None
