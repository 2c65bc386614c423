"""Policy queries: polvet's box engine against Z3, a MILP on HiGHS, and Marabou with branch and bound, on the same questions.

A question: is there an integer point in a box, with a given sum of its coordinates, where output l has the best score? Peers
run one question per process, which is killed at the limit; their own seconds count, without starting Python and imports.
polvet's answer covers float32 rounding; peers compute over the reals and their "unsat" is believed. Ratios are geometric means
over the questions that both sides answered; contradictions are counted.
    python -m benchmarks.queries [--count 16] [--limit 10] [-o benchmarks/results/queries.json]
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.grid import add_workers, run_grid
from polvet.budget import Budget
from polvet.model.build import ModelBuilder
from polvet.model.instantiate import instantiate
from polvet.model.task import PolicyReading, Task
from polvet.policy.binding import fit
from polvet.policy.networks import network_of
from polvet.policy.tape import Tape
from polvet.policy.trees import TreeEnsemble, make_tree
from polvet.symbolic.cells import Box, cell_of, row_of
from polvet.verify.engine import Answer, Engine

Question = dict[str, Any]
NETWORK_PEERS, TREE_PEERS = ("z3", "highs", "marabou"), ("z3", "highs")
OUTPUTS = 4


def make_question(rng: np.random.Generator, kind: str) -> Question:
    """Return a random network (2x16 to 2x64; with tanh 2x64) or boosted ensemble with a box, a sum and an output, all as lists."""
    inputs = int(rng.integers(5, 13))
    lower = rng.integers(0, 6, inputs)
    upper = lower + rng.integers(1, 9, inputs)
    total = int(rng.integers(lower.sum(), upper.sum() + 1))
    question: Question = {
        "kind": kind, "lower": lower.tolist(), "upper": upper.tolist(), "total": total,
        "output": int(rng.integers(OUTPUTS)),
    }  # fmt: skip
    if kind in ("network", "tanh"):
        width = int(rng.choice([16, 32, 64])) if kind == "network" else 64
        sizes = [inputs, width, width, OUTPUTS]
        question["layers"] = [
            [
                (rng.normal(size=(b, a)) / math.sqrt(a)).astype(np.float32).tolist(),
                (rng.normal(size=b) * 0.5).astype(np.float32).tolist(),
            ]
            for a, b in pairwise(sizes)
        ]
    else:
        question["trees"] = [_random_tree(rng, inputs, k % OUTPUTS) for k in range(15 * OUTPUTS)]
    return question


def _random_tree(rng: np.random.Generator, inputs: int, output: int, depth: int = 4) -> dict[str, Any]:
    inner = 2**depth - 1
    return {
        "output": output,
        "feature": rng.integers(0, inputs, inner).tolist(),
        "threshold": (rng.integers(0, 14, inner) + 0.5).tolist(),
        "values": rng.normal(size=inner + 1).astype(np.float32).tolist(),
    }


# -- polvet


def ask_polvet(question: Question, limit: float) -> dict[str, Any]:
    """Return polvet's answer; making the engine is not counted, as a verification makes it once."""
    ask = asked_of_polvet(question, limit)
    begin = time.perf_counter()
    return {"answer": ask(), "seconds": time.perf_counter() - begin}


def asked_of_polvet(question: Question, limit: float) -> Callable[[], str]:
    """Return the question as a function, with the engine made."""
    names = [f"v{k}" for k in range(len(question["lower"]))]
    labels = [f"a{k}" for k in range(OUTPUTS)]
    m = ModelBuilder("box")
    places = [m.int(name, 0, 20, initial=0) for name in names]
    m.labels(*labels)
    for label in labels:
        m.edge(label, to={places[0]: places[0]})
    if question["kind"] == "network":
        policy: Any = network_of([(np.array(w), np.array(b)) for w, b in question["layers"]], names, labels)
    elif question["kind"] == "tanh":
        tape, columns = Tape(len(names)), np.arange(len(names), dtype=np.int32)
        *hidden, last = ([np.array(part, dtype=np.float32) for part in layer] for layer in question["layers"])
        for weights, bias in hidden:
            columns = tape.unit("tanh", tape.affine(columns, weights, bias))
        policy = tape.policy(tape.affine(columns, *last), names, labels)
    else:
        policy = TreeEnsemble(tuple(names), tuple(labels), tuple(map(_tree, question["trees"])), (0.0,) * OUTPUTS)
    engine = Engine(fit(Task(instantiate(m.build()), reading=PolicyReading("raw")), policy))
    row = row_of(dict.fromkeys(range(len(names)), 1), question["total"], question["total"])
    cell = cell_of(Box(tuple(question["lower"]), tuple(question["upper"])), [row])
    words = {Answer.YES: "sat", Answer.NO: "unsat", Answer.NEAR_TIE: "near-tie", Answer.UNKNOWN: "unknown"}

    def ask() -> str:
        if cell is None:
            return "unsat"
        return words[engine.find([cell], question["output"], budget=Budget(limit)).answer]

    return ask


