"""Measure all algorithms that decide state safety, side by side on the same states.

Run `python -m benchmarks.safety`; it writes `results/safety.json`, `results/safety.md` and the cumulative plots
`results/safety-*.svg` (proportion of states decided against time, as Fig. 2 of the paper). Questions are the states on
runs of policies learned by Q-learning for a short while, in every built-in world. Each question is asked afresh with a
time limit of its own; times are measured inside the kernel.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np

from polvet.budget import Budget
from polvet.domains import generate
from polvet.kernel.compiled import Compiled, Words
from polvet.kernel.starts import sample_starts
from polvet.model.task import Task
from polvet.safety import Decider, Verdict
from polvet.safety.decide import FAIL, GOAL, compile_task

SHORT = 0.1  # answers that took less are timed again
ANSWER_ALL = ("lazy fresh", "ipi fresh")  # on the large Flappy Bird; the others have a budget
REACHED = 2_000_000  # states that the questions of a batch are drawn from
PORTION = 500  # questions of one turn on the large Flappy Bird
BIRD, LAYERS = "Flappy Bird 1000 x 10, 250 walls", "Layered family: looks at actions"
BATCH = "Batches by one thread and by two"
WORLDS = "Median time per state, asked afresh"
RESULTS = Path(__file__).resolve().parent / "results"
SEARCHES = ("lazy", "ipi", "npi", "tarjan", "propagate", "vi", "tvi", "lao", "lrtdp")
COLOURS = ("#d62728", "#1f77b4", "#2ca02c", "#9467bd", "#8c564b", "#7f7f7f", "#bcbd22", "#17becf", "#ff7f0e")
DOMAINS: dict[str, dict[str, Any]] = {
    "racetrack": {"slip": "0.1"}, "blocksworld": {"n": 6, "cost": 15}, "sliding-tiles": {"n": 8, "cost": 20},
    "transport": {"locations": 12, "packages": 15}, "beluga": {"jigs": 5, "racks": 2}, "one-way-line": {"n": 20, "p": 15},
    "two-way-line": {"n": 20, "p": 15}, "bouncing-ball": {}, "inverted-pendulum": {}, "follow-car": {},
    "flappy-bird": {"width": 100, "height": 20, "walls": 20}, "layers": {"d": 16}, "janitor": {"width": 8, "height": 8},
    "folline": {}, "comexp": {},
}  # fmt: skip

BATCHES: dict[str, dict[str, Any]] = {
    "flappy-bird": {"width": 4000, "height": 100, "walls": 250}, "one-way-line": {"n": 12, "p": 8},
    "two-way-line": {"n": 10, "p": 7}, "beluga": {"jigs": 6, "racks": 2},
}  # fmt: skip


class Learner:
    """Tabular Q-learning: +1 at the goal, -1 at fail; a state never seen takes a random label."""

    def __init__(self, task: Task, compiled: Compiled, seed: int) -> None:
        self.task, self.compiled, self.rng = task, compiled, random.Random(seed)
        self.table: dict[bytes, dict[int, float]] = {}

    def run(self, start: Words, *, learn: bool, most: int = 200) -> list[Words]:
        """Return the states of one run; with `learn`, explore and update the table."""
        machine, rng = self.compiled.machine, self.rng
        states = [start]
        for _ in range(most):
            state = states[-1]
            row = state.reshape(1, -1)
            if machine.holds(FAIL, row)[0] or machine.holds(GOAL, row)[0]:
                break
            moves = machine.moves(state) or []
            if not moves:
                break
            labels = sorted({label for label, _, _ in moves})
            values = self.table.setdefault(state.tobytes(), {})
            explores = rng.random() < (0.3 if learn else 0.02)
            label = rng.choice(labels) if explores or not values else max(labels, key=lambda one: values.get(one, 0.0))
            branches = [branch for one, _, found in moves if one in (label, -1) for branch in found]
            chosen = rng.choices(branches, [probability for probability, _, _ in branches])[0][1]
            after = np.array(chosen, dtype=np.uint64)
            states.append(after)
            if learn:
                row = after.reshape(1, -1)
                reward = -1.0 if machine.holds(FAIL, row)[0] else 1.0 if machine.holds(GOAL, row)[0] else 0.0
                future = max(self.table.get(after.tobytes(), {0: 0.0}).values(), default=0.0)
                values[label] = values.get(label, 0.0) + 0.3 * (reward + 0.97 * future - values.get(label, 0.0))
        return states

    def questions(self, count: int, *, steps: int) -> Words:
        """Return distinct states on runs of the policy after so many steps of learning."""
        starts = self.compiled.pack(sample_starts(self.task, 200, seed=1))
        taken = 0
        while taken < steps:
            taken += len(self.run(self.rng.choice(starts), learn=True))
        found: dict[bytes, Words] = {}
        while len(found) < count and taken < 3 * steps:
            states = self.run(self.rng.choice(starts), learn=False)
            taken += len(states)
            for state in states:
                found.setdefault(state.tobytes(), state)
        chosen = list(found.values())
        self.rng.shuffle(chosen)
        return np.stack(chosen[:count])


def ask_each(
    deciders: dict[str, Decider], states: Words, *, each: float, total: float
) -> dict[str, list[dict[str, Any]]]:
    """Return time, verdict and looks per algorithm and state; what does not fit into the time is left undecided.

    Algorithms take turns on each state, and short answers are timed three times and the best is kept: other work on the
    machine then hits all alike.
    """
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in deciders}
    spent = dict.fromkeys(deciders, 0.0)
    for state in states:
        for name, decider in deciders.items():
            left = min(each, total - spent[name])
            if left <= 0:
                rows[name].append({"verdict": "unknown", "seconds": each, "expanded": 0})
                continue
            begun = time.monotonic()
            budget = Budget(seconds=left, megabytes=3000)
            answer = decider.decide_packed(state.reshape(1, -1), budget=budget)[0]
            seconds = answer.seconds
            if seconds < SHORT and answer.verdict is not Verdict.UNKNOWN:
                again = (decider.decide_packed(state.reshape(1, -1))[0].seconds for _ in range(2))
                seconds = min(seconds, *again)
            spent[name] += time.monotonic() - begun
            rows[name].append({"verdict": answer.verdict.value, "seconds": seconds, "expanded": answer.expanded})
    return rows


def domains(count: int, *, learning: int, each: float, total: float) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return a table of medians per world, and all times for the plots."""
    table, curves = [], {}
    for name, parameters in DOMAINS.items():
        task = generate(name, **parameters).task()
        compiled = compile_task(task)
        states = Learner(task, compiled, seed=1).questions(count, steps=learning)
        deciders = {a: Decider(task, algorithm=a, share=False, compiled=compiled) for a in SEARCHES}
        answers = ask_each(deciders, states, each=each, total=total)
        truth = [next((rows[k]["verdict"] for rows in answers.values() if rows[k]["verdict"] != "unknown"), "unknown")
                 for k in range(len(states))]  # fmt: skip
        for algorithm, rows in answers.items():
            assert all(row["verdict"] in ("unknown", right) for row, right in zip(rows, truth, strict=True)), algorithm
        shared = Decider(task, share=True, compiled=compiled).decide_packed(states)
        assert [answer.verdict.value for answer in shared] == truth or "unknown" in truth
        medians = {a: median(row["seconds"] for row in rows) * 1e6 for a, rows in answers.items()}
        best = min(value for algorithm, value in medians.items() if algorithm != "lazy")
        table.append(
            {
                "world": name, "states": len(states), "unsafe": truth.count("unsafe"),
                **{f"{a} (µs)": _shown(medians[a], answers[a]) for a in SEARCHES},
                "lazy / best other": round(medians["lazy"] / best, 2),
                "lazy mean (µs)": round(mean(row["seconds"] for row in answers["lazy"]) * 1e6, 2),
                "lazy shared mean (µs)": round(mean(answer.seconds for answer in shared) * 1e6, 2),
            }
        )  # fmt: skip
        curves[name] = {a: [[row["seconds"], row["verdict"]] for row in rows] for a, rows in answers.items()}
        print(table[-1], flush=True)
    return table, curves


