"""Z3 as a worker: {"base": text} is asserted once; {"query": text, "values": names} is asserted, checked and taken back.

Texts are SMT-LIB 2; a query declares again what it shares with the base. Answers: {"answer": "sat"|"unsat"|"unknown", "values": {}}.
"""

from __future__ import annotations

from typing import Any

from polvet.solvers.worker_loop import serve


def main() -> None:
    """Serve questions until stdin ends."""
    import z3

    solver = z3.Solver()

    def answer(question: Any) -> Any:
        nonlocal solver
        if "base" in question:
            solver = z3.Solver()
            solver.add(z3.parse_smt2_string(question["base"]))
            return {}
        solver.push()
        try:
            solver.add(z3.parse_smt2_string(question["query"]))
            word = str(solver.check())
            values = {}
            if word == "sat":
                model = solver.model()
                values = {
                    name: str(model.eval(z3.Int(name), model_completion=True)) for name in question.get("values", ())
                }
            return {"answer": word, "values": values}
        finally:
            solver.pop()

    serve(answer)


if __name__ == "__main__":
    main()
