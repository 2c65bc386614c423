"""Files for people: the report of a campaign, and the built-in benchmarks, listed, explained or written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polvet.budget import Budget, stopwatch
from polvet.errors import InputError, LimitReached, Where
from polvet.files import write_whole
from polvet.front.result import Result
from polvet.model.task import Task
from polvet.verdict import Verdict

if TYPE_CHECKING:
    from polvet.front.task import Task as FrontTask

COUNTING_SECONDS = 5.0


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Written(Result):
    """What was written, or can be: `more` names the files, the benchmarks, or explains one."""

    says: str = Verdict.WRITTEN.value
    more: Mapping[str, Any] = field(default_factory=dict, repr=False)
    verdict = Verdict.WRITTEN

    @property
    def word(self) -> str:
        """What the command line says first."""
        return self.says

    def _more(self) -> Mapping[str, Any]:
        return self.more


def write_report(
    source: str | Path,
    output: str | Path = "report.html",
    *,
    task: Path | None = None,
    policy: Path | None = None,
    check: bool = False,
    allow_code: bool = False,
) -> Written:
    """Write one HTML file, which loads nothing, about a campaign's folder, runs, faults, a certificate or a shield."""
    from polvet.report.make import make_report

    spent = stopwatch()
    page = make_report(source, task=task, policy=policy, checked=check, allow_code=allow_code)
    write_whole(output, page)
    return Written(figures={"bytes": len(page.encode())}, more={"report": str(output)}, seconds=spent())


def write_flat(task: FrontTask, policy: Any = None, output: str | Path | None = None) -> Written:
    """Return the flat text of the task, and of a policy for it; with an `output` it is written there."""
    spent = stopwatch()
    text = task.flat(policy)
    data = text.encode()
    more = {"sha256": sha256(data).hexdigest(), **({"text": text} if output is None else {"flat": str(output)})}
    if output is not None:
        write_whole(output, data)
    figures = {"bytes": len(data), "items": text.count("\n(") + 1}
    says = (Verdict.GENERATED if output is None else Verdict.WRITTEN).value
    return Written(says=says, figures=figures, more=more, seconds=spent())


def domains(
    name: str | None = None, *, policies: Path | None = None, output: str | Path | None = None, **parameters: Any
) -> Written:
    """Return the benchmarks, or explain one; with parameters or a file it is made, with `policies` the shipped files are written."""
    from polvet.domains.catalogue import CATALOGUE, find_entry, generate
    from polvet.domains.shipped import shipped_files

    spent = stopwatch()
    if policies is not None:
        files = {file.name: policies / file.name for file in shipped_files()}
        for file in shipped_files():
            write_whole(files[file.name], file.read_bytes())
        return Written(more={"files": [str(path) for path in files.values()]}, seconds=spent())
    if name is None:
        if output is not None:
            raise InputError("nothing to write.", Where("output"), "Name a domain: polvet domains janitor -o j.jani")
        listed = [entry.describe() for entry in CATALOGUE.values()]
        return Written(says=f"{len(listed)} domains", more={"domains": listed}, seconds=spent())
    entry = find_entry(name)
    if output is None and not parameters:
        explained = {**entry.describe(), "explanation": entry.explain()}
        return Written(says=entry.name, more={"domain": explained}, seconds=spent())
    instance = generate(name, **parameters)
    task = instance.task()
    network = task.network
    paths = dict(zip(("model", "task"), map(str, instance.write(output)), strict=True)) if output is not None else {}
    figures = {
        "variables": len(network.variables),
        "edges": len(network.edges),
        "labels": len(network.labels),
        "start_states": _count(task),
    }
    says = (Verdict.WRITTEN if paths else Verdict.GENERATED).value
    return Written(says=says, figures=figures, more={"name": network.model.name, **paths}, seconds=spent())


def _count(task: Task) -> int | None:
    """Return the number of start states where counting takes no time."""
    from polvet.kernel.starts import Starts

    if task.start is None:
        return Starts.initial(task.network).count
    try:
        return Starts(task.network, task.start, budget=Budget(COUNTING_SECONDS)).count
    except LimitReached:
        return None
