"""Safe, and still useful: how near %Goal of a debugged policy comes to the best that any safe policy reaches.

Worlds    random ones of 25 states with 5 starts, all of them safe for some policy, traps, and 3 labels of which one often waits. The
          best safe policy is known: the safe region and the maximal reachability in it are computed here, by plain iteration.
          Policies: LightGBM, fitted to an expert who knows the way to the goal, looks at no danger, and errs now and then. They are
          debugged as they are (`after`), and with `--kind goal` (`goal`)
Beside    `--before PYTHON`: the same by an earlier version, whose interpreter is named. Without it, what stands in the results file
          about the same worlds is kept
Resources `resource-gathering` of the Quantitative Verification Benchmark Set, a PRISM model: gold and gems without being attacked
    python -m benchmarks.usefulness [--worlds 200] [--before PYTHON] [--folder DIR] [-o benchmarks/results/usefulness.json] [--page]
The page beside the results file is made of it, by `--page` alone.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent / "results"
RESOURCES = Path("../shared/benchmarks/qvbs/mdp/resource-gathering/resource-gathering.jani")
SIDE, STARTS, LABELS = 5, 5, ("a", "b", "c")
STATES = SIDE * SIDE
NEAR = 1.0
"""Points of %Goal."""
SWEEPS = 1_000
CONSTANTS = {"GOLD_TO_COLLECT": 1, "GEM_TO_COLLECT": 1, "B": 200}
Branches = list[tuple[float, int]]
World = dict[str, Any]


def random_world(seed: int) -> World | None:
    """Return a world; None where no policy is safe from some start, or the goal is out of reach of safe ones."""
    rng = random.Random(seed)
    fails = set(rng.sample(range(STARTS, STATES), 5))
    goals = set(rng.sample(sorted(set(range(STARTS, STATES)) - fails), 2))
    traps = set(rng.sample(sorted(set(range(STARTS, STATES)) - fails - goals), 3))
    moves: list[list[Branches]] = []
    for state in range(STATES):
        mine: list[Branches] = []
        for label in LABELS:
            if state in traps or (label == "c" and rng.random() < 0.6):
                mine.append([(1.0, state)])
                continue
            near = [(state + step) % STATES for step in (1, SIDE, SIDE + 1, 2, STATES - 1, 7)]
            targets = rng.sample(near, rng.choice((1, 2, 2)))
            share = rng.choice((0.2, 0.5, 0.7)) if len(targets) == 2 else 1.0
            mine.append([(share, targets[0]), *([(1 - share, targets[1])] if len(targets) == 2 else [])])
        moves.append(mine)
    world: World = {"seed": seed, "fails": fails, "goals": goals, "moves": moves}
    safe = safe_states(world)
    best = best_goal(world, safe)
    if not safe.issuperset(range(STARTS)) or best < 0.2:
        return None
    return {**world, "best": 100 * best}


def safe_states(world: World) -> set[int]:
    """Return the states from which some policy never fails."""
    safe = set(range(STATES)) - world["fails"]
    while True:
        kept = {
            s for s in safe if s in world["goals"] or any(all(t in safe for _, t in one) for one in world["moves"][s])
        }
        if kept == safe:
            return safe
        safe = kept


def best_goal(world: World, safe: set[int]) -> float:
    """Return the greatest mean probability of the goal over the starts, by actions without unsafe outcomes."""
    value = [float(s in world["goals"]) for s in range(STATES)]
    for _ in range(SWEEPS):
        for s in safe - world["goals"]:
            allowed = [one for one in world["moves"][s] if all(t in safe for _, t in one)]
            value[s] = max(sum(p * value[t] for p, t in one) for one in allowed)
    return sum(value[:STARTS]) / STARTS


def reached(world: World, choice: dict[int, int]) -> tuple[float, bool]:
    """Return the mean probability of the goal over the starts under a policy, and whether it is safe."""
    value = [float(s in world["goals"]) for s in range(STATES)]
    ends = world["goals"] | world["fails"]
    for _ in range(SWEEPS):
        for s in set(range(STATES)) - ends:
            value[s] = sum(p * value[t] for p, t in world["moves"][s][choice[s]])
    met, pending = set(range(STARTS)), list(range(STARTS))
    while pending:
        s = pending.pop()
        for _, t in world["moves"][s][choice[s]] if s not in ends else ():
            if t not in met:
                met.add(t)
                pending.append(t)
    return sum(value[:STARTS]) / STARTS, not met & world["fails"]


def prism(world: World) -> str:
    """Return the world as PRISM text."""
    lines = ["mdp", "module world", f"  x : [0..{SIDE - 1}];", f"  y : [0..{SIDE - 1}];"]
    for s, mine in enumerate(world["moves"]):
        for label, branches in zip(LABELS, mine, strict=True):
            to = " + ".join(f"{p:.1f} : (x'={t % SIDE})&(y'={t // SIDE})" for p, t in branches)
            lines.append(f"  [{label}] x={s % SIDE} & y={s // SIDE} -> {to};")
    return "\n".join([*lines, "endmodule", "init true endinit", ""])


def any_of(states: set[int]) -> str:
    """Return the condition of being in one of the states."""
    return " || ".join(f"x == {s % SIDE} && y == {s // SIDE}" for s in sorted(states))


def write(world: World, folder: Path) -> None:
    """Write the task and a LightGBM policy for it."""
    import lightgbm
    import numpy as np

    folder.mkdir(parents=True)
    (folder / "world.prism").write_text(prism(world), encoding="utf-8")
    conditions = {"start": any_of(set(range(STARTS))), "fail": any_of(world["fails"]), "goal": any_of(world["goals"])}
    text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in conditions.items())
    policy = f'[policy]\ninputs = ["x", "y"]\noutputs = {json.dumps(LABELS)}\n'
    (folder / "task.toml").write_text('model = "world.prism"\n' + text + policy, encoding="utf-8")
    rng = random.Random(world["seed"])
    value = [float(s in world["goals"]) for s in range(STATES)]
    for _ in range(200):  # the expert does not know what fails
        for s in set(range(STATES)) - world["goals"]:
            value[s] = 0.99 * max(sum(p * value[t] for p, t in one) for one in world["moves"][s])
    rows, labels = [], []
    for s in range(STATES):
        gains = [sum(p * value[t] for p, t in one) for one in world["moves"][s]]
        for _ in range(20):
            rows.append((s % SIDE, s // SIDE))
            labels.append(rng.randrange(len(LABELS)) if rng.random() < 0.3 else gains.index(max(gains)))
    rows += [(0, 0)] * len(LABELS)
    labels += range(len(LABELS))
    wanted = {
        "objective": "multiclass", "num_class": len(LABELS), "num_leaves": 8, "min_data_in_leaf": 5, "verbose": -1,
        "num_threads": 1, "deterministic": True, "seed": 0,
    }  # fmt: skip
    data = lightgbm.Dataset(np.array(rows, dtype=float), label=np.array(labels))
    lightgbm.train(wanted, data, num_boost_round=8).save_model(folder / "policy.txt")


def work(folder: Path, name: str) -> None:
    """Debug all worlds of the folder with the polvet of this interpreter, and write what came out."""
    from polvet.campaign.loop import debug
    from polvet.campaign.settings import Settings

    try:
        from polvet.sources import load_task
    except ImportError:  # of an earlier version
        from polvet.load import load_task  # type: ignore[no-redef,import-not-found]
    for place in sorted(folder.iterdir()):
        if (place / f"{name}.json").exists():
            continue
        spent = time.process_time()
        asked: dict[str, Any] = {"max_steps": 200, **({} if name != "goal" else {"kind": "goal"})}
        ended = debug(load_task(place / "task.toml"), place / "policy.txt", place / name, Settings(**asked))
        told = {
            "outcome": ended.outcome.value,
            "policy": str(ended.policy),
            "cpu_seconds": round(time.process_time() - spent, 2),
        }
        partial = place / f".{name}.json"
        partial.write_text(json.dumps(told), encoding="utf-8")
        partial.rename(place / f"{name}.json")


def judged(world: World, place: Path, name: str) -> dict[str, Any]:
    """Return how the campaign ended, and what its policy reaches by this file's own reckoning."""
    import polvet

    told = json.loads((place / f"{name}.json").read_text(encoding="utf-8"))
    policy = polvet.load(place / "task.toml").policy(told.pop("policy"))
    choice = {
        s: LABELS.index(policy.act({"x": s % SIDE, "y": s // SIDE}) or LABELS[0])
        for s in set(range(STATES)) - world["goals"] - world["fails"]
    }
    goal, safe = reached(world, choice)
    ended = json.loads((place / name / "outcome.json").read_text(encoding="utf-8"))
    return {
        **told,
        "goal_percent_first": ended["goal_percent_first"],
        "goal_percent": 100 * goal,
        "safe": safe,
        "near": safe and 100 * goal >= world["best"] - NEAR,
        "warning": ended.get("warning"),
    }


def random_worlds(count: int, before: Path | None, known: dict[int, dict[str, Any]], folder: Path) -> dict[str, Any]:
    """Return what became of so many worlds, by this version and an earlier one; what that did is kept where it is known, by seed.

    A world that is done in the folder is not done again.
    """
    runs = {
        "after": Path(sys.executable),
        "goal": Path(sys.executable),
        **({} if before is None else {"before": before}),
    }
    worlds: list[World] = []
    seed = 0
    while len(worlds) < count:
        if (world := random_world(seed)) is not None:
            if not (folder / f"{len(worlds):04}").exists():
                write(world, folder / f"{len(worlds):04}")
            worlds.append(world)
        seed += 1
    for run, python in runs.items():
        subprocess.run([str(python), __file__, "--work", str(folder), "--name", run], check=True)
    rows = []
    for k, world in enumerate(worlds):
        place = folder / f"{k:04}"
        rows.append(
            {
                "seed": world["seed"],
                "best": round(world["best"], 4),
                **{run: judged(world, place, run) for run in runs},
                **({"before": known[world["seed"]]} if before is None and world["seed"] in known else {}),
            }
        )
    told = [run for run in ("after", "goal", "before") if all(run in row for row in rows)]
    return {"worlds": count, "summary": {run: summary(rows, run) for run in told}, "rows": rows}


def summary(rows: list[dict[str, Any]], run: str) -> dict[str, Any]:
    """Return how often the policy came within a point of the best, and how often it ended safe and worthless without a word."""
    lost = [row for row in rows if row[run]["safe"] and row[run]["goal_percent"] < 5 and row["best"] >= 20]
    gap = [max(0.0, row["best"] - row[run]["goal_percent"]) for row in rows if row[run]["safe"]]
    return {
        "safe": sum(row[run]["safe"] for row in rows),
        "within_a_point_of_the_best": sum(row[run]["near"] for row in rows),
        "safe_below_5_percent": len(lost),
        "of_these_said": sum(
            row[run]["outcome"] == "safe, goal lost" or row[run].get("warning") is not None for row in lost
        ),
        "mean_points_below_the_best": round(sum(gap) / max(1, len(gap)), 2),
        "cpu_seconds": round(sum(row[run]["cpu_seconds"] for row in rows), 1),
    }


def resources() -> dict[str, Any]:
    """Return the course of a campaign on the PRISM model of gathering resources, whose LightGBM policy goes straight on."""
    import lightgbm
    import numpy as np

    import polvet

    task = polvet.load(
        RESOURCES, constants=CONSTANTS, fail="attacked", goal="required_gold == 0 && required_gem == 0 && !attacked"
    )
    names = list(task.variables)
    heedless = polvet.load(RESOURCES, constants=CONSTANTS, fail="false", goal="required_gold == 0 && required_gem == 0")
    expert = heedless.train("trees", runs=200, noise=0.1, seed=0).policy
    rows, labels = [], []
    for run in expert.simulate(runs=300, seed=0).runs:
        for state, action in zip(run.states, run.actions, strict=False):
            if action is not None:
                rows.append([float(state[name]) for name in names])
                labels.append(task.labels.index(action))
    rows += [rows[0]] * len(task.labels)
    labels += range(len(task.labels))
    wanted = {
        "objective": "multiclass",
        "num_class": len(task.labels),
        "num_leaves": 8,
        "verbose": -1,
        "num_threads": 1,
        "seed": 0,
    }
    booster = lightgbm.train(wanted, lightgbm.Dataset(np.array(rows), label=np.array(labels)), num_boost_round=8)
    with tempfile.TemporaryDirectory() as name:
        campaign = task.policy(booster).debug(Path(name) / "campaign")
        course = [
            {key: row.get(key) for key in ("unsafe_percent", "goal_percent", "run_length")}
            for row in campaign.iterations
        ]
        return {"outcome": campaign.outcome, "course": course, "warning": campaign.warning, **{
            key: campaign.figures.get(key) for key in ("goal_percent_first", "goal_percent", "goal_percent_possible", "goal_lost")
        }}  # fmt: skip


BELOW = (NEAR, 5, 20, 50, 100)
"""Points below the best within which worlds are counted."""
RUNS = {"before": "an earlier version", "after": "`polvet debug`", "goal": "`polvet debug --kind goal`"}
LINES = {
    "within_a_point_of_the_best": "within a point of the best safe policy",
    "safe": "safe",
    "safe_below_5_percent": "safe, below 5% where 20% or more are possible",
    "of_these_said": "of these with an outcome or a warning that says so",
    "mean_points_below_the_best": "points below the best, on average",
    "cpu_seconds": "CPU seconds",
}


def page(found: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    worlds, summaries, resources = found["random"]["rows"], found["random"]["summary"], found["resources"]
    runs = [run for run in RUNS if run in summaries]
    head = [f"| | {' | '.join(RUNS[run] for run in runs)} |", f"|---|{'---:|' * len(runs)}"]
    course = resources["course"]
    worse = [
        row for row in worlds if "before" in row and row["after"]["goal_percent"] < row["before"]["goal_percent"] - NEAR
    ]
    far = [row for row in worlds if not row["after"]["near"]]
    said = sum(row["after"]["warning"] is not None for row in far)
    return "\n".join(
        [
            "# Safe, and still useful",
            "",
            "`python -m benchmarks.usefulness`",
            "",
            f"{len(worlds)} random worlds of {STATES} states in which it is easy to lose the goal, each with a LightGBM policy that looks",
            "at no danger. The best that any safe policy reaches is computed by plain iteration, without polvet; so is what the final",
            "policies reach.",
            "",
            *head,
            *(f"| {text} | {' | '.join(str(summaries[run][key]) for run in runs)} |" for key, text in LINES.items()),
            "",
            "## How far below the best",
            "",
            "Worlds by how many points of %Goal the final policy is below the best safe one.",
            "",
            f"| | {' | '.join(f'at most {most:g}' for most in BELOW)} |",
            f"|---|{'---:|' * len(BELOW)}",
            *(f"| {RUNS[run]} | {' | '.join(map(str, _counted(worlds, run)))} |" for run in runs),
            "",
            f"In {len(far)} worlds `polvet debug` ends more than a point below the best; in {said} of them it says so, by its outcome",
            "or by a warning.",
            "",
            "## Worse than before",
            "",
            *_worse(worse),
            "",
            "## Resource gathering",
            "",
            "A PRISM model of the Quantitative Verification Benchmark Set; its LightGBM policy goes straight on, and is attacked.",
            f"%Goal of the policies, the first to the last: {', '.join(format(one['goal_percent'], 'g') for one in course)}. "
            f"%Unsafe: {course[0]['unsafe_percent']:g} to {course[-1]['unsafe_percent']:g}.",
            f"The best possible for a safe policy: {resources['goal_percent_possible']:g}. Outcome: {resources['outcome']}.",
            "",
        ]
    )


def write_page(results: Path) -> None:
    """Write the page beside the results."""
    text = page(json.loads(results.read_text(encoding="utf-8")))
    results.with_suffix(".md").write_text(text, encoding="utf-8")


def _counted(worlds: list[dict[str, Any]], run: str) -> list[int]:
    """Return how many worlds are within each bound, and beyond the one before it."""
    below = [row["best"] - row[run]["goal_percent"] for row in worlds]
    return [sum((k == 0 or BELOW[k - 1] < one) and one <= most for one in below) for k, most in enumerate(BELOW)]


def _worse(rows: list[dict[str, Any]]) -> list[str]:
    """Return the worlds in which the final policy reaches the goal less often than that of the earlier version."""
    if not rows:
        return ["In no world is %Goal more than a point lower than by the earlier version."]
    return [
        f"Worlds in which %Goal is more than a point lower than by the earlier version: {len(rows)}. The loop judges repairs by the best",
        "policy so far, not by the best possible one: where nothing was lost it ends, and warns; `--kind goal` goes on.",
        "",
        "| world | best | first policy | before | `debug` | `debug --kind goal` | outcome | warning |",
        "|---:|---:|---:|---:|---:|---:|---|---|",
        *(
            f"| {row['seed']} | {row['best']:.2f} | {row['after']['goal_percent_first']:.2f} | {row['before']['goal_percent']:.2f} "
            f"| {row['after']['goal_percent']:.2f} | {row['goal']['goal_percent']:.2f} | {row['after']['outcome']} "
            f"| {row['after']['warning'] or ''} |"
            for row in rows
        ),
    ]


def main() -> None:
    """Measure everything and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=200)
    parser.add_argument("--before", type=Path, help="the interpreter of an earlier version")
    parser.add_argument(
        "--folder", type=Path, default=Path("out/usefulness"), help="for the worlds; what is done is kept"
    )
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "usefulness.json")
    parser.add_argument("--page", action="store_true", help="only write the page again")
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--name", default="after", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work is not None:
        work(options.work, options.name)
        return
    if options.page:
        write_page(options.output)
        return
    old = json.loads(options.output.read_text(encoding="utf-8"))["random"]["rows"] if options.output.exists() else []
    known = {row["seed"]: row["before"] for row in old if "before" in row}
    found = {"resources": resources(), "random": random_worlds(options.worlds, options.before, known, options.folder)}
    options.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    write_page(options.output)
    print(json.dumps(found["resources"], indent=1))
    print(json.dumps(found["random"]["summary"], indent=1))


if __name__ == "__main__":
    main()