def _shown(value: float, rows: Sequence[dict[str, Any]]) -> str:
    undecided = sum(row["verdict"] == "unknown" for row in rows)
    return f"{value:.1f}" + (f" ({undecided} undecided)" if undecided else "")


def layered(depths: Sequence[int]) -> list[dict[str, Any]]:
    """Return how many looks each algorithm takes on the layered family."""
    rows = []
    for depth in depths:
        task = generate("layers", d=depth).task()
        start = compile_task(task).pack(sample_starts(task, 1, seed=0))
        row: dict[str, Any] = {"layers": depth}
        for algorithm in SEARCHES:
            budget = Budget(seconds=5)
            answer = Decider(task, algorithm=algorithm, share=False).decide_packed(start, budget=budget)[0]
            row[algorithm] = answer.expanded if answer.verdict is Verdict.SAFE else "> 5 s"
        rows.append(row)
    return rows


def flappy(count: int, *, learning: int, budget: float) -> list[dict[str, Any]]:
    """Return CPU time per question on a large Flappy Bird: the same questions for all, portion by portion in turn.

    lazy and iPI answer all. Any other algorithm that has used up its budget is asked no more; what all questions would
    take it is then extrapolated from those it was asked. TarjanSafe may not end on a question: it gets a second for
    each, so its figure is a lower bound.
    CPU time holds Python's answers, about a microsecond each, which is most of it where knowledge is shared.
    """
    task = generate("flappy-bird", width=1000, height=10, walls=250).task()
    compiled = compile_task(task)
    questions = bird_questions(task, compiled, count, learning)
    bills = {}
    for algorithm in ("lazy", "ipi"):
        bills[f"{algorithm} shared"] = min(
            (
                Bill().ask(Decider(task, algorithm=algorithm, share=True, compiled=compiled), questions)
                for _ in range(5)
            ),
            key=lambda bill: bill.cpu,
        )
    deciders = {f"{a} fresh": Decider(task, algorithm=a, share=False, compiled=compiled) for a in SEARCHES}
    bills |= {name: Bill() for name in deciders}
    for begin in range(0, count, PORTION):
        for name, decider in deciders.items():
            step = 1 if name == "tarjan fresh" else PORTION
            for first in range(begin, min(begin + PORTION, count), step):
                left = 1e6 if name in ANSWER_ALL else budget - bills[name].cpu
                if len(bills[name].verdicts) == first and left > 0:
                    part = questions[first : min(first + step, count)]
                    bills[name].ask(decider, part, seconds=1.0 if step == 1 else 2 * left)
    truth = bills["lazy shared"].verdicts
    for name, bill in bills.items():
        assert all(verdict in ("unknown", right) for verdict, right in zip(bill.verdicts, truth, strict=False)), name
    reference = bills["ipi fresh"].each
    return [bill.row(name, count, reference) for name, bill in bills.items()]


