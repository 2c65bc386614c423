"""The options that commands share, each declared once, and groups of them: the task, the policy, the limits, how to answer.

A group is a dataclass whose fields are options. A command that has a parameter of such a type takes all the group's options
(`takes_groups` puts them into its signature, in the order of the fields) and is called with the group, which knows what to do
with them: `subject.task()` loads, `answering.watch(...)` shows progress, `answering.say(...)` prints.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

from polvet.budget import Stopwatch, stopwatch
from polvet.cli.limits import budget_of, net
from polvet.cli.parameters import Argument, Option
from polvet.errors import InputError, Where

if TYPE_CHECKING:
    from polvet.cli.answer import ExitCode
    from polvet.cli.progress import Meter
    from polvet.front.policy import Policy
    from polvet.front.result import Result
    from polvet.front.task import Task
    from polvet.policy.binding import Fitted

TaskFile = Annotated[
    Path, Argument(metavar="TASK", help="A task.toml, or a world: JANI, PRISM, PDDL, a table, gym:ID?key=value.")
]
ModelFile = Annotated[
    Path,
    Argument(metavar="MODEL", help="A world (JANI, PRISM, PDDL, a table, gym:ID?key=value), or a task.toml."),
]
Constants = Annotated[str, Option("--constants", help="Values of open constants: N=4,p=0.1.")]
Start = Annotated[str | None, Option("--start", help="Where runs start: an expression or property:NAME.")]
Fail = Annotated[str | None, Option("--fail", help="What must be avoided: an expression or property:NAME.")]
Goal = Annotated[str | None, Option("--goal", help="What should be reached: an expression or property:NAME.")]
Domain = Annotated[
    Path | None, Option("--domain", help="The domain of a PDDL problem (default: domain.pddl beside it).")
]
AllowCode = Annotated[bool, Option("--allow-code", help="Run the Python functions that the task's file names.")]
OutOfBounds = Annotated[
    str, Option("--out-of-bounds", help="An assignment outside its bounds: 'error', or 'disable' the operator.")
]
Avoid = Annotated[
    str, Option("--avoid", help="What is unsafe besides fail: stuck, deadlock, loop, delay, or several with commas.")
]
MaxRisk = Annotated[
    str | None,
    Option("--max-risk", help="Safe means: runs fail with at most this probability, whatever the environment does."),
]
PolicyFile = Annotated[
    Path,
    Argument(
        metavar="POLICY",
        help="ONNX, XGBoost, LightGBM, skops, SB3 zip, .nnet, table/1, .npy, ..., or file.py:function.",
    ),
]
PolicyOption = Annotated[Path | None, Option("--policy", help="Follow this policy only.")]
Mode = Annotated[str | None, Option("--mode", help="filtered or raw, in the place of what task.toml says.")]
MaxStates = Annotated[int | None, Option("--max-states", help="Stop above this many states.", min=1)]
MaxSteps = Annotated[int, Option("--max-steps", help="Stop a run after so many steps.", min=1)]
RunSteps = Annotated[
    int | None,
    Option("--max-steps", help="Stop a run after so many steps (default: the world's limit, else 10000).", min=1),
]
TimeLimit = Annotated[
    float | None, Option("--time-limit", help="Stop after this many seconds.", min=0.0, callback=net.span)
]
MemoryLimit = Annotated[
    int | None, Option("--memory-limit", help="Stop above this many megabytes (default: 70% of the machine).", min=1)
]
Workers = Annotated[
    str, Option("--workers", help="Threads (a number, or all), or a Ray cluster: ray:auto, ray:ADDRESS.")
]
Seed = Annotated[int, Option("--seed", help="The seed of all chance.", min=0, max=2**63 - 1)]
Output = Annotated[Path | None, Option("-o", "--output", help="Write the result to this file.")]
OneState = Annotated[list[str] | None, Option("--state", help="One state: x=1,y=2.")]
LogJson = Annotated[Path | None, Option("--log-json", help="Write progress to this file, one JSON object per line.")]
Json = Annotated[bool, Option("--json", help="Print exactly one JSON document on stdout.")]


@dataclass(frozen=True, kw_only=True)
class World:
    """A task or model file, and what takes the place of what it says."""

    task: TaskFile
    domain: Domain = None
    constants: Constants = ""
    out_of_bounds: OutOfBounds = "error"
    allow_code: AllowCode = False

    def load(self) -> Task:
        """Return the task as the front door has it."""
        from polvet.front.loading import load
        from polvet.sources import parse_constants

        own = {"task", "policy", "constants"}
        others = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in own}
        return load(self.task, constants=parse_constants(self.constants), **others)


@dataclass(frozen=True, kw_only=True)
class StartedWorld(World):
    """A world, and where runs start."""

    start: Start = None


@dataclass(frozen=True, kw_only=True)
class Posed(StartedWorld):
    """A world with what must not happen and what should."""

    fail: Fail = None
    goal: Goal = None


@dataclass(frozen=True, kw_only=True)
class PosedModel(Posed):
    """The same for commands that speak of models."""

    task: ModelFile


@dataclass(frozen=True, kw_only=True)
class Subject(Posed):
    """A task and a policy for it."""

    policy: PolicyFile
    mode: Mode = None

    def open(self) -> Policy:
        """Return the policy as the front door has it."""
        return self.load().policy(self.policy)

    def lines(self, policy: Policy) -> list[str]:
        """Return what people should know about how the policy was read."""
        return policy_lines(policy.fitted, self.policy)


def policy_lines(fitted: Fitted, file: Path) -> list[str]:
    """Return what people should know about how the policy in the file was read."""
    lines = [
        f"policy       {file} ({fitted.task.reading.mode}); inputs named by the {fitted.inputs_from}, "
        f"outputs by the {fitted.outputs_from}"
    ]
    if fitted.by_execution:
        from polvet.policy.functions import BY_EXECUTION

        lines.append(f"  {BY_EXECUTION}")
    if fitted.unscored:
        shown = ", ".join(fitted.unscored[:8]) + (", ..." if len(fitted.unscored) > 8 else "")
        lines.append(f"  it has no output for {shown}: it never chooses these")
    return lines


@dataclass(frozen=True, kw_only=True)
class Followed:
    """A policy that may be followed, or not."""

    policy: PolicyOption = None
    mode: Mode = None

    def open(self, world: World) -> tuple[Task, Policy | None]:
        """Return the world's task in the policy's mode, and the policy, if one is given."""
        task = world.load() if self.mode is None else world.load().with_mode(self.mode)
        return task, None if self.policy is None else task.policy(self.policy)


@dataclass(frozen=True, kw_only=True)
class Timed:
    """How long a command may take."""

    time_limit: TimeLimit = None

    def keywords(self, meter: Meter | None) -> dict[str, Any]:
        """Return the limits as the front door takes them: a budget that began with the command, and the rest by name."""
        own = {one.name: getattr(self, one.name) for one in fields(self)}
        seconds, megabytes, states = (own.pop(name, None) for name in ("time_limit", "memory_limit", "max_states"))
        return {"within": budget_of(seconds, megabytes, states, meter), **own}


@dataclass(frozen=True, kw_only=True)
class Limits(Timed):
    """How long, how many megabytes, how many states."""

    memory_limit: MemoryLimit = None
    max_states: MaxStates = None


@dataclass(frozen=True, kw_only=True)
class Threaded(Limits):
    """Limits, and who works."""

    workers: Workers = "all"


@dataclass(frozen=True, kw_only=True)
class Chance(Limits):
    """Limits and the seed."""

    seed: Seed = 0


@dataclass(frozen=True, kw_only=True)
class Crowd(Chance):
    """Limits, the seed, and who works."""

    workers: Workers = "all"


@dataclass(frozen=True, kw_only=True)
class PlanLimits(Timed):
    """How long, how many megabytes, and the seed: plans have no states to be counted."""

    memory_limit: MemoryLimit = None
    seed: Seed = 0


@dataclass(frozen=True, kw_only=True)
class TimedChance(Timed):
    """How long, and the seed."""

    seed: Seed = 0


@dataclass(frozen=True, kw_only=True)
class TimedCrowd(TimedChance):
    """How long, the seed, and who works."""

    workers: Workers = "all"


@dataclass(frozen=True, kw_only=True)
class Plainly:
    """How a short command answers: for people, or as JSON."""

    json: Json = False
    spent: Stopwatch = field(init=False, default_factory=stopwatch)  # since the command began

    def say(
        self,
        result: Result,
        lines: Sequence[str] = (),
        *,
        code: ExitCode | None = None,
        changes: Mapping[str, Any] | None = None,
        without: Sequence[str] = (),
    ) -> int:
        """Print the result and return the exit code; `changes` are top-level keys of the document (paths of written files)."""
        from polvet.cli.answer import say_result

        return say_result(self, result, lines, code, changes or {}, without)


@dataclass(frozen=True, kw_only=True)
class Answering(Plainly):
    """How a long command answers, and where its progress is written."""

    log_json: LogJson = None

    @contextmanager
    def watch(self, command: str, what: str, limits: Timed, **meter: Any) -> Iterator[dict[str, Any]]:
        """Show and log how far the command has got; yield the limits as the front door takes them."""
        from polvet.cli.progress import watching

        with watching(command, what, self.log_json, **meter) as progress:
            yield limits.keywords(progress)


def takes_groups(command: Callable[..., int]) -> Callable[..., int]:
    """Return the command with the options of its groups in the place of the parameters that hold them."""
    hints = get_type_hints(command, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if inspect.isclass(hint) and is_dataclass(hint)}
    shown: dict[str, inspect.Parameter] = {}
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            shown |= {one.name: one for one in _options(groups[name])}
        else:
            shown[name] = parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[name])

    @wraps(command)
    def grouped(**arguments: Any) -> int:
        values = {
            name: group(**{one.name: arguments.pop(one.name) for one in fields(group) if one.init})
            for name, group in groups.items()
        }
        return command(**values, **arguments)

    grouped.__signature__ = inspect.Signature(list(shown.values()), return_annotation=int)  # type: ignore[attr-defined]
    grouped.__annotations__ = {name: one.annotation for name, one in shown.items()} | {"return": int}
    return grouped


def _options(group: type) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    for one in fields(group):
        if one.init:
            default = inspect.Parameter.empty if one.default is MISSING else one.default
            yield inspect.Parameter(
                one.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hints[one.name]
            )


def only_state(text: list[str] | None) -> str | None:
    """Return the state of `--state`; a second one is refused rather than forgotten."""
    if text is not None and len(text) > 1:
        shown = " and ".join(f"'{one[:40]}'" for one in text[:2])
        raise InputError(
            f"{shown}: one state is asked for.",
            Where("--state"),
            "Give it once; polvet decide takes several from --states FILE.",
        )
    return text[0] if text else None


def named_state(task: Task, state: list[str] | None) -> Mapping[str, Any] | None:
    """Return the state of `--state` by names; None where none is given."""
    from polvet.model.task import state_to_names
    from polvet.records.state_files import parse_state

    text, model_task = only_state(state), task.model_task
    if text is None:
        return None
    return state_to_names(model_task.network, parse_state(model_task, text, Where("--state")))
