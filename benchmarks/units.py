"""Smooth units: box questions about 2x64 Tanh networks against Marabou and interval arithmetic, and verdicts on Tanh against ReLU.

Questions are those of `benchmarks.queries`: is there an integer point in a box, with a given sum, where an output has the best score?
Marabou gets the same network with sigmoids (tanh(x) = 2 sigmoid(2 x) - 1), and branches on fractional inputs; as a control it is asked
of every box, too, whether it has a point at all, with no condition on outputs: it has. A "sat" of polvet and of *intervals* is an
executed point, so that an "unsat" beside it is refuted. *Intervals* is branch and
bound with plain interval arithmetic, many boxes at a time in numpy. Bounds alone, without splitting: how many of the pairs (an output, a
rival with the better score at every sampled point of the box) each kind of bound decides.
Verdicts: networks of the verification benchmark, trained alike with ReLU and with Tanh, by `auto` and by `ic3`.
Everybody runs one job per process, on one thread, and the system kills what takes more CPU seconds than the limit, without asking.
    python -m benchmarks.units [--count 16] [--limit 8] [--only questions|verdicts]
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.cpu_limited import answer
from benchmarks.queries import make_question
from benchmarks.queries import prepared as polvet_question
from benchmarks.query_peers import OUTPUTS, Question, ask_marabou

RESULTS = Path(__file__).resolve().parent / "results"
INSTANCES = r"^(transport-(4-4|10-15)|blocksworld-4-c[ia]|blocksworld-6-ci|racetrack-corner)-2x(16|32|64)$"
SOLVERS = ("polvet", "marabou", "intervals")
METHODS = ("auto", "ic3")
DECIDED = ("sat", "unsat", "safe", "unsafe")
Reals = npt.NDArray[np.float64]


# -- what runs in a process of its own


def prepared(job: dict[str, Any]) -> Callable[[], str]:
    """Return the job as a function; what a verification makes once, and reading files, is done before."""
    match job["solver"]:
        case "polvet":
            return polvet_question(job["question"])
        case "marabou":
            import maraboupy.Marabou  # noqa: F401

            return partial(ask_marabou, job["question"])
        case "intervals":
            return partial(ask_intervals, job["question"])
    return verdict_of(job["instance"], job["method"], job["unit"])


def _run(job: dict[str, Any]) -> dict[str, Any]:
    return answer("benchmarks.units:prepared", job, job["limit"])


def verdict_of(instance: str, method: str, unit: str) -> Callable[[], str]:
    """Return what verifies one network of the verification benchmark."""
    from benchmarks.verification_policies import FOLDER, instances
    from polvet.budget import Budget
    from polvet.policy.binding import load_fitted
    from polvet.policy.compiled import compile_policy
    from polvet.verify.portfolio import verify

    task = next(task for name, task, *_ in instances() if name == instance)
    bound = compile_policy(load_fitted(task, FOLDER / file_name(instance, unit)))
    return lambda: verify(bound, method=method, budget=Budget(1e4, 6_000), threads=1).verdict.value


def file_name(instance: str, unit: str) -> str:
    """Return the file of an instance's network."""
    return f"{instance}.onnx" if unit == "ReLU" else f"{instance}-{unit.lower()}.onnx"


# -- plain interval arithmetic


def score_intervals(layers: list[Any], lower: Reals, upper: Reals) -> tuple[Reals, Reals]:
    """Return the least and greatest values [n, hidden] that the last layer reads."""
    for weights, bias in layers[:-1]:
        matrix, shift = np.array(weights), np.array(bias)
        up, down = np.maximum(matrix, 0).T, np.minimum(matrix, 0).T
        low, high = lower @ up + upper @ down + shift, upper @ up + lower @ down + shift
        lower, upper = np.tanh(low), np.tanh(high)
    return lower, upper


def beaten_by_intervals(layers: list[Any], lower: Reals, upper: Reals) -> npt.NDArray[np.bool_]:
    """Return [n, outputs, rivals]: is the rival's score surely greater."""
    low, high = score_intervals(layers, lower, upper)
    weights, bias = np.array(layers[-1][0]), np.array(layers[-1][1])
    found = np.zeros((len(lower), OUTPUTS, OUTPUTS), dtype=np.bool_)
    for output in range(OUTPUTS):
        margins, shift = weights[output] - weights, bias[output] - bias
        most = high @ np.maximum(margins, 0).T + low @ np.minimum(margins, 0).T + shift
        found[:, output] = most < 0
    return found


def scores_at(layers: list[Any], rows: Reals) -> Reals:
    """Return the scores in doubles."""
    for depth, (weights, bias) in enumerate(layers):
        rows = rows @ np.array(weights).T + np.array(bias)
        rows = np.tanh(rows) if depth + 1 < len(layers) else rows
    return rows


