"""The evaluation of deciding state safety (2026): Figs. 2, 4 and 5 with the paper's algorithms and action orders.

iPI(app), iPI(learn), iPI(rand)   improved policy iteration: the model's order, the order of the learned policy, a random one
TarjanSafe                        the algorithm it is compared with
Prop-U, Prop-U (BDD)              backward propagation over all states, explicit and with decision diagrams (the paper: out of memory)
lazy                              polvet's own default
Worlds are the paper's, at its scale and smaller (`one-way line 70/70`: 74 variables up to 70), generated from its description; the
policies are networks 2x64 by Q-learning; the questions are distinct states on their runs. Everybody answers every question afresh,
in turn, with the same limits per question and in all; short answers are timed three times and the best is kept.
    python -m benchmarks.state_safety [--states 40] [--each 1] [--total 15] [--only REGEX]
It writes results/state-safety.json, .md and .svg files; worlds measured before are kept.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.safety import ask_each, plot
from polvet.budget import Budget
from polvet.domains import generate
from polvet.kernel.starts import sample_starts
from polvet.model.semantics import State
from polvet.model.task import Task
from polvet.policy.binding import fit
from polvet.policy.compiled import Bound, compile_policy
from polvet.safety.decide import ActionOrder, Decider
from polvet.safety.propagate_bdd import decide_by_diagrams
from polvet.train.course import Course, pupil_of, train

RESULTS = Path(__file__).resolve().parent / "results"
WORLDS: dict[str, tuple[str, dict[str, Any]]] = {
    "blocksworld 6": ("blocksworld", {"n": 6}),
    "blocksworld 10": ("blocksworld", {"n": 10, "cost": 20}),
    "transport 10/15": ("transport", {"locations": 10, "packages": 15}),
    "transport 40/60": ("transport", {"locations": 40, "packages": 60}),
    "bouncing ball": ("bouncing-ball", {}),
    "follow car": ("follow-car", {}),
    "inverted pendulum": ("inverted-pendulum", {}),
    "one-way line 20/15": ("one-way-line", {"n": 20, "p": 15}),
    "one-way line 70/70": ("one-way-line", {"n": 70, "p": 70}),
    "one-way line 70/70 park": ("one-way-line", {"n": 70, "p": 70, "park": True}),
    "two-way line 20/15": ("two-way-line", {"n": 20, "p": 15}),
    "two-way line 70/70": ("two-way-line", {"n": 70, "p": 70}),
    "Flappy Bird 100x20": ("flappy-bird", {"width": 100, "height": 20, "walls": 20}),
    "Flappy Bird 1000x30": ("flappy-bird", {"width": 1000, "height": 30, "walls": 100}),
}
DIAGRAMS = "Prop-U (BDD)"
ALGORITHMS = ("iPI(app)", "iPI(learn)", "iPI(rand)", "TarjanSafe", "Prop-U", DIAGRAMS, "lazy")
STEPS = 30_000
RUN = 200


def learned(task: Task) -> Bound:
    """Return a network 2x64 after a short course of Q-learning."""
    policy, _ = train(pupil_of(task), Course("mlp", hidden="64,64", steps=STEPS, max_steps=RUN), seed=0)
    return compile_policy(fit(task, policy))


def states_on_runs(bound: Bound, count: int) -> list[State]:
    """Return distinct states on runs of the policy from random starts; a run ends at fail, goal, or where nothing is chosen."""
    task, semantics, rng = bound.task, bound.compiled.semantics, random.Random(0)
    ends = [semantics.compile(condition) for condition in (task.fail, task.goal)]
    seen: dict[State, None] = {}
    for start in sample_starts(task, 5 * count, seed=1):
        state = start
        for _ in range(RUN):
            if any(end(state) for end in ends):
                break
            seen[state] = None
            moves = bound.fitted.followed(state, semantics.moves(state))
            outcomes = [outcome.state for move in moves for outcome in move.outcomes]
            if not outcomes:
                break
            state = rng.choice(outcomes)
        if len(seen) >= 20 * count:
            break
    drawn = list(seen)
    rng.shuffle(drawn)
    return drawn[:count]


def measure(name: str, states: int, each: float, total: float) -> dict[str, Any]:
    """Return everybody's time and verdict on every question of a world."""
    domain, parameters = WORLDS[name]
    task = generate(domain, **parameters).task()
    bound = learned(task)
    questions = states_on_runs(bound, states)
    deciders = {
        "iPI(app)": Decider(task, algorithm="ipi", share=False),
        "iPI(learn)": Decider(task, algorithm="ipi", share=False, order=ActionOrder("policy", preference=bound)),
        "iPI(rand)": Decider(task, algorithm="ipi", share=False, order=ActionOrder("random")),
        "TarjanSafe": Decider(task, algorithm="tarjan", share=False),
        "Prop-U": Decider(task, algorithm="propagate", share=False),
        "lazy": Decider(task, algorithm="lazy", share=False),
    }
    packed = deciders["iPI(app)"].compiled.pack(questions)
    answers = ask_each(deciders, packed, each=each, total=total)
    curves = {who: [[row["seconds"], row["verdict"]] for row in rows] for who, rows in answers.items()}
    curves[DIAGRAMS] = by_diagrams(task, questions, total)
    known = [
        next((v for rows in curves.values() if (v := rows[k][1]) != "unknown"), "unknown")
        for k in range(len(questions))
    ]
    contradictions = sum(
        rows[k][1] not in ("unknown", known[k]) for rows in curves.values() for k in range(len(questions))
    )
    return {
        "variables": len(task.network.variables),
        "questions": len(questions),
        "safe": known.count("safe"),
        "unsafe": known.count("unsafe"),
        "contradictions": contradictions,
        "lazy_takes_turns": True,
        "each": each,
        "total": total,
        "curves": curves,
    }


