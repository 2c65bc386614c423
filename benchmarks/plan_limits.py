"""Do limits hold for plans of every kind? Some forty inputs too large or too hard to finish, with 1, 3 and 10 seconds each.

    python -m benchmarks.plan_limits [--limits 1 3]

Plans with and without guards, GenSieve, goals, sketches, integer transition systems, policies that are searched, and problems of PDDL
in which rules are followed. A limit is kept where the answer comes within a tenth of it and two seconds more, by the clock. An input
that is decided within a limit is not asked again with more. On a busy machine an answer also waits for a core; `late` is how long it
was computed after its limit, by CPU time and the share of a core that it had, and `kept_computing` compares that with the same room.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.cli.test_limits import plan, ring
from tests.general.worlds import WORLDS
from tests.termination.problems import random_problem

import polvet
from polvet.errors import LimitReached

RESULTS = Path(__file__).resolve().parent / "results"
LIMITS = (1.0, 3.0, 10.0)
SLACK, GRACE = 0.1, 2.0
Question = Callable[[float], Any]


def plans(folder: Path) -> Iterator[tuple[str, Question]]:
    """Yield small plans with guards, and large rings without."""
    for number, (size, count) in enumerate(((6, 3), (6, 4), (8, 4), (10, 5), (20, 6), (200, 8))):
        file = folder / f"guarded{number}.json"
        draw = random.Random(number)
        file.write_text(json.dumps(plan(ring(size, size, draw), count, draw, guarded=True)))
        yield (
            f"guards, {size} states, {count} variables",
            lambda seconds, file=file: polvet.terminates(file, time_limit=seconds),
        )
        if number in (1, 3, 5):
            yield (
                f"guards, {size} states, {count} variables, goal, why, bound",
                lambda seconds, file=file: polvet.terminates(file, goal="x0 == 0", why=True, bound=True, time_limit=seconds),
            )  # fmt: skip
    for size, chords, count, method in (
        (2_000, 6_000, 6, "gensieve"), (5_000, 15_000, 40, "gensieve"), (20_000, 60_000, 20, "gensieve"),
        (20_000, 60_000, 20, "auto"), (40_000, 120_000, 30, "auto"), (20_000, 80_000, 60, "complete"),
    ):  # fmt: skip
        file = folder / f"ring{size}-{method}.json"
        file.write_text(
            json.dumps(plan(ring(size, chords, random.Random(size)), count, random.Random(1), guarded=False))
        )
        name = f"ring, {size:,} states, {count} variables, {method}"
        yield name, lambda seconds, file=file, method=method: polvet.terminates(file, method=method, time_limit=seconds)


def sketches(folder: Path) -> Iterator[tuple[str, Question]]:
    """Yield sketches whose rules hang together, for termination and with goals, and rules to choose among."""
    for number, (flags, numbers, rules) in enumerate(
        ((0, 13, 13), (10, 10, 30), (14, 14, 30), (15, 15, 60), (20, 30, 90))
    ):
        draw, lines = random.Random(number), []
        booleans, names = [f"b{k}" for k in range(flags)], [f"n{k}" for k in range(numbers)]
        for rule in range(rules):
            lower = names[rule % numbers]
            needs = [draw.choice([flag, f"!{flag}"]) for flag in draw.sample(booleans, min(3, flags))]
            does = [draw.choice([flag, f"!{flag}"]) for flag in draw.sample(booleans, min(3, flags))]
            does += [f"{other}-up" for other in draw.sample([one for one in names if one != lower], 2)]
            lines.append(f"{', '.join([*needs, f'{lower} > 0'])} -> {', '.join([*does, f'{lower}-down'])}")
        head = f"boolean {' '.join(booleans)}\n" if flags else ""
        file = folder / f"sketch{number}.txt"
        file.write_text(f"{head}numeric {' '.join(names)}\n" + "\n".join(lines) + "\n")
        yield (
            f"sketch, {flags + numbers} features, {rules} rules",
            lambda seconds, file=file: polvet.terminates(file, time_limit=seconds),
        )
    for count in (8, 11, 13):
        names = [f"n{k}" for k in range(count)]
        rules_ = [
            f"{n} > 0 -> {n}-down, {names[(k + 1) % count]}?, {names[(k + 2) % count]}?" for k, n in enumerate(names)
        ]
        file = folder / f"goal{count}.txt"
        file.write_text(f"numeric {' '.join(names)}\n" + "\n".join(rules_) + "\n")
        yield (
            f"sketch, {count} features, goal",
            lambda seconds, file=file: polvet.terminates(file, goal="n0 = 0", halting=True, time_limit=seconds),
        )
        yield (
            f"rules to choose among, {count} features",
            lambda seconds, file=file: polvet.synthesize(file, goal="n0 = 0, n1 = 0", time_limit=seconds),
        )


def systems(folder: Path) -> Iterator[tuple[str, Question]]:
    """Yield integer transition systems of many rules over many variables."""
    for number, (count, locations, rules) in enumerate(
        ((4, 3, 12), (6, 4, 24), (8, 5, 60), (12, 6, 120), (20, 10, 300))
    ):
        draw, names = random.Random(number), [f"A{k}" for k in range(count)]
        lines = []
        for _ in range(rules):
            terms = [
                f"{name} {draw.choice('+-')} {draw.choice([draw.choice(names), '1', '2'])}"
                if draw.random() < 0.5
                else name
                for name in names
            ]
            guard = " && ".join(
                f"{draw.choice(names)} {draw.choice(['+', '-'])} {draw.choice(names)} {draw.choice(['>=', '<='])} {draw.randint(-9, 9)}"
                for _ in range(3)
            )
            ends = [f"f{draw.randrange(locations)}({','.join(part)})" for part in (names, terms)]
            lines.append(f"  {ends[0]} -> Com_1({ends[1]}) :|: {guard}")
        head = f"(GOAL COMPLEXITY)\n(STARTTERM (FUNCTIONSYMBOLS f0))\n(VAR {' '.join(names)})\n(RULES\n"
        file = folder / f"system{number}.koat"
        file.write_text(head + "\n".join(lines) + "\n)\n")
        yield (
            f"transition system, {count} variables, {rules} rules",
            lambda seconds, file=file: polvet.terminates(file, time_limit=seconds),
        )


def searches(folder: Path) -> Iterator[tuple[str, Question]]:
    """Yield qualitative problems that need a policy."""
    for seed, numbers, booleans in ((22, 4, 2), (1, 6, 4), (2, 7, 5), (38, 9, 6), (0, 14, 2), (1, 16, 1)):
        file = folder / f"random{seed}-{numbers}.qnp"
        file.write_text(random_problem(seed, numbers, booleans))
        yield (
            f"synthesis, {numbers} numbers, {booleans} booleans",
            lambda seconds, file=file: polvet.synthesize(file, time_limit=seconds),
        )


def domains(folder: Path) -> Iterator[tuple[str, Question]]:
    """Yield policies that are followed in many problems, or in large ones."""
    for name, world in WORLDS.items():
        (folder / f"{name}.pddl").write_text(world.domain)
        (folder / f"{name}.txt").write_text(world.policy)
        files = []
        for seed in range(200):
            files.append(folder / f"{name}-{seed}.pddl")
            files[-1].write_text(world.instance(seed))
        yield (
            f"rules followed, {name}, 200 problems",
            lambda seconds, name=name, files=tuple(files): polvet.generalizes(
                folder / f"{name}.txt", *files, domain=folder / f"{name}.pddl", time_limit=seconds
            ),
        )


def measured(name: str, ask: Question, limits: Sequence[float]) -> Iterator[dict[str, Any]]:
    """Yield a row for each limit that the input reaches, and for the one within which it is decided."""
    for limit in limits:
        clock, begun = time.monotonic(), time.process_time()
        try:
            answer = ask(limit).word
        except LimitReached:  # before anything could be asked
            answer = "unknown"
        took, cpu = time.monotonic() - clock, time.process_time() - begun
        late, room = max(0.0, took - limit) * min(1.0, cpu / took), limit * SLACK + GRACE
        yield {
            "input": name, "limit": limit, "answer": answer, "took": round(took, 2), "cpu": round(cpu, 2), "late": round(late, 2),
            "kept": took <= limit + room, "kept_computing": late <= room,
        }  # fmt: skip
        if answer != "unknown":
            return


def written(rows: list[dict[str, Any]]) -> None:
    """Write both files of results."""
    counts = {key: sum(row[key] for row in rows) for key in ("kept", "kept_computing")}
    document = {
        "inputs": len({row["input"] for row in rows}), "runs": len(rows), **counts, "load": os.getloadavg()[0],
        "reached": sum(row["answer"] == "unknown" for row in rows), "latest": max(row["late"] for row in rows), "rows": rows,
        "greatest_overrun": round(max(row["took"] - row["limit"] for row in rows), 2),
    }  # fmt: skip
    RESULTS.joinpath("plan-limits.json").write_text(json.dumps(document, indent=1) + "\n")
    lines = [
        "# Plans with too little time", "",
        f"{document['inputs']} inputs, {document['runs']} runs, {document['reached']} of them ended without a verdict. {document['kept']} "
        f"answered within the limit, a tenth of it and 2 s, by the clock of a machine with a load of {document['load']:.0f} on two cores; "
        f"by what was computed after the limit (*late*) {document['kept_computing']}. The greatest overrun by the clock is "
        f"{document['greatest_overrun']} s, the greatest *late* {document['latest']} s.", "",
        "| input | limit | answer | took | CPU s | late |", "|---|---|---|---|---|---|",
    ]  # fmt: skip
    lines += [
        f"| {row['input']} | {row['limit']:g} | {row['answer']} | {row['took']} | {row['cpu']} | {row['late']} |" for row in rows
    ]  # fmt: skip
    (RESULTS / "plan-limits.md").write_text("\n".join(lines) + "\n")


def main() -> None:
    """Measure, kinds in turn, and write both files after each input."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--limits", type=float, nargs="+", default=LIMITS)
    limits = parser.parse_args().limits
    rows: list[dict[str, Any]] = []
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "warm.txt").write_text("numeric n\nn > 0 -> n-down\n")
        polvet.terminates(folder / "warm.txt", goal="n = 0")  # what is imported is no question's cost
        kinds = (plans, sketches, systems, searches, domains)
        for some in zip_longest(*(list(kind(folder)) for kind in kinds)):
            for one in filter(None, some):
                for row in measured(*one, limits):
                    rows.append(row)
                    print(row, flush=True)
                written(rows)


if __name__ == "__main__":
    main()