def ask_intervals(question: Question, batch: int = 512) -> str:
    """Branch and bound over boxes: shrink by the sum, try a point, drop what a rival surely wins, split the widest side."""
    layers, output, total = question["layers"], question["output"], question["total"]
    pending = [(np.array([question["lower"]], float), np.array([question["upper"]], float))]
    while pending:
        lower, upper = pending.pop()
        for _ in range(2):
            others = lower.sum(axis=1, keepdims=True) - lower, upper.sum(axis=1, keepdims=True) - upper
            lower, upper = np.maximum(lower, total - others[1]), np.minimum(upper, total - others[0])
        there = (lower <= upper).all(axis=1)
        lower, upper = lower[there], upper[there]
        if not len(lower):
            continue
        points = lower + _filled(upper - lower, total - lower.sum(axis=1))
        if (scores_at(layers, points).argmax(axis=1) == output).any():
            return "sat"
        left = ~beaten_by_intervals(layers, lower, upper)[:, output].any(axis=1) & (lower < upper).any(axis=1)
        lower, upper = lower[left], upper[left]
        if not len(lower):
            continue
        rows, side = np.arange(len(lower)), (upper - lower).argmax(axis=1)
        middle = np.floor((lower[rows, side] + upper[rows, side]) / 2)
        first, second = upper.copy(), lower.copy()
        first[rows, side], second[rows, side] = middle, middle + 1
        lower, upper = np.concatenate([lower, second]), np.concatenate([first, upper])
        pending += [(lower[k : k + batch], upper[k : k + batch]) for k in range(0, len(lower), batch)]
    return "unsat"


def _filled(room: Reals, amount: Reals) -> Reals:
    """Return how much of the amount each side takes, from the first on."""
    before = np.cumsum(room, axis=1) - room
    return np.clip(amount[:, None] - before, 0, room)


def bounds_alone(seed: int, networks: int = 12) -> list[dict[str, Any]]:
    """Return per width of boxes how many clear pairs intervals decide, and how many backward linear bounds do."""
    from polvet.check.unit_bounds import UnitBounds
    from polvet.policy.tape import Tape

    rng = np.random.default_rng(seed)
    found = []
    for width in (1, 2, 4):
        clear = intervals = linear = 0
        for _ in range(networks):
            question = make_question(rng, "tanh")
            inputs = len(question["lower"])
            lower = rng.integers(0, 6, (20, inputs)).astype(np.float64)
            upper = lower.copy()
            for row in upper:
                row[rng.choice(inputs, 3, replace=False)] += width
            points = rng.integers(lower, upper + 1, (300, 20, inputs)).astype(np.float64)
            scores = scores_at(question["layers"], points)
            sure = (scores[..., :, None] < scores[..., None, :]).all(axis=0)
            tape, columns = Tape(inputs), np.arange(inputs, dtype=np.int32)
            *hidden, last = ([np.array(part, dtype=np.float32) for part in layer] for layer in question["layers"])
            for weights, bias in hidden:
                columns = tape.unit("tanh", tape.affine(columns, weights, bias))
            graph: Any = tape.policy(tape.affine(columns, *last), None, None)
            told = beaten_by_intervals(question["layers"], lower, upper)
            said = UnitBounds(graph, list(range(inputs)), inputs).beaten(lower, upper)
            assert not (said & ~sure).any()
            clear += int(sure.sum())
            intervals += int((told & sure).sum())
            linear += int((said & sure).sum())
        found.append({"width": width, "clear": clear, "intervals": intervals, "linear": linear})
    return found


# -- the two halves