def by_diagrams(task: Task, questions: list[State], total: float) -> list[list[Any]]:
    """Return the answers of propagation with diagrams: all come when the fixpoint is there."""
    begun = time.process_time()
    try:
        answers, _ = decide_by_diagrams(task, questions, budget=Budget(total, 3000))
    except Exception as error:  # what diagrams cannot express is a row of its own
        print("diagrams:", error, file=sys.stderr, flush=True)
        return [[total, "unknown"] for _ in questions]
    seconds = time.process_time() - begun
    return [[seconds, answer.verdict.value] for answer in answers]


def write(worlds: dict[str, dict[str, Any]]) -> None:
    """Write the figures, the cumulative plots, and the page made of them."""
    (RESULTS / "state-safety.json").write_text(json.dumps(worlds, indent=1) + "\n", encoding="utf-8")
    lines = [
        "# Deciding state safety, the evaluation",
        "",
        "`python -m benchmarks.state_safety`. Decided questions, and the median CPU time of these in microseconds; the limits per question "
        "and per algorithm and world are in the row (the paper: 15 minutes and 12 GB). Prop-U (BDD) answers all questions at once.",
        "",
        "| world | variables | safe + unsafe of questions | limits (s) | " + " | ".join(ALGORITHMS) + " |",
        "|---" * (len(ALGORITHMS) + 4) + "|",
    ]
    for name, world in worlds.items():
        cells = []
        for who in ALGORITHMS:
            times = [seconds for seconds, verdict in world["curves"][who] if verdict != "unknown"]
            cells.append(f"{len(times)}, {1e6 * median(times):,.0f}" if times else "0")
        lines.append(
            f"| {name} | {world['variables']} | {world['safe']} + {world['unsafe']} of {world['questions']} "
            f"| {world['each']:g}, {world['total']:g} | {' | '.join(cells)} |"
        )
    wrong = sum(world["contradictions"] for world in worlds.values())
    lines += [
        "",
        f"Contradictory verdicts: {wrong}. Cumulative plots as Figs. 2, 4 and 5: share of the states decided against time.",
        "",
    ]
    older = [name for name, world in worlds.items() if "lazy_takes_turns" not in world]
    if older:
        lines += [
            f"On {len(older)} of these {len(worlds)} worlds `lazy` was measured when it kept the model's order of actions; "
            "since then it takes turns with a random order in long questions.",
            "",
        ]
    everything = {who: [row for world in worlds.values() for row in world["curves"][who]] for who in ALGORITHMS}
    drawn = {"all worlds": everything, **{name: world["curves"] for name, world in worlds.items()}}
    for name, curves in drawn.items():
        for verdict in ("safe", "unsafe"):
            picture = plot(name, {who: curves[who] for who in ALGORITHMS}, verdict)
            if picture is not None:
                file = f"state-safety-{re.sub('[^a-z0-9]+', '-', name.lower())}-{verdict}.svg"
                (RESULTS / file).write_text(picture, encoding="utf-8")
                lines.append(f"![{file}]({file})")
    (RESULTS / "state-safety.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    """Measure the worlds; keep those measured before."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--states", type=int, default=40, help="questions per world")
    parser.add_argument("--each", type=float, default=1.0, help="seconds per question")
    parser.add_argument("--total", type=float, default=15.0, help="seconds per algorithm and world")
    parser.add_argument("--only", default="", help="a regular expression for worlds")
    options = parser.parse_args()
    file = RESULTS / "state-safety.json"
    worlds: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    for name in WORLDS:
        if re.search(options.only, name):
            worlds[name] = measure(name, options.states, options.each, options.total)
            worlds = {one: worlds[one] for one in WORLDS if one in worlds}
            write(worlds)
            print(
                name,
                {who: sum(v != "unknown" for _, v in rows) for who, rows in worlds[name]["curves"].items()},
                flush=True,
            )


if __name__ == "__main__":
    main()