def bird_questions(task: Task, compiled: Compiled, count: int, learning: int) -> Words:
    """Return states on runs of a learned policy, shuffled, with repetitions as they come."""
    learner = Learner(task, compiled, seed=2)
    starts = compiled.pack(sample_starts(task, 200, seed=1))
    taken = 0
    while taken < learning:
        taken += len(learner.run(learner.rng.choice(starts), learn=True, most=500))
    found: list[Words] = []
    while len(found) < count:
        found += learner.run(learner.rng.choice(starts), learn=False, most=2000)
    questions = np.stack(found[:count])
    np.random.default_rng(2).shuffle(questions)
    return questions


def batches(count: int, repeat: int = 3) -> list[dict[str, Any]]:
    """Return what a large batch takes one thread and two: wall time, CPU time of each thread, looks; the best of each.

    Questions are drawn uniformly from states that exploration reaches. `busiest` is what the batch takes on cores that do nothing else.
    """
    rows = []
    for name, parameters in BATCHES.items():
        task = generate(name, **parameters).task()
        compiled = compile_task(task)
        starts = compiled.pack(sample_starts(task, 1000, seed=1))
        space = compiled.explore(starts, stop_at=[FAIL, GOAL], budget=Budget(states=REACHED))
        reached = np.array(space.states(0, len(space)))
        states = reached[np.random.default_rng(3).integers(0, len(reached), count)]
        best: dict[int, dict[str, Any]] = {}
        for _ in range(repeat):
            for threads in (1, 2):
                decider = Decider(task, threads=threads, compiled=compiled)
                begun = time.monotonic()
                answers = decider.decide_packed(states)
                wall = time.monotonic() - begun
                busy = decider.busy_seconds
                row = {
                    "world": name, "states": count, "threads": threads, "unsafe": sum(a.verdict is Verdict.UNSAFE for a in answers),
                    "wall (s)": round(wall, 3), "CPU of threads (s)": " + ".join(f"{one:.3f}" for one in busy),
                    "CPU (s)": round(sum(busy), 3), "busiest (s)": round(max(busy), 3),
                    "looks": sum(a.expanded for a in answers), "known states": decider.known_states,
                }  # fmt: skip
                if threads not in best or row["busiest (s)"] < best[threads]["busiest (s)"]:
                    best[threads] = row
        assert best[1]["unsafe"] == best[2]["unsafe"]
        for row in best.values():
            row["CPU / one thread's"] = round(row["CPU (s)"] / best[1]["CPU (s)"], 2)
            row["busiest / one thread's"] = round(row["busiest (s)"] / best[1]["busiest (s)"], 2)
            rows.append(row)
            print(row, flush=True)
    return rows


