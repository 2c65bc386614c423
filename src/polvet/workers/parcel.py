"""A parcel: a task and a policy as bytes, so that a process on another machine reads exactly what was read here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

from polvet import __version__
from polvet.errors import InputError, Where
from polvet.files import read_bytes
from polvet.model.task import Task
from polvet.policy.binding import Fitted, load_fitted
from polvet.policy.compiled import Bound, compile_policy
from polvet.policy.identity import policy_files
from polvet.sources import TaskParts, make_task, read_parts

OPENED = 4
"""How many parcels a process keeps open: a worker serves one command after the other."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """What workers need to know; the same bytes make the same parcel."""

    parts: TaskParts  # its model is a file's name here, without a folder
    model: bytes
    domain: bytes | None  # of a PDDL problem
    policy: tuple[tuple[str, bytes], ...] = ()  # its files by their names in its folder, the one to load first
    version: str = __version__

    def __hash__(self) -> int:
        return hash((self.parts.source.sha256, self.policy, self.version))


@dataclass(frozen=True, slots=True)
class Opened:
    """A parcel's content, read."""

    task: Task
    fitted: Fitted | None
    bound: Bound | None


def pack(task: Task, *, policy: Path | None = None) -> Parcel:
    """Return the parcel of the task's and the policy's files."""
    if task.source is None:
        raise InputError("the task was made in memory, which workers do not have.", hint="Save it to a file first.")
    parts = read_parts(task.source.file, task.options)
    if parts.source != task.source:
        raise InputError("has changed since it was read.", Where(str(task.source.file)), "Run the command again.")
    if parts.reading.functions:
        what = "an input of its policies is a Python function, which workers do not have."
        raise InputError(
            what, Where(str(task.source.file)), "Leave --workers out, or write the input as an expression."
        )
    content: tuple[tuple[str, bytes], ...] = ()
    if policy is not None:
        content = tuple((str(file.relative_to(policy.parent)), read_bytes(file)) for file in policy_files(policy))
    model = read_bytes(parts.model)
    domain = None if parts.domain is None else read_bytes(parts.domain)
    named = replace(parts, model=Path(parts.model.name), domain=parts.domain and Path(parts.domain.name))
    return Parcel(named, model, domain, content)


@lru_cache(maxsize=OPENED)
def open_parcel(parcel: Parcel) -> Opened:
    """Return the task and the compiled policy; the same parcel is opened once in a process."""
    if parcel.version != __version__:
        raise InputError(
            f"this worker has polvet {__version__}, the command has {parcel.version}.",
            Where("--workers"),
            "Install the same version on every machine of the cluster.",
        )
    with TemporaryDirectory(prefix="polvet-") as folder:
        model = Path(folder) / "model" / parcel.parts.model.name
        model.parent.mkdir()
        model.write_bytes(parcel.model)
        domain = None
        if parcel.parts.domain is not None and parcel.domain is not None:
            domain = Path(folder) / "domain" / parcel.parts.domain.name
            domain.parent.mkdir()
            domain.write_bytes(parcel.domain)
        task = make_task(replace(parcel.parts, model=model, domain=domain))
        if not parcel.policy:
            return Opened(task, None, None)
        place = Path(folder) / "policy"
        for name, content in parcel.policy:
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(content)
        fitted = load_fitted(task, place / parcel.policy[0][0])
        return Opened(task, fitted, compile_policy(fitted))
