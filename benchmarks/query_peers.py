"""What others say to the questions of `benchmarks.queries`: Z3, a MILP on HiGHS, Marabou and Veritas.

Everybody computes over the reals; their "unsat" is believed. Marabou branches on a fractional input until integers or nothing is left.
Veritas knows boxes but no sums of inputs; it is asked where the chosen output's lead over the best other one is not negative.
`prepared` imports a peer and returns the question as a function, so that only answering is measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

OUTPUTS = 4
Question = dict[str, Any]


def prepared(job: dict[str, Any]) -> Callable[[], str]:
    """Return the peer's question as a function."""
    if job["peer"] == "veritas":
        return partial(ask_veritas, veritas_ensemble(job["question"]), job["question"])
    module, ask = PEERS[job["peer"]]
    __import__(module)
    return partial(ask, job["question"])


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
        code, values_at, _ = MarabouCore.solve(query, options, "")
        if code == "unsat":
            continue
        if code != "sat":
            return "unknown"
        point = [values_at[k] for k in range(count)]
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


def veritas_ensemble(question: Question) -> Any:
    """Return the trees as Veritas has them, the output first."""
    import veritas

    ensemble = veritas.AddTree(OUTPUTS, veritas.AddTreeType.CLF_SOFTMAX)
    for data in question["trees"]:
        tree = ensemble.add_tree()
        inner, place = len(data["feature"]), {0: tree.root()}
        for node in range(inner):
            tree.split(place[node], data["feature"][node], data["threshold"][node])
            place |= {2 * node + 1: tree.left(place[node]), 2 * node + 2: tree.right(place[node])}
        for k, value in enumerate(data["values"]):
            tree.set_leaf_value(place[inner + k], data["output"], value)
    ensemble.swap_class(question["output"])
    return ensemble


def ask_veritas(ensemble: Any, question: Question) -> str:
    """Veritas over a box whose upper ends stop before the next threshold."""
    import veritas

    config = veritas.Config(veritas.HeuristicType.MULTI_MAX_MAX_OUTPUT_DIFF)
    config.ignore_state_when_worse_than = 0.0
    config.max_memory = 4 * 2**30
    config.stop_when_num_solutions_exceeds = 1
    box = [veritas.Interval(a, b + 0.25) for a, b in zip(question["lower"], question["upper"], strict=True)]
    search = config.get_search(ensemble, box)
    reason = veritas.StopReason.NONE
    while reason == veritas.StopReason.NONE:
        reason = search.step_for(1.0, 1000)
    if search.num_solutions():
        return "sat"
    return "unsat" if reason == veritas.StopReason.NO_MORE_OPEN else "unknown"


PEERS: dict[str, tuple[str, Callable[[Question], str]]] = {
    "z3": ("z3", ask_z3),
    "highs": ("highspy", ask_highs),
    "marabou": ("maraboupy.Marabou", ask_marabou),
}
