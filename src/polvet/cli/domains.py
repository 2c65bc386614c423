"""`polvet domains`: list the papers' benchmark worlds, explain one, or write it as JANI with its task."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from polvet.cli.options import Output, Plainly
from polvet.cli.parameters import Argument, Option
from polvet.domains.catalogue import CATALOGUE, Entry, parse_parameters


def domains(
    answering: Plainly,
    name: Annotated[str | None, Argument(help="One of the listed names.")] = None,
    parameters: Annotated[list[str] | None, Argument(help="Its parameters: key=value, or a flag.")] = None,
    policies: Annotated[
        Path | None, Option("--policies", help="Write the shipped tasks and policies into this folder.")
    ] = None,
    output: Output = None,
) -> int:
    """List the built-in benchmarks; with a name explain one; with -o FILE.jani write it, and FILE.toml beside it.

    Example: `polvet domains one-way-line n=8 p=5 -o line.jani`.
    """
    from polvet.front.writing import domains as find

    worlds = find(name, policies=policies, output=output, **parse_parameters(parameters or []))
    if policies is not None:
        return answering.say(worlds, [f"wrote {file}" for file in worlds.more["files"]])
    if name is None:
        return answering.say(worlds, [line for entry in CATALOGUE.values() for line in _listed(entry)])
    if "domain" in worlds.more:
        return answering.say(worlds, _explained(CATALOGUE[worlds.more["domain"]["name"]]))
    lines = [f"{key.replace('_', ' '):14} {value}" for key, value in worlds.figures.items()]
    if worlds.figures["start_states"] is None:
        lines[-1] = "start states   infinitely many, or too many to count quickly"
    lines += [f"wrote {worlds.more[kind]}" for kind in ("model", "task") if kind in worlds.more]
    return answering.say(worlds, lines)


def _listed(entry: Entry) -> tuple[str, str]:
    shown = (f"[{one.name}]" if one.kind == "flag" else f"[{one.name}={one.default}]" for one in entry.parameters)
    return f"  {entry.name} {' '.join(shown)}", f"      {entry.summary}"


def _explained(entry: Entry) -> list[str]:
    lines = [f"from the paper on {entry.paper}", "", entry.explain(), ""]
    for one in entry.parameters:
        lines.append(f"  {one.name:15} {one.kind:7} default {one.default or 'none'}: {one.meaning}")
    return [*lines, "", f"write it with: polvet domains {entry.name} -o FILE.jani"]
