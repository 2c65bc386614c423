"""Marabou as a worker: a network once, then questions about its inputs and outputs over the reals.

{"layers": [[weights, bias], ...]} sets the network. {"lower", "upper", "rows": [[[[input, coefficient], ...], lower|null, upper|null]],
"best": output, "others": [outputs], "margin": m, "seconds": s} asks for inputs in the box that satisfy the rows, with
score[best] >= score[other] - margin. Answers: {"answer": "sat"|"unsat"|"unknown", "inputs": [...], "relu_bounds": [[low, high], ...]}.
"""

from __future__ import annotations

from typing import Any

from polvet.files import Json
from polvet.solvers.worker_loop import serve


def main() -> None:
    """Serve questions until stdin ends."""
    from maraboupy import Marabou, MarabouCore

    network: list[Any] = []

    def answer(question: Any) -> Any:
        if "layers" in question:
            network[:] = question["layers"]
            return {}
        query, inputs, before = _encode(MarabouCore, network, question)
        options = Marabou.createOptions(verbosity=0, timeoutInSeconds=max(1, int(question.get("seconds") or 3600)))
        code, values, _ = MarabouCore.solve(query, options, "")
        word = code if isinstance(code, str) else ("sat" if values else "unsat")
        if word not in ("sat", "unsat"):
            return {"answer": "unknown"}
        reply: Json = {"answer": word}
        if word == "sat":
            reply["inputs"] = [values[variable] for variable in inputs]
        reply["relu_bounds"] = [[query.getLowerBound(k), query.getUpperBound(k)] for k in before]
        return reply

    serve(answer)


def _encode(core: Any, network: list[Any], question: Any) -> tuple[Any, list[int], list[int]]:
    """Return the input query, its input variables, and the variables before each ReLU."""
    query = core.InputQuery()
    width = len(question["lower"])
    total = width + sum(len(bias) * (2 if k + 1 < len(network) else 1) for k, (_, bias) in enumerate(network))
    query.setNumberOfVariables(total)
    inputs = list(range(width))
    bounds = list(zip(question["lower"], question["upper"], strict=True))
    for variable, (low, high) in zip(inputs, bounds, strict=True):
        query.setLowerBound(variable, low)
        query.setUpperBound(variable, high)
        query.markInputVariable(variable, variable)
    layer, following, before = inputs, width, []
    for depth, (weights, bias) in enumerate(network):
        sums = list(range(following, following + len(bias)))
        following += len(bias)
        ranges = []
        for variable, row, constant in zip(sums, weights, bias, strict=True):
            equation = core.Equation()
            for source, weight in zip(layer, row, strict=True):
                equation.addAddend(weight, source)
            equation.addAddend(-1.0, variable)
            equation.setScalar(-constant)
            query.addEquation(equation)
            low = constant + sum(min(w * b[0], w * b[1]) for w, b in zip(row, bounds, strict=True))
            high = constant + sum(max(w * b[0], w * b[1]) for w, b in zip(row, bounds, strict=True))
            slack = 1e-6 * (1 + abs(low) + abs(high))
            ranges.append((low - slack, high + slack))
            query.setLowerBound(variable, low - slack)
            query.setUpperBound(variable, high + slack)
        if depth + 1 == len(network):
            outputs = sums
            break
        before += sums
        layer = list(range(following, following + len(bias)))
        following += len(bias)
        bounds = []
        for variable, result, (low, high) in zip(sums, layer, ranges, strict=True):
            core.addReluConstraint(query, variable, result)
            bounds.append((max(0.0, low), max(0.0, high)))
            query.setLowerBound(result, 0.0)
            query.setUpperBound(result, max(0.0, high))
    for place, variable in enumerate(outputs):
        query.markOutputVariable(variable, place)
    for terms, low, high in question["rows"]:
        for bound, kind in ((low, core.Equation.GE), (high, core.Equation.LE)):
            if bound is not None:
                equation = core.Equation(kind)
                for source, weight in terms:
                    equation.addAddend(weight, source)
                equation.setScalar(bound)
                query.addEquation(equation)
    for other in question["others"]:
        equation = core.Equation(core.Equation.GE)
        equation.addAddend(1.0, outputs[question["best"]])
        equation.addAddend(-1.0, outputs[other])
        equation.setScalar(-question["margin"])
        query.addEquation(equation)
    return query, inputs, before


if __name__ == "__main__":
    main()
