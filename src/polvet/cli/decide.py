"""`polvet decide TASK`: is this state safe, are these states safe, and why."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from polvet.choices import listed
from polvet.cli.options import Answering, Crowd, OneState, Output, Posed, named_state
from polvet.cli.parameters import Option
from polvet.errors import InputError, Where
from polvet.safety.algorithms import ALGORITHMS, DEFAULT, ORDERS

if TYPE_CHECKING:
    from polvet.front.deciding import Decisions
    from polvet.model.task import Task

SHOWN = 20
INLINE_STATES = 1_000
"""Of a certificate that is part of the answer about one state; a larger one is written to a file."""


@dataclass(frozen=True, kw_only=True)
class Question(Posed):
    """The task whose states are decided."""

    avoid: Annotated[str, Option("--avoid", help="deadlock: to end outside the goal is unsafe, too.")] = ""


@dataclass(frozen=True, kw_only=True)
class Way:
    """How the states are decided."""

    algorithm: Annotated[str, Option("--algorithm", help=f"{listed(ALGORITHMS)}.")] = DEFAULT
    order: Annotated[str, Option("--order", help=f"Which action first: {listed(ORDERS)}.")] = "app"
    policy: Annotated[Path | None, Option("--policy", help="The policy of --order policy.")] = None
    share: Annotated[
        bool | None, Option("--share/--fresh", help="Keep what is known from state to state (default for lazy).")
    ] = None
    radius: Annotated[int | None, Option("--radius", help="TarjanSafe looks this many steps ahead.", min=1)] = None
    bound: Annotated[
        str | None, Option("--bound", help="Safe means: some policy fails with at most this probability.")
    ] = None
    goal_reaching: Annotated[
        bool, Option("--goal-reaching", help="Ask for a policy that keeps the goal in reach: strong cyclic.")
    ] = False
    region: Annotated[
        bool, Option("--region", help="The safe start states as a condition, with evidence about both sides.")
    ] = False
    sharpen: Annotated[
        bool, Option("--sharpen", help="Play games over a few variables first: large worlds, with evidence.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class States:
    """Which states are decided."""

    state: OneState = None
    states: Annotated[Path | None, Option("--states", help="JSON lines: states or runs.")] = None
    all_starts: Annotated[bool, Option("--all-starts", help="Every start state (the default).")] = False


def decide(
    question: Question,
    limits: Crowd,
    answering: Answering,
    chosen: States,
    way: Way,
    certificates: Annotated[
        Path | None,
        Option("--certificates", help="A folder for safe.json and unsafe.json: evidence for all states."),
    ] = None,
    output: Output = None,
) -> int:
    """Decide whether states are safe. Example: `polvet decide line.toml --state x=3,y=2 -o certificate.json`."""
    from polvet.cli.region import region_lines
    from polvet.front.deciding import Decisions
    from polvet.front.region import SafeRegion

    if sum((bool(chosen.state), chosen.states is not None, chosen.all_starts)) > 1:
        raise InputError(
            "several sets of states are given.", Where("--state"), "Give one of --state, --states, --all-starts."
        )
    task = question.load()
    alone = named_state(task, chosen.state)
    with answering.watch("decide", "deciding", limits, known_total=True) as within:
        decisions = task.decide(
            alone or chosen.states, **asdict(way), output=output, certificates=certificates, **within
        )
    if isinstance(decisions, SafeRegion):
        lines = region_lines(decisions)
        lines += [f"evidence     {path} ({word})" for word, path in (decisions.written or {}).items()]
        return answering.say(decisions, lines, changes={} if decisions.written is not None else {"certificate": None})
    decided = decisions if isinstance(decisions, Decisions) else decisions.source
    lines = _lines(task.model_task, decided, way.bound, way.goal_reaching)
    if output is not None and "resumed" in decisions.figures and alone is None:
        lines.append(f"written      {output} ({decisions.figures['resumed']:,} states were there already)")
    if isinstance(decisions.written, dict):
        lines += [f"evidence     {path} ({word})" for word, path in decisions.written.items()]
    elif decisions.written is not None:
        lines.append(f"evidence     {decisions.written} ({decisions.word})")
    large = decisions.certificate is not None and len(decisions.certificate["states"]) > INLINE_STATES
    return answering.say(decisions, lines, changes={"certificate": None} if large and decisions.written is None else {})


def _lines(task: Task, decisions: Decisions, bound: str | None, goal_reaching: bool) -> list[str]:
    from polvet.model.options import ENVIRONMENT
    from polvet.model.semantics import show_state

    if decisions.source is None:
        return []
    _, states = decisions.source
    figures = decisions.figures
    if goal_reaching:
        total = f"{figures['won']:,} with a strong-cyclic policy, {figures['lost']:,} without"
        words: dict[bool | None, str] = {True: "yes ", False: "no  "}
        last = [f"reading      {ENVIRONMENT[figures['environment']]}", f"explored     {figures['explored']:,} states"]
    else:
        counts = ((name, figures.get(name, 0)) for name in ("safe", "unsafe", "unknown"))
        total = ", ".join(f"{count:,} {name}" for name, count in counts if count)
        words = {True: "safe    ", False: "unsafe  ", None: "unknown "}
        last = []
        if bound is None:
            looks = f"{figures['expanded']:,} looks at actions ({figures['algorithm']})"
            last = [f"cost         {figures['decide_seconds']:.3f} s, {looks}"]
    shown = states if bound is not None else states[:SHOWN]
    lines = [
        f"  {words[safe]} {show_state(task.network, state)}" for state, safe in zip(shown, decisions.safe, strict=False)
    ]
    if bound is not None:
        rows = decisions.rows()
        lines = [
            f"{line}  P(fail) in [{row['lower']:.9g}, {row['upper']:.9g}]"
            for line, row in zip(lines, rows, strict=True)
        ]
        return [f"bound        {figures['bound']}", *lines]
    more = [f"  ... and {len(states) - SHOWN:,} more"] if len(states) > SHOWN else []
    return [f"states       {len(states):,}: {total}", *lines, *more, *last]