class Bill:
    """What the questions asked so far have cost one algorithm, in CPU seconds of the process."""

    def __init__(self) -> None:
        self.cpu = 0.0
        self.verdicts: list[str] = []
        self.seconds: list[float] = []
        self.looks = 0

    def ask(self, decider: Decider, states: Words, *, seconds: float | None = None) -> Bill:
        """Ask about the states; those after a limit was reached do not count as asked."""
        begun = time.process_time()
        answers = decider.decide_packed(states, budget=Budget(seconds=seconds))
        self.cpu += time.process_time() - begun
        stopped = next((k + 1 for k, one in enumerate(answers) if one.verdict is Verdict.UNKNOWN), len(answers))
        for one in answers[:stopped]:
            self.verdicts.append(one.verdict.value)
            self.seconds.append(one.seconds)
            self.looks += one.expanded
        return self

    @property
    def each(self) -> float:
        """Return the CPU seconds per question asked, answered or not."""
        return self.cpu / len(self.verdicts)

    def row(self, name: str, count: int, reference: float) -> dict[str, Any]:
        """Return the row of the table."""
        asked = len(self.verdicts)
        answered = asked - self.verdicts.count("unknown")
        total = self.each * count
        guess = "(extrapolated)" if answered >= asked - 1 else "(at least)"
        return {
            "algorithm": name, "asked": asked, "answered": answered, "unsafe": self.verdicts.count("unsafe"),
            "CPU s": round(self.cpu, 3), "CPU µs per question": round(self.each * 1e6, 2),
            "kernel median (µs)": round(median(self.seconds) * 1e6, 2), "looks per question": round(self.looks / asked, 2),
            f"CPU s for {count:,}": f"{total:.3g}" if answered == count else f"{total:.3g} {guess}",
            "of fresh iPI": f"{self.each / reference:.3g}",
        }  # fmt: skip


