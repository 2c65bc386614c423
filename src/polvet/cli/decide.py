"""`polvet decide TASK`: is this state safe, are these states safe, and why."""

from __future__ import annotations

import json as json_module
import os
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polvet.budget import Budget, Stopwatch, stopwatch
from polvet.choices import listed, one_of
from polvet.cli.answer import Answer, ExitCode
from polvet.cli.limits import budget_of, said
from polvet.cli.options import Json, LogJson, MemoryLimit, Output, Seed, TimeLimit, Workers
from polvet.cli.progress import watching
from polvet.cli.tasks import (
    Constants,
    Domain,
    Fail,
    Goal,
    MaxStates,
    OutOfBounds,
    Start,
    TaskFile,
    crew_of,
    is_cluster,
    only_state,
    task_options,
)  # fmt: skip
from polvet.errors import InputError, LimitReached, Where
from polvet.safety.algorithms import ALGORITHMS, DEFAULT, ORDERS

if TYPE_CHECKING:
    from polvet.confirm.outcome import Confirmation
    from polvet.model.semantics import State
    from polvet.model.task import Task
    from polvet.safety.decide import Decided

SHOWN = 20
INLINE_STATES = 1_000
MOST_STARTS = 1_000_000
CODES = {"safe": ExitCode.DONE, "unsafe": ExitCode.FOUND, "unknown": ExitCode.UNKNOWN}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("decide")(decide)


def decide(
    task: TaskFile,
    domain: Domain = None,
    state: Annotated[list[str] | None, typer.Option("--state", help="One state: x=1,y=2.")] = None,
    states: Annotated[Path | None, typer.Option("--states", help="JSON lines: states or runs.")] = None,
    all_starts: Annotated[bool, typer.Option("--all-starts", help="Every start state (the default).")] = False,
    algorithm: Annotated[str, typer.Option("--algorithm", help=f"{listed(ALGORITHMS)}.")] = DEFAULT,
    order: Annotated[str, typer.Option("--order", help=f"Which action first: {listed(ORDERS)}.")] = "app",
    policy: Annotated[Path | None, typer.Option("--policy", help="The policy of --order policy.")] = None,
    share: Annotated[
        bool | None, typer.Option("--share/--fresh", help="Keep what is known from state to state (default for lazy).")
    ] = None,
    radius: Annotated[
        int | None, typer.Option("--radius", help="TarjanSafe looks this many steps ahead.", min=1)
    ] = None,
    bound: Annotated[
        str | None, typer.Option("--bound", help="Safe means: some policy fails with at most this probability.")
    ] = None,
    goal_reaching: Annotated[
        bool, typer.Option("--goal-reaching", help="Ask for a policy that keeps the goal in reach: strong cyclic.")
    ] = False,
    certificates: Annotated[
        Path | None,
        typer.Option("--certificates", help="A folder for safe.json and unsafe.json: evidence for all states."),
    ] = None,
    avoid: Annotated[str, typer.Option("--avoid", help="deadlock: to end outside the goal is unsafe, too.")] = "",
    constants: Constants = "",
    start: Start = None,
    fail: Fail = None,
    goal: Goal = None,
    out_of_bounds: OutOfBounds = "error",
    max_states: MaxStates = None,
    time_limit: TimeLimit = None,
    memory_limit: MemoryLimit = None,
    workers: Workers = "all",
    seed: Seed = 0,
    output: Output = None,
    log_json: LogJson = None,
    json: Json = False,
) -> int:
    """Decide whether states are safe. Example: `polvet decide line.toml --state x=3,y=2 -o certificate.json`."""
    from polvet.sources import load_task

    spent = stopwatch()
    search = ALGORITHMS[one_of(algorithm, ALGORITHMS, "--algorithm")].search
    if is_cluster(workers) and (bound is not None or not search):
        what = "a --bound" if bound is not None else f"the algorithm {algorithm}"
        raise InputError(f"{what} can only run on one machine.", Where("--workers"), "Leave --workers out.")
    options = task_options(constants, start, fail, goal, out_of_bounds, avoid=avoid, domain=domain)
    if options.avoid.stuck:
        raise InputError("only a policy gets stuck.", Where("--avoid"), "Use --avoid deadlock.")
    loaded = load_task(task, options)
    budget = budget_of(time_limit, memory_limit, max_states)
    only = only_state(state)
    asked = _asked_states(loaded, only, states, all_starts, budget)
    if goal_reaching:
        from polvet.cli.decide_goal import decide_goal_reaching

        if bound is not None or options.avoid.deadlock or is_cluster(workers):
            raise InputError(
                "is a question of its own: a deadlock outside the goal does not reach it.", Where("--goal-reaching"),
                "Leave out --bound, --avoid and a cluster as --workers.",
            )  # fmt: skip
        return decide_goal_reaching(loaded, asked, budget, output, certificates, spent, json)
    if bound is not None:
        from polvet.cli.decide_bound import decide_within

        return decide_within(loaded, asked, bound, budget, spent, json)
    if not search:
        decided, figures = _by_diagrams(loaded, asked, budget)
    else:
        decided, figures = _by_search(
            loaded, asked, budget, algorithm=algorithm, order=order, share=share, seed=seed, radius=radius,
            workers=workers, policy=policy, log_json=log_json, file=output if only is None else None,
        )  # fmt: skip
    written, lines, checked = _write_evidence(
        loaded, asked, decided, budget, output if only is not None else None, certificates, spent,
        inline=only is not None,
    )  # fmt: skip
    return _answer(
        loaded, asked, decided, figures, written, lines, spent, seed, output if only is None else None, checked, json
    )


