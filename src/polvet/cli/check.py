"""`polvet check MODEL --property NAME`: the value of a property, with bounds that hold."""

from __future__ import annotations

from json import dumps
from math import isinf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polvet.budget import stopwatch
from polvet.cli.answer import Answer, ExitCode
from polvet.cli.limits import budget_of, said
from polvet.cli.options import Json, LogJson, MemoryLimit, Mode, PolicyOption, TimeLimit
from polvet.cli.progress import watching
from polvet.cli.tasks import (
    Constants,
    Domain,
    MaxStates,
    ModelFile,
    OutOfBounds,
    task_options,
)  # fmt: skip
from polvet.errors import InputError, Where
from polvet.files import write_whole
from polvet.model.task import state_to_names

if TYPE_CHECKING:
    from polvet.mdp.check import CheckResult
    from polvet.model.network import Network

PropertyName = Annotated[
    str, typer.Option("--property", help="The name of a property, or one in PRISM's notation: 'Pmax=? [F s=7]'.")
]
Exact = Annotated[bool, typer.Option("--exact", help="Exact rational arithmetic instead of bounds.")]
SchedulerFile = Annotated[
    Path | None, typer.Option("--scheduler", help="Write a scheduler that attains the bound, as JSON.")
]
Gap = Annotated[float, typer.Option("--gap", help="How far the bounds may be apart, relatively.", min=1e-13, max=0.5)]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("check")(check)


def check(
    model: ModelFile,
    property_: PropertyName,
    domain: Domain = None,
    constants: Constants = "",
    exact: Exact = False,
    gap: Gap = 1e-6,
    policy: PolicyOption = None,
    mode: Mode = None,
    out_of_bounds: OutOfBounds = "error",
    max_states: MaxStates = None,
    time_limit: TimeLimit = None,
    memory_limit: MemoryLimit = None,
    scheduler: SchedulerFile = None,
    log_json: LogJson = None,
    json: Json = False,
) -> int:
    """Compute a probability or expected reward. Example: `polvet check brp.jani --constants N=16,MAX=2 --property p1`."""
    from polvet.mdp.check import check_property
    from polvet.sources import load_network, load_task, named_property

    spent, budget = stopwatch(), budget_of(time_limit, memory_limit, max_states)
    options = task_options(constants, out_of_bounds=out_of_bounds, mode=mode, domain=domain)
    fitted = None
    if policy is None:
        network = load_network(model, options.constants, options.out_of_bounds, domain)
    else:
        from polvet.policy.binding import load_fitted

        fitted = load_fitted(load_task(model, options), policy)
        network = fitted.task.network
    wanted = named_property(model, network.model, property_)
    with watching("check", "building", log_json) as progress:
        result = check_property(
            network, wanted, relative_gap=gap, exact=exact,
            budget=budget.told(progress), policy=fitted,
        )  # fmt: skip
    figures: dict[str, Any] = {
        "value": _number(result.value), "lower": _number(result.lower), "upper": _number(result.upper),
        "states": result.states, "choices": result.choices, "transitions": result.transitions,
        "build_seconds": round(result.build_seconds, 6),
    }  # fmt: skip
    if result.exact is not None:
        figures["exact"] = str(result.exact)
    lines = []
    if result.truth is None and result.limit is None:
        lines.append(f"bounds   [{result.lower!r}, {result.upper!r}]")
    if result.exact is not None:
        lines.append(f"exactly  {result.exact}")
    if fitted is not None:
        figures |= {"near_ties": result.near_ties, "policy": fitted.describe()}
        lines += [f"policy   {policy} ({fitted.task.reading.mode}); outputs named by the {fitted.outputs_from}"]
        if result.near_ties:
            lines.append(
                f"near ties in {result.near_ties:,} states: the value is that of the reference order of evaluation"
            )
    lines.append(f"model    {result.states:,} states, {result.choices:,} choices, {result.transitions:,} transitions")
    seconds = spent()
    if result.limit is not None:
        return Answer("unknown", ExitCode.UNKNOWN, seconds, figures, lines, said(result.limit)).show(as_json=json)
    if scheduler is not None:
        _write_scheduler(network, result, wanted.name, scheduler)
        lines.append(f"written  {scheduler}")
    verdict = _shown(result.value)
    code = ExitCode.FOUND if result.truth is False else ExitCode.DONE
    return Answer(verdict, code, seconds, figures, lines).show(as_json=json)


def _write_scheduler(network: Network, result: CheckResult, name: str, path: Path) -> None:
    """Write the label (null: silent) and the number of the choice in every state that has one."""
    if result.scheduler is None or result.built is None:
        raise InputError(
            "this property has no scheduler without memory.", Where("--scheduler"), "Leave the option out."
        )
    built, none = result.built, 0xFFFFFFFF
    states = []
    for number, choice in enumerate(result.scheduler.tolist()):
        if choice != none:
            label = int(built.labels[int(built.mdp.choice_start[number]) + choice])
            states.append(
                {
                    "state": state_to_names(network, built.state_of(number)),
                    "label": None if label < 0 else network.labels[label],
                    "choice": choice,
                }
            )
    write_whole(path, dumps({"format": "scheduler/1", "property": name, "states": states}, ensure_ascii=False) + "\n")


def _shown(value: bool | float | None) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _number(value: bool | float | None) -> bool | float | str | None:
    """JSON has no infinity: it is written as the text `infinity`."""
    return "infinity" if isinstance(value, float) and isinf(value) else value