def plot(title: str, curves: dict[str, list[list[Any]]], verdict: str) -> str | None:
    """Return an SVG: the proportion of states with that verdict decided against time, one line per algorithm."""
    counts = {a: sorted(t for t, v in rows if v == verdict) for a, rows in curves.items()}
    total = max(map(len, counts.values()), default=0)
    if total == 0:
        return None
    left, right, top, bottom, low, high = 50, 430, 30, 260, -7.0, 1.0

    def x(seconds: float) -> float:
        return left + (right - left) * (np.log10(max(seconds, 10**low)) - low) / (high - low)

    def y(part: float) -> float:
        return bottom - (bottom - top) * part

    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" width="560" height="310" font-family="sans-serif" font-size="11">',
        '<rect width="560" height="310" fill="white"/>', f'<text x="{left}" y="18" font-size="13">{title}: {verdict} ({total})</text>',
    ]  # fmt: skip
    for power in range(int(low), int(high) + 1):
        parts.append(f'<line x1="{x(10**power):.1f}" x2="{x(10**power):.1f}" y1="{top}" y2="{bottom}" stroke="#ddd"/>')
        parts.append(f'<text x="{x(10**power):.1f}" y="{bottom + 14}" text-anchor="middle">1e{power}</text>')
    for part in (0, 0.5, 1):
        parts.append(f'<line x1="{left}" x2="{right}" y1="{y(part):.1f}" y2="{y(part):.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 6}" y="{y(part) + 4:.1f}" text-anchor="end">{part:g}</text>')
    parts.append(f'<text x="{(left + right) / 2}" y="{bottom + 32}" text-anchor="middle">seconds</text>')
    for k, (algorithm, times) in enumerate(counts.items()):
        points = [(left, bottom)]
        for done, seconds in enumerate(times, start=1):
            points += [(x(seconds), points[-1][1]), (x(seconds), y(done / total))]
        points.append((right, points[-1][1]))
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[k]}" stroke-width="1.5"/>')
        parts.append(f'<text x="{right + 12}" y="{top + 14 * k + 10}" fill="{COLOURS[k]}">{algorithm}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def write_plots(curves: dict[str, Any]) -> list[str]:
    """Write one plot per world and verdict, and two over all worlds; return the file names."""
    everything = {a: [row for world in curves.values() for row in world[a]] for a in SEARCHES}
    written = []
    for name, one in {**curves, "all worlds": everything}.items():
        for verdict in ("safe", "unsafe"):
            picture = plot(name, one, verdict)
            if picture is not None:
                file = f"safety-{name.replace(' ', '-')}-{verdict}.svg"
                (RESULTS / file).write_text(picture, encoding="utf-8")
                written.append(file)
    return written


def markdown(results: dict[str, list[dict[str, Any]]]) -> str:
    """Return the tables as Markdown."""
    parts = ["# Deciding state safety\n"]
    for title, rows in results.items():
        keys = list(rows[0])
        parts += [f"## {title}\n", "| " + " | ".join(keys) + " |", "|" + "---|" * len(keys)]
        parts += ["| " + " | ".join(str(row.get(key, "")) for key in keys) + " |" for row in rows]
        parts.append("")
    return "\n".join(parts)


def main() -> None:
    """Run all parts and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--states", type=int, default=300, help="questions per world")
    parser.add_argument("--learning", type=int, default=50_000, help="steps of Q-learning per world")
    parser.add_argument("--each", type=float, default=1.0, help="seconds per question")
    parser.add_argument("--total", type=float, default=20.0, help="seconds per algorithm and world")
    parser.add_argument("--queries", type=int, default=60_000, help="questions on the large Flappy Bird")
    parser.add_argument("--budget", type=float, default=60.0, help="CPU seconds on it for all but lazy and iPI")
    parser.add_argument(
        "--parts", nargs="+", choices=("bird", "layers", "batches", "worlds"), help="measure only these"
    )
    options = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    parts = options.parts or ["bird", "layers", "batches", "worlds"]
    file = RESULTS / "safety.json"
    results = json.loads(file.read_text(encoding="utf-8")) if options.parts and file.exists() else {}
    if "bird" in parts:
        results[BIRD] = flappy(options.queries, learning=options.learning, budget=options.budget)
    if "layers" in parts:
        results[LAYERS] = layered([4, 8, 12, 16, 20, 24, 100, 1000])
    if "batches" in parts:
        results[BATCH] = batches(100_000)
    if "worlds" in parts:
        results[WORLDS], curves = domains(
            options.states, learning=options.learning, each=options.each, total=options.total
        )
        write_plots(curves)
    pictures = sorted(one.name for one in RESULTS.glob("safety-*.svg"))
    file.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    text = markdown(results) + "\n".join(f"![{name}]({name})" for name in pictures) + "\n"
    (RESULTS / "safety.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