def _by_search(
    task: Task, asked: list[State], budget: Budget, *, algorithm: str, order: str, share: bool | None, seed: int,
    radius: int | None, workers: str, policy: Path | None, file: Path | None, log_json: Path | None,
) -> tuple[list[Decided], dict[str, Any]]:  # fmt: skip

    from polvet.policy.binding import load_fitted
    from polvet.policy.compiled import compile_policy
    from polvet.safety.batch import decide_many
    from polvet.safety.decide import Decider

    threads = 1 if is_cluster(workers) else _threads(workers, len(asked))
    preference = None if policy is None else compile_policy(load_fitted(task, policy))
    decider = Decider(
        task, algorithm=algorithm, order=order, share=share, threads=threads, seed=seed, radius=radius,
        preference=preference,
    )  # fmt: skip
    crews = crew_of(workers, task, policy=policy)
    with crews as crew, watching("decide", "deciding", log_json, known_total=True) as progress:
        deciding = stopwatch()
        batch = decide_many(decider, asked, file=file, budget=budget.told(progress), crew=crew)
        seconds = deciding()
    return batch.decided, {
        "algorithm": algorithm, "order": order, "shared": decider.share, "threads": threads, "resumed": batch.resumed,
        "decide_seconds": round(seconds, 6), "peak_bytes": decider.peak_bytes, "known_states": decider.known_states,
    }  # fmt: skip


def _by_diagrams(task: Task, asked: list[State], budget: Budget) -> tuple[list[Decided], dict[str, Any]]:
    from polvet.safety.propagate_bdd import decide_by_diagrams

    spent = stopwatch()
    decided, nodes = decide_by_diagrams(task, asked, budget=budget)
    return decided, {
        "algorithm": "propagate-bdd", "decide_seconds": round(spent(), 6), "diagram_nodes": nodes,
    }  # fmt: skip


def _asked_states(task: Task, state: str | None, file: Path | None, all_starts: bool, budget: Budget) -> list[State]:
    """Return the states the user asks about: one, those of a file, or all start states."""
    from polvet.kernel.starts import Starts
    from polvet.records.state_files import iter_states, parse_state

    if sum((state is not None, file is not None, all_starts)) > 1:
        raise InputError(
            "several sets of states are given.", Where("--state"), "Give one of --state, --states, --all-starts."
        )
    if state is not None:
        return [parse_state(task, state, Where("--state"))]
    if file is None:
        return _list_within(Starts.of(task, budget).states(budget=budget))
    if not (found := list(iter_states(task, file))):
        raise InputError("there is no state to decide.", Where(str(file)), "Give states, one per line.")
    return found


def _list_within(states: Iterator[State]) -> list[State]:
    """Return all the states, or raise LimitReached: a start condition may describe more than can be listed."""
    found: list[State] = []
    for state in states:
        found.append(state)
        if len(found) > MOST_STARTS:
            raise LimitReached(f"more than {MOST_STARTS:,} start states; narrow them with --start, or use --states")
    return found


