"""Deciding many states in portions, each written down when it is done, so that an interrupted batch goes on where it was.

The file holds JSON lines: a head {"format": "decisions/1", "task_sha256", "options"} and one line per decided state
{"state", "safe", "expanded", "seconds"}. Lines are only appended; a line cut off by a crash is dropped on the next start.
Undecided states are not written: they are tried again.

A crew decides portions of fixed size, each with a memory of its own: the verdicts are the same, but what one portion learns
does not help the next, so that `expanded` counts more looks where states share much.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polvet.budget import UNLIMITED, Budget, stopwatch
from polvet.errors import InputError, LimitReached, Where
from polvet.files import Json, is_stream, parse_json, read_text, write_whole
from polvet.model.semantics import State
from polvet.records.state_files import StateFormat
from polvet.safety.decide import ActionOrder, Decided, Decider, Question
from polvet.verdict import Verdict
from polvet.workers.parcel import Parcel, open_parcel
from polvet.workers.protocol import Crew

FIRST_PORTION, LARGEST_PORTION = 1_000, 20_000
CREW_PORTION = 1_000
WANTED_SECONDS = 1.0
FORMAT = "decisions/1"

OnProgress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Batch:
    """One verdict per state that was asked about, in order; `resumed` of them were read from the file."""

    decided: list[Decided]
    resumed: int


def decide_many(
    decider: Decider,
    states: Sequence[State],
    *,
    file: Path | None = None,
    budget: Budget = UNLIMITED,
    crew: Crew | None = None,
) -> Batch:
    """Return the verdict on each state; with a file, what stands there is not decided again and the rest is appended."""
    if file is not None and is_stream(file):  # nothing stands there, and everything goes there at once
        batch = decide_many(decider, states, budget=budget, crew=crew)
        decided = dict(zip(states, batch.decided, strict=True))
        rows = _rows(StateFormat(decider.task), list(decided), list(decided.values()))
        write_whole(file, "\n".join([json.dumps(_head(decider)), *rows, ""]))
        return batch
    names = StateFormat(decider.task)
    known = _resume(names, file, _head(decider)) if file is not None else {}
    distinct = list(dict.fromkeys(states))
    resumed = sum(state in known for state in distinct)
    left = [state for state in distinct if state not in known]
    if crew is not None:
        for part, answers in _by_crew(crew, decider, left, budget):
            known.update(zip(part, answers, strict=True))
            if file is not None:
                _append(file, _rows(names, part, answers))
            if budget.on_progress is not None:
                budget.on_progress(len(known), len(distinct))
        return Batch([known[state] for state in states], resumed)
    portion, position = FIRST_PORTION, 0
    while position < len(left):
        if budget.is_over():
            late = Decided(Verdict.UNKNOWN, 0, 0, 0.0, budget.reached("time"))
            known.update(dict.fromkeys(left[position:], late))
            break
        part = left[position : position + portion]
        spent = stopwatch()
        done = position + resumed
        answers = decider.decide(part, budget=budget.told(_later(budget.on_progress, done, len(distinct))))
        for state, answer in zip(part, answers, strict=True):
            known[state] = answer
        if file is not None:
            _append(file, _rows(names, part, answers))
        position += len(part)
        if spent() < WANTED_SECONDS / 2:
            portion = min(2 * portion, LARGEST_PORTION)
        elif spent() > 2 * WANTED_SECONDS:
            portion = max(portion // 2, 1)
    return Batch([known[state] for state in states], resumed)


def _head(decider: Decider) -> Json:
    """Return the question that the file answers."""
    task = decider.task
    head: Json = {"format": FORMAT, "task_sha256": task.sha256, "options": task.options.to_json()}
    return {**head, "avoids": list(task.avoid.names)} if task.avoid.names else head


@dataclass(frozen=True, slots=True)
class Portion:
    """States for a worker to decide, and how."""

    states: tuple[State, ...]
    question: Question
    megabytes: int | None
    most_states: int | None


def decide_portion(parcel: Parcel, portion: Portion) -> list[Decided]:
    """Return the verdict on each state of the portion; nothing is remembered from another one."""
    opened = open_parcel(parcel)
    question = portion.question
    order = ActionOrder(question.order, question.seed, opened.bound)
    decider = Decider(
        opened.task, algorithm=question.algorithm, order=order, share=question.share, radius=question.radius
    )
    return decider.decide(portion.states, budget=Budget(None, portion.megabytes, portion.most_states))


def _by_crew(
    crew: Crew, decider: Decider, states: Sequence[State], budget: Budget
) -> Iterator[tuple[Sequence[State], list[Decided]]]:
    cuts = range(0, len(states), CREW_PORTION)
    portions = [
        Portion(tuple(states[cut : cut + CREW_PORTION]), decider.question, budget.megabytes, budget.states)
        for cut in cuts
    ]
    done = 0
    try:
        for answers in crew.map(decide_portion, portions, budget=budget):
            yield portions[done].states, answers
            done += 1
    except LimitReached as limit:
        for portion in portions[done:]:
            yield portion.states, [Decided(Verdict.UNKNOWN, 0, 0, 0.0, limit)] * len(portion.states)


def _later(progress: OnProgress | None, done: int, total: int) -> OnProgress | None:
    return None if progress is None else lambda now, _: progress(done + now, total)


def _resume(names: StateFormat, file: Path, head: Mapping[str, Any]) -> dict[State, Decided]:
    """Return what the file holds already, after dropping a line that was cut off; start the file if there is none."""
    if not file.exists() or file.stat().st_size == 0:
        file.parent.mkdir(parents=True, exist_ok=True)
        _append(file, [json.dumps(head)])
        return {}
    text = read_text(file)
    whole = text[: text.rfind("\n") + 1]
    if len(whole) < len(text):
        os.truncate(file, len(whole.encode()))
    lines = whole.splitlines()
    where = Where(str(file))
    if not lines or parse_json(lines[0], where) != head:
        raise InputError(
            "was not written by the same question.", where, "Choose another file with -o, or remove this one."
        )
    known: dict[State, Decided] = {}
    for number, line in enumerate(lines[1:], start=2):
        row = json.loads(line)
        state = names.read(row["state"], Where(str(file), line=number))
        verdict = Verdict.SAFE if row["safe"] else Verdict.UNSAFE
        known[state] = Decided(verdict, row["expanded"], row.get("passes", 0), row["seconds"])
    return known


def _rows(names: StateFormat, states: Sequence[State], answers: Sequence[Decided]) -> list[str]:
    return [
        json.dumps(
            {
                "state": names.write(state),
                "safe": answer.verdict is Verdict.SAFE,
                "expanded": answer.expanded,
                "passes": answer.passes,
                "seconds": round(answer.seconds, 9),
            },
            ensure_ascii=False,
        )
        for state, answer in zip(states, answers, strict=True)
        if answer.verdict is not Verdict.UNKNOWN
    ]


def _append(file: Path, lines: Iterable[str]) -> None:
    """Append the lines and make sure that they reach the disk."""
    try:
        with file.open("a", encoding="utf-8") as stream:
            stream.writelines(f"{line}\n" for line in lines)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise InputError(f"cannot be written ({error.strerror}).", Where(str(file)), "Choose another path.") from None
