"""`polvet decide --goal-reaching`: from which states a policy keeps the goal in reach (a strong-cyclic policy)."""

from __future__ import annotations

import json as json_module
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polvet.cli.answer import Answer, ExitCode
from polvet.cli.limits import said

if TYPE_CHECKING:
    from polvet.budget import Budget, Stopwatch
    from polvet.confirm.outcome import Confirmation
    from polvet.model.semantics import State
    from polvet.model.task import Task

SHOWN = 20
WON, LOST = "strong-cyclic", "not-strong-cyclic"
CODES = {WON: ExitCode.DONE, LOST: ExitCode.FOUND, "unknown": ExitCode.UNKNOWN}


def decide_goal_reaching(
    task: Task, asked: list[State], budget: Budget, output: Path | None, folder: Path | None, spent: Stopwatch, json: bool
) -> int:  # fmt: skip
    """Answer for each state whether a strong-cyclic policy exists, with evidence where it is asked for."""
    from polvet.confirm.confirmation import SMALL_STATES, seconds_for
    from polvet.confirm.outcome import worst
    from polvet.errors import LimitReached
    from polvet.files import write_whole
    from polvet.model.semantics import Semantics
    from polvet.records.state_json import state_to_json
    from polvet.safety.confirmed import confirm_batches, confirm_states
    from polvet.safety.strong_cyclic import prove_lost, prove_won, solve

    try:
        solved = solve(task, asked, budget=budget)
    except LimitReached as limit:
        figures: dict[str, Any] = {"strong_cyclic": None, "states": []}
        return Answer("unknown", CODES["unknown"], spent(), figures, [], said(limit)).show(as_json=json)
    won = [solved.is_won(state) for state in asked]
    verdict = WON if all(won) else LOST
    written: dict[str, str] = {}
    checked: Confirmation | None = None
    for name, wanted, prove, file in (
        (WON, True, prove_won, "strong-cyclic.json"), (LOST, False, prove_lost, "no-strong-cyclic.json"),
    ):  # fmt: skip
        chosen = [state for state, one in zip(asked, won, strict=True) if one is wanted]
        place = output if output is not None and name == verdict else None if folder is None else folder / file
        if not chosen:
            continue
        if place is None:
            within = budget.at_most(seconds_for(spent(), small=solved.game.states <= SMALL_STATES))
            claims = [(name, chosen, partial(prove, solved, budget=within))]
            checked = worst(checked, confirm_batches(task, claims, found=spent(), budget=within))
        else:
            make = partial(prove, solved, budget=budget)
            certificate, outcome = confirm_states(task, name, chosen, make, found=spent(), budget=budget, output=place)
            checked = worst(checked, outcome)
            write_whole(place, json_module.dumps(certificate, ensure_ascii=False) + "\n")
            written[name] = str(place)
    show = Semantics(task.network).show
    figures = {
        "strong_cyclic": all(won), "won": sum(won), "lost": len(won) - sum(won), "explored": solved.game.states,
        "states": [
            {"state": state_to_json(task, state), "strong_cyclic": one} for state, one in zip(asked, won, strict=True)
        ] if json else [],
    }  # fmt: skip
    lines = [
        f"states       {len(asked):,}: {sum(won):,} with a strong-cyclic policy, {len(won) - sum(won):,} without",
        *(f"  {'yes' if one else 'no':4} {show(state)}" for state, one in zip(asked[:SHOWN], won, strict=False)),
        *([f"  ... and {len(asked) - SHOWN:,} more"] if len(asked) > SHOWN else []),
        f"explored     {solved.game.states:,} states",
        *(f"evidence     {path} ({name})" for name, path in written.items()),
    ]
    shown = written.get(verdict) if output is not None else written or None
    return Answer(
        verdict, CODES[verdict], spent(), figures, lines, certificate=shown, checked=checked
    ).show(as_json=json)  # fmt: skip