def _tree(data: dict[str, Any]) -> Any:
    inner = len(data["feature"])
    leaves = [-1] * (inner + 1)
    return make_tree(
        data["output"], data["feature"] + leaves, data["threshold"] + [0.0] * (inner + 1),
        [2 * i + 1 for i in range(inner)] + leaves, [2 * i + 2 for i in range(inner)] + leaves,
        [0.0] * inner + data["values"],
    )  # fmt: skip


# -- peers, each in a process of its own


def ask_z3(question: Question) -> str:
    import z3

    x = [z3.Int(f"x{k}") for k in range(len(question["lower"]))]
    solver = z3.Solver()
    for v, low, high in zip(x, question["lower"], question["upper"], strict=True):
        solver.add(v >= low, v <= high)
    solver.add(z3.Sum(x) == question["total"])
    if question["kind"] == "network":
        values = [z3.ToReal(v) for v in x]
        for depth, (weights, bias) in enumerate(question["layers"]):
            sums = [
                z3.Sum([z3.RealVal(repr(w)) * v for w, v in zip(row, values, strict=True)]) + z3.RealVal(repr(b))
                for row, b in zip(weights, bias, strict=True)
            ]
            last = depth + 1 == len(question["layers"])
            values = sums if last else [z3.If(s > 0, s, z3.RealVal(0)) for s in sums]
        scores = values
    else:

        def leaf(tree: dict[str, Any], node: int) -> Any:
            inner = len(tree["feature"])
            if node >= inner:
                return z3.RealVal(repr(tree["values"][node - inner]))
            cut = math.floor(tree["threshold"][node])
            return z3.If(x[tree["feature"][node]] <= cut, leaf(tree, 2 * node + 1), leaf(tree, 2 * node + 2))

        scores = [z3.Sum([leaf(t, 0) for t in question["trees"] if t["output"] == k]) for k in range(OUTPUTS)]
    output = question["output"]
    solver.add(*(_best(scores[output], score, k < output) for k, score in enumerate(scores) if k != output))
    return str(solver.check())


def _best(mine: Any, other: Any, other_first: bool) -> Any:
    return mine > other if other_first else mine >= other


def ask_highs(question: Question) -> str:
    import highspy

    h = highspy.Highs()
    h.setOptionValue("output_flag", False)
    h.setOptionValue("threads", 1)
    integer = highspy.HighsVarType.kInteger
    x = [h.addVariable(lb=a, ub=b, type=integer) for a, b in zip(question["lower"], question["upper"], strict=True)]
    h.addConstr(sum(x) == question["total"])
    if question["kind"] == "network":
        values, low, high = list(x), np.array(question["lower"], float), np.array(question["upper"], float)
        for depth, (weights, bias) in enumerate(question["layers"]):
            matrix, shift = np.array(weights), np.array(bias)
            low, high = (
                np.maximum(matrix, 0) @ low + np.minimum(matrix, 0) @ high + shift,
                np.maximum(matrix, 0) @ high + np.minimum(matrix, 0) @ low + shift,
            )
            sums = [sum(float(w) * v for w, v in zip(row, values, strict=True)) + float(b)
                    for row, b in zip(weights, bias, strict=True)]  # fmt: skip
            if depth + 1 == len(question["layers"]):
                values = sums
                break
            values = []
            for k, total in enumerate(sums):
                y = h.addVariable(lb=0.0, ub=max(float(high[k]), 0.0))
                on = h.addVariable(lb=0, ub=1, type=integer)
                h.addConstr(y >= total)
                h.addConstr(y <= total - float(min(low[k], 0.0)) * (1 - on))
                h.addConstr(y <= float(max(high[k], 0.0)) * on)
                values.append(y)
            low, high = np.maximum(low, 0), np.maximum(high, 0)
        scores = values
    else:
        scores = [_milp_score(h, x, question, k, integer) for k in range(OUTPUTS)]
    output = question["output"]
    for k, score in enumerate(scores):
        if k != output:
            h.addConstr(scores[output] - score >= (1e-6 if k < output else 0.0))
    h.run()
    status = h.getModelStatus()
    names = {highspy.HighsModelStatus.kOptimal: "sat", highspy.HighsModelStatus.kInfeasible: "unsat"}
    return names.get(status, "unknown")