def _threads(workers: str, questions: int) -> int:
    if workers == "all":
        return max(1, min(os.cpu_count() or 1, questions // 256))
    if not workers.isdigit() or int(workers) < 1:
        raise InputError(
            f"'{workers}' is no number of threads.", Where("--workers"), "Give 1 or more, all, or ray:auto."
        )
    return int(workers)


def _write_evidence(
    task: Task, asked: list[State], decided: list[Decided], budget: Budget, output: Path | None, folder: Path | None,
    spent: Stopwatch, *, inline: bool,
) -> tuple[Any, list[str], Confirmation | None]:  # fmt: skip
    """Return the certificate (its path, or itself where it is small), lines for people, and what was checked."""
    from polvet.confirm.outcome import worst
    from polvet.files import write_whole
    from polvet.safety import Decider, Verdict, prove
    from polvet.safety.confirmed import confirm_answers, confirm_states

    if output is None and folder is None and not inline:
        return None, [], confirm_answers(task, asked, decided, found=spent(), budget=budget)
    checked: Confirmation | None = None
    prover = Decider(task, algorithm="lazy", share=True)
    paths: dict[str, str] = {}
    for verdict, name in ((Verdict.SAFE, "safe.json"), (Verdict.UNSAFE, "unsafe.json")):
        chosen = [state for state, answer in zip(asked, decided, strict=True) if answer.verdict is verdict]
        if not chosen:
            continue
        where = output if output is not None else None if folder is None else folder / name
        make = partial(prove, prover, verdict=verdict, budget=budget)
        certificate, said_so = confirm_states(
            task, verdict.value, chosen, make, found=spent(), budget=budget, output=where
        )
        checked = worst(checked, said_so)
        if where is None:
            return (certificate if len(certificate["states"]) <= INLINE_STATES else None), [], checked
        write_whole(where, json_module.dumps(certificate, ensure_ascii=False) + "\n")
        paths[verdict.value] = str(where)
    lines = [f"evidence     {path} ({verdict})" for verdict, path in paths.items()]
    if output is not None:
        return next(iter(paths.values()), None), lines, checked
    return paths, lines, checked


def _answer(
    task: Task, asked: list[State], decided: list[Decided], figures: dict[str, Any], certificate: Any, lines: list[str],
    spent: Stopwatch, seed: int, file: Path | None, checked: Confirmation | None, json: bool,
) -> int:  # fmt: skip
    from polvet.model.semantics import show_state
    from polvet.records.state_files import StateFormat

    names = StateFormat(task)
    counts = Counter(answer.verdict.value for answer in decided)
    verdict = next(name for name in ("unsafe", "unknown", "safe") if counts[name])
    reason = next((said(answer.limit) for answer in decided if answer.limit is not None), None)
    safe = {"safe": True, "unsafe": False, "unknown": None}
    rows = [
        {
            "state": names.write(state), "safe": safe[answer.verdict.value], "expanded": answer.expanded,
            "passes": answer.passes, "seconds": round(answer.seconds, 9),
            **({"reason": said(answer.limit)} if answer.limit is not None else {}),
        }
        for state, answer in zip(asked, decided, strict=True)
    ] if json else []  # fmt: skip
    totals = {"safe": counts["safe"], "unsafe": counts["unsafe"], "unknown": counts["unknown"]}
    expanded = sum(answer.expanded for answer in decided)
    shown = [
        f"states       {len(asked):,}: {', '.join(f'{count:,} {name}' for name, count in totals.items() if count)}"
    ]
    shown += [
        f"  {answer.verdict.value:8} {show_state(task.network, state)}"
        for state, answer in zip(asked[:SHOWN], decided, strict=False)
    ]
    if len(asked) > SHOWN:
        shown.append(f"  ... and {len(asked) - SHOWN:,} more")
    shown.append(
        f"cost         {figures['decide_seconds']:.3f} s, {expanded:,} looks at actions ({figures['algorithm']})"
    )
    if file is not None:
        lines = [f"written      {file} ({figures['resumed']:,} states were there already)", *lines]
    return Answer(
        verdict, CODES[verdict], spent(), {"states": rows, **totals, "expanded": expanded, **figures},
        [*shown, *lines], reason, seed, certificate, checked=checked,
    ).show(as_json=json)  # fmt: skip