def questions(count: int, limit: float, seed: int) -> list[dict[str, Any]]:
    """Return everybody's answers to random questions."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        question = make_question(rng, "tanh")
        row: dict[str, Any] = {"number": number, "inputs": len(question["lower"])}
        for solver in SOLVERS:
            row[solver] = _run({"solver": solver, "question": question, "limit": limit})
        row["control"] = _run({"solver": "marabou", "question": question | {"output": None}, "limit": limit})
        print(row, file=sys.stderr, flush=True)
        rows.append(row)
    return rows


def train_missing() -> Iterator[str]:
    """Train the networks with Tanh that are not there; yield the names of all instances with both."""
    from benchmarks.verification_policies import FOLDER, imitate, instances

    for name, task, rule, hidden, leave_out in instances():
        if not re.match(INSTANCES, name) or not (FOLDER / file_name(name, "ReLU")).exists():
            continue
        path = FOLDER / file_name(name, "Tanh")
        if not path.exists():
            print(name, imitate(task, rule, hidden, path, leave_out, unit="Tanh"), file=sys.stderr, flush=True)
        yield name


def verdicts(limit: float) -> list[dict[str, Any]]:
    """Return the verdicts on every instance, ReLU and Tanh in turn."""
    rows = []
    for name in train_missing():
        for method in METHODS:
            row: dict[str, Any] = {"instance": name, "method": method}
            for unit in ("ReLU", "Tanh"):
                row[unit] = _run({"solver": "verify", "instance": name, "method": method, "unit": unit, "limit": limit})
            print(row, file=sys.stderr, flush=True)
            rows.append(row)
    return rows


def summary(rows: list[dict[str, Any]], names: tuple[str, ...]) -> dict[str, Any]:
    """Return per name how many it answers, its CPU seconds, and how much slower it is than the first where both answer."""
    first, found = names[0], {}
    for name in names:
        answered = [r for r in rows if r[name]["answer"] in DECIDED]
        refuted = [r for r in answered if r[name]["answer"] == "unsat" and any(r[n]["answer"] == "sat" for n in names)]
        sound = [r for r in answered if name != "marabou" or r["control"]["answer"] != "unsat"]
        both = [r for r in sound if r not in refuted and r[first]["answer"] in DECIDED]
        ratios = [math.log(r[name]["seconds"] / r[first]["seconds"]) for r in both]
        found[name] = {
            "asked": len(rows), "answered": len(answered), "refuted": len(refuted), "compared": len(both),
            "seconds": round(sum(r[name]["seconds"] for r in rows), 2),
            "slower": round(math.exp(sum(ratios) / len(ratios)), 2) if ratios else None,
        }  # fmt: skip
    return found


def write(document: dict[str, Any]) -> None:
    """Write the results as data and as tables."""
    (RESULTS / "units.json").write_text(json.dumps(document, indent=1) + "\n")
    limit = document["limit"]
    rows = document["questions"]
    wrong = sum(row["control"]["answer"] == "unsat" for row in rows)
    lines = [
        "# Smooth units",
        "",
        f"CPU seconds of one thread; at most {limit:g} per answer, then killed. `python -m benchmarks.units`",
        "",
        "Is there an integer point in a box, with a given sum, where an output of a 2x64 Tanh network has the best score? *Refuted*:",
        "unsat, where another solver executed a point. *Slower*: than polvet, the geometric mean over the *compared*: both answered,",
        "nobody refuted it, and Marabou's control was not wrong.",
        "",
        "| solver | asked | answered | refuted | CPU seconds in all | compared | slower |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, one in summary(rows, SOLVERS).items():
        cells = (one[key] for key in ("asked", "answered", "refuted", "seconds", "compared", "slower"))
        lines.append(f"| {name} | {' | '.join(map(str, cells))} |")
    lines += [
        "",
        f"The control: of {len(rows)} boxes, Marabou says of {wrong} that they have no point at all, so its unsat is no evidence here.",
        "",
        "Bounds alone, without splitting: of the pairs (output, rival) that are clear at 300 sampled points of a box,",
        "",
        "| width of three sides (the others are points) | clear | decided by intervals | by backward linear bounds, outward |",
        "|---|---|---|---|",
    ]
    for one in document["bounds"]:
        lines.append(f"| {one['width']} | {one['clear']} | {one['intervals']} | {one['linear']} |")
    lines += ["", "Networks of the verification benchmark, trained alike with ReLU and with Tanh:", "",
              "| instance | method | ReLU | Tanh |", "|---|---|---|---|"]  # fmt: skip
    for row in document["verdicts"]:
        cells = [
            f"{row[unit]['answer']} {row[unit]['seconds']:.2f}" if row[unit]["answer"] in DECIDED else "-"
            for unit in ("ReLU", "Tanh")
        ]
        lines.append(f"| {row['instance']} | {row['method']} | {' | '.join(cells)} |")
    for method in METHODS:
        rows = [row for row in document["verdicts"] if row["method"] == method]
        told = [f"{unit} {sum(r[unit]['answer'] in DECIDED for r in rows)} of {len(rows)}" for unit in ("ReLU", "Tanh")]
        lines += ["", f"Decided by `{method}`: {', '.join(told)}."]
    (RESULTS / "units.md").write_text("\n".join(lines) + "\n")


def main() -> None:
    """Measure what is asked for, keep the rest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=16, help="questions")
    parser.add_argument("--limit", type=float, default=8.0, help="CPU seconds per answer")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=("questions", "verdicts"))
    given = parser.parse_args()
    file = RESULTS / "units.json"
    document = json.loads(file.read_text()) if file.exists() else {"questions": [], "bounds": [], "verdicts": []}
    document |= {"limit": given.limit, "seed": given.seed}
    if given.only != "verdicts":
        document["bounds"] = bounds_alone(given.seed)
        document["questions"] = questions(given.count, given.limit, given.seed)
        write(document)
    if given.only != "questions":
        document["verdicts"] = verdicts(given.limit)
    write(document)


if __name__ == "__main__":
    main()