def _milp_score(h: Any, x: list[Any], question: Question, output: int, integer: Any) -> Any:
    score: Any = 0.0
    for tree in question["trees"]:
        if tree["output"] != output:
            continue
        inner = len(tree["feature"])
        leaves = [h.addVariable(lb=0, ub=1) for _ in range(inner + 1)]
        h.addConstr(sum(leaves) == 1)
        for node in range(inner):
            feature, cut = tree["feature"][node], math.floor(tree["threshold"][node])
            low, high = question["lower"][feature], question["upper"][feature]
            left = h.addVariable(lb=0, ub=1, type=integer)  # x <= cut
            h.addConstr(x[feature] <= cut + (high - cut) * (1 - left) if high > cut else left <= 1)
            h.addConstr(x[feature] >= (cut + 1) - (cut + 1 - low) * left if low <= cut else left <= 0)
            h.addConstr(sum(leaves[k] for k in _below(2 * node + 1, inner)) <= left)
            h.addConstr(sum(leaves[k] for k in _below(2 * node + 2, inner)) <= 1 - left)
        score = score + sum(v * leaf for v, leaf in zip(tree["values"], leaves, strict=True))
    return score


def _below(node: int, inner: int) -> list[int]:
    return [node - inner] if node >= inner else _below(2 * node + 1, inner) + _below(2 * node + 2, inner)


def ask_marabou(question: Question) -> str:
    """Marabou over the reals, branching on a fractional input until integers or nothing is left."""
    from maraboupy import Marabou, MarabouCore

    sigmoid = question["kind"] == "tanh"
    if sigmoid:
        question = question | {"layers": _as_sigmoids(question["layers"])}
    options = Marabou.createOptions(verbosity=0, numWorkers=1)
    pending = [(list(question["lower"]), list(question["upper"]))]
    while pending:
        lower, upper = pending.pop()
        if any(a > b for a, b in zip(lower, upper, strict=True)):
            continue
        query = MarabouCore.InputQuery()
        count = len(lower)
        number = count + sum(2 * len(bias) for _, bias in question["layers"]) - OUTPUTS
        query.setNumberOfVariables(number)
        for k, (a, b) in enumerate(zip(lower, upper, strict=True)):
            query.markInputVariable(k, k)
            query.setLowerBound(k, a)
            query.setUpperBound(k, b)
        values, free = list(range(count)), count
        for depth, (weights, bias) in enumerate(question["layers"]):
            following = []
            for row, b in zip(weights, bias, strict=True):
                equation = MarabouCore.Equation()
                for w, v in zip(row, values, strict=True):
                    equation.addAddend(w, v)
                equation.addAddend(-1, free)
                equation.setScalar(-b)
                query.addEquation(equation)
                if depth + 1 < len(question["layers"]):
                    query.setLowerBound(free + 1, 0)
                    if sigmoid:
                        query.setUpperBound(free + 1, 1)
                    add = MarabouCore.addSigmoidConstraint if sigmoid else MarabouCore.addReluConstraint
                    add(query, free, free + 1)
                    following.append(free + 1)
                    free += 2
                else:
                    following.append(free)
                    free += 1
            values = following
        whole = MarabouCore.Equation()
        for k in range(count):
            whole.addAddend(1, k)
        whole.setScalar(question["total"])
        query.addEquation(whole)
        for k, score in enumerate(values):
            if question["output"] is not None and k != question["output"]:
                better = MarabouCore.Equation(MarabouCore.Equation.GE)
                better.addAddend(1, values[question["output"]])
                better.addAddend(-1, score)
                better.setScalar(1e-6 if k < question["output"] else 0.0)
                query.addEquation(better)
        code, found, _ = MarabouCore.solve(query, options, "")
        if code == "unsat":
            continue
        if code != "sat":
            return "unknown"
        point = [found[k] for k in range(count)]
        odd = [k for k in range(count) if abs(point[k] - round(point[k])) > 1e-6]
        if not odd:
            return "sat"
        k = odd[0]
        pending.append((lower, [*upper[:k], math.floor(point[k]), *upper[k + 1 :]]))
        pending.append(([*lower[:k], math.ceil(point[k]), *lower[k + 1 :]], upper))
    return "unsat"


