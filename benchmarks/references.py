"""Every published state count and value that fits, compared with what polvet finds.

State counts up to 2 million; probabilities and expected rewards up to 500,000 states, inside bounds at most 1e-6 apart
(relatively); small ones also exactly. Counts that their source cut off at the property are compared with the full count that the
collection gives beside them.
    python -m benchmarks.references            writes docs/references.md
"""

from __future__ import annotations

import json
import logging
import sys
import time
from dataclasses import dataclass
from fractions import Fraction
from math import inf
from pathlib import Path
from typing import Any

from polvet.budget import Budget
from polvet.front.properties import property_of_task
from polvet.kernel.compiled import Compiled
from polvet.mdp.check import check_property
from polvet.model.arithmetic import Value
from polvet.model.task import Task, TaskOptions
from polvet.sources import load_task
from polvet.worlds.formats import load_model

ROOT = Path(__file__).resolve().parents[1]
BENCHMARKS = ROOT.parent / "shared" / "benchmarks"
MOST_STATES, MOST_CHECKED, MOST_EXACT = 2_000_000, 500_000, 3_000
LANGUAGES = (".jani", ".prism", ".nm", ".pm")
CONTINUOUS = "dpm.jani"  # a Markov automaton: continuous time is refused by name


@dataclass(frozen=True, slots=True)
class Reference:
    """One entry of the collection: a model with constants, how many states it has, and perhaps the value of a property."""

    file: str
    constants: tuple[tuple[str, Any], ...]
    states: int | None
    property: str | None
    value: Any
    kind: str

    def __str__(self) -> str:
        given = ",".join(f"{name}={value}" for name, value in self.constants)
        return f"{Path(self.file).name}({given})" + (f" {self.property}" if self.property else "")


def references() -> list[Reference]:
    """Return the entries about models that polvet reads; none where the collection is absent."""
    if not (BENCHMARKS / "reference.json").exists():
        return []
    found = []
    for entry in json.loads((BENCHMARKS / "reference.json").read_text()):
        file = entry["file"] or ""
        if not file.endswith(LANGUAGES) or file.endswith(CONTINUOUS):
            continue
        full = (entry.get("recheck_states") or {}).get("full_exploration")
        states = entry.get("full_states") or full or entry.get("states")
        constants = tuple((entry["parameters"] or {}).items())
        valued = entry["collection"] in ("qvbs", "storm-testfiles")  # the others describe policies and abstractions
        wanted, value = (entry["property"], entry["value"]) if valued else (None, None)
        found.append(Reference(file, constants, states, wanted, value, entry["type"]))
    return found


def task_of(reference: Reference) -> Task:
    """Return the model of an entry, ready to run."""
    file = BENCHMARKS / reference.file
    known = {constant.name for constant in load_model(file).constants}
    values: dict[str, Value] = {
        name: Fraction(str(value)) if isinstance(value, float) else value
        for name, value in reference.constants
        if name in known
    }
    return load_task(file, TaskOptions(constants=values))


def instances() -> list[Reference]:
    """Return one entry per model and constants whose number of states is known and fits."""
    seen: dict[tuple[Any, ...], Reference] = {}
    for one in references():
        if one.states is not None and one.states <= MOST_STATES:
            seen.setdefault((one.file, one.constants), one)
    return list(seen.values())


def values() -> list[Reference]:
    """Return the entries with a probability or expected reward that fits."""
    return [
        one
        for one in references()
        if one.value is not None
        and one.property is not None
        and "scheduler" not in one.property
        and (one.states or 0) <= MOST_CHECKED
    ]


def count_states(reference: Reference) -> int:
    """Return how many states polvet finds."""
    return len(Compiled(task_of(reference).network).explore(budget=Budget(states=3 * MOST_STATES)))


def published(value: Any) -> tuple[Fraction | float | bool, Fraction]:
    """Return a published value and how far it may be off: nothing for fractions, rounding for decimals."""
    if isinstance(value, bool):
        return value, Fraction(0)
    if isinstance(value, dict) and "num" in value:
        return Fraction(int(value["num"]), int(value["den"])), Fraction(0)
    if isinstance(value, dict):
        return Fraction(value["approx"]), Fraction(value["approx"]) / 10**15
    if value in ("infinity", "inf"):
        return inf, Fraction(0)
    if isinstance(value, float) and value != int(value):
        return Fraction(str(value)), Fraction(1, 2 * 10 ** len(str(value).split(".")[1]))  # rounded to the digits shown
    return Fraction(str(value)), Fraction(0)


def agrees(reference: Reference, *, exact: bool = False) -> tuple[bool, str]:
    """Return whether polvet's answer agrees with the published one, and polvet's answer as text."""
    task = task_of(reference)
    assert reference.property is not None
    result = check_property(task.network, property_of_task(task, reference.property), exact=exact)
    known, slack = published(reference.value)
    if result.limit is not None:
        return False, str(result.limit)
    if isinstance(known, bool):
        return result.truth is known, str(result.truth)
    shown = f"[{result.lower!r}, {result.upper!r}]"
    assert result.lower is not None
    assert result.upper is not None
    if known == inf:
        return result.lower == inf, shown
    if result.lower == inf:
        return False, shown
    if exact:
        return result.exact is not None and abs(result.exact - known) <= slack, str(result.exact)[:60]
    inside = Fraction(result.lower) - slack <= known <= Fraction(result.upper) + slack
    return inside and result.upper - result.lower <= 1.001e-6 * abs(result.lower), shown


def main() -> None:
    """Compare everything and write the table."""
    logging.disable(logging.WARNING)
    sys.set_int_max_str_digits(0)
    lines = [
        "# Published numbers, found again", "",
        "Written by `python -m benchmarks.references` from the Quantitative Verification Benchmark Set and Storm's test files.", "",
        "## States", "", "| model | states | found |", "|---|---|---|",
    ]  # fmt: skip
    wrong = 0
    begun = time.process_time()
    for one in instances():
        found = count_states(one)
        wrong += found != one.states
        lines.append(f"| {one} | {one.states:,} | {'same' if found == one.states else found} |")
    counted = len(instances())
    lines += ["", "## Values", "", "| model and property | published | polvet's bounds |", "|---|---|---|"]
    for one in values():
        good, shown = agrees(one)
        wrong += not good
        text = one.value.get("approx") if isinstance(one.value, dict) else one.value
        lines.append(f"| {one} | {text} | {'' if good else '**differs** '}{shown} |")
    exact = [one for one in values() if (one.states or 0) <= MOST_EXACT and "bounded" not in one.kind]
    lines += ["", "## Exact values", "", "| model and property | exactly |", "|---|---|"]
    for one in exact:
        good, shown = agrees(one, exact=True)
        wrong += not good
        lines.append(f"| {one} | {'' if good else '**differs** '}{shown} |")
    summary = f"{counted} state counts, {len(values())} values, {len(exact)} of them exactly; {wrong} differ."
    lines.insert(3, summary + "\n")
    (ROOT / "docs" / "references.md").write_text("\n".join(lines) + "\n")
    print(summary, f"{time.process_time() - begun:.0f} s of CPU")


if __name__ == "__main__":
    main()