def _as_sigmoids(layers: list[Any]) -> list[Any]:
    """Return layers with sigmoids between them that compute the same as these with tanh: tanh(x) = 2 sigmoid(2 x) - 1."""
    made = []
    for depth, (weights, bias) in enumerate(layers):
        matrix, shift = np.array(weights, dtype=np.float64), np.array(bias, dtype=np.float64)
        if depth > 0:
            matrix, shift = 2 * matrix, shift - matrix.sum(axis=1)
        if depth + 1 < len(layers):
            matrix, shift = 2 * matrix, 2 * shift
        made.append([matrix.tolist(), shift.tolist()])
    return made


PEERS = {"z3": ask_z3, "highs": ask_highs, "marabou": ask_marabou}


def ask_peer(name: str, question: Question, limit: float) -> dict[str, Any]:
    """Return the answer of a peer in a process that is killed at the limit."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.queries", "--peer", name],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        text, _ = process.communicate(json.dumps(question), timeout=limit + 5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return {"answer": "limit", "seconds": limit}
    lines = [line for line in text.splitlines() if line.startswith("{")]
    if not lines:
        return {"answer": "failed", "seconds": limit}
    found: dict[str, Any] = json.loads(lines[-1])
    return found if found["seconds"] <= limit else {"answer": "limit", "seconds": limit}


def answer_as_peer(name: str) -> None:
    """Read a question, answer it, tell the seconds: what runs in a peer's process."""
    question = json.loads(sys.stdin.read())
    for module in {"z3": ("z3",), "highs": ("highspy",), "marabou": ("maraboupy.Marabou",)}[name]:
        __import__(module)
    begin = time.perf_counter()
    answer = PEERS[name](question)
    print(json.dumps({"answer": answer, "seconds": time.perf_counter() - begin}), flush=True)


def ask_all(how: tuple[tuple[str, ...], float], question: Question) -> dict[str, Any]:
    """Return everybody's answer to one question."""
    peers, limit = how
    row = {"kind": question["kind"], "polvet": ask_polvet(question, limit)}
    return row | {peer: ask_peer(peer, question, limit) for peer in peers}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=16, help="questions of each kind")
    parser.add_argument("--limit", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--alone", action="store_true", help="ask polvet only")
    add_workers(parser)
    parser.add_argument("--peer")
    parser.add_argument("-o", default="benchmarks/results/queries.json")
    given = parser.parse_args()
    if given.peer:
        answer_as_peer(given.peer)
        return
    rng = np.random.default_rng(given.seed)
    results, table = [], []
    for kind, known in (("network", NETWORK_PEERS), ("trees", TREE_PEERS)):
        peers = () if given.alone else known
        rows = []
        questions = [make_question(rng, kind) for _ in range(given.count)]
        for number, row in enumerate(run_grid(ask_all, (peers, given.limit), questions, given.workers)):
            rows.append(row)
            shown = {name: f"{one['answer']} {one['seconds']:.4f}" for name, one in row.items() if name != "kind"}
            print(kind, number, shown, file=sys.stderr, flush=True)
        results += rows
        for peer in peers:
            both = [
                r for r in rows if r[peer]["answer"] in ("sat", "unsat") and r["polvet"]["answer"] in ("sat", "unsat")
            ]
            ratios = [math.log(r[peer]["seconds"] / r["polvet"]["seconds"]) for r in both]
            mean = math.exp(sum(ratios) / len(ratios)) if ratios else None
            table.append(
                {
                    "kind": kind, "peer": peer, "questions": len(rows), "both_answered": len(both),
                    "peer_answered": sum(r[peer]["answer"] in ("sat", "unsat") for r in rows),
                    "polvet_answered": sum(r["polvet"]["answer"] in ("sat", "unsat") for r in rows),
                    "contradictions": sum(r[peer]["answer"] != r["polvet"]["answer"] for r in both),
                    "slower_by": mean,
                }
            )  # fmt: skip
    Path(given.o).write_text(
        json.dumps({"limit": given.limit, "summary": table, "questions": results}, indent=1) + "\n"
    )
    print("| kind | peer | questions | polvet answers | peer answers | peer slower by | contradictions |")
    print("|---|---|---|---|---|---|---|")
    for one in table:
        ratio = "-" if one["slower_by"] is None else f"{one['slower_by']:.0f}x"
        print(
            f"| {one['kind']} | {one['peer']} | {one['questions']} | {one['polvet_answered']} | {one['peer_answered']} "
            f"| {ratio} | {one['contradictions']} |"
        )


if __name__ == "__main__":
    main()
