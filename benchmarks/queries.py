"""Policy queries: polvet's box engine against Marabou, Veritas, Z3 and a MILP on HiGHS, on the same questions.

A question: is there an integer point in a box where output l has the best score? Networks and trees with a given sum of the
coordinates (Marabou branches on fractional inputs), trees in plain boxes for Veritas, which knows no sums. Everybody runs one
question per process under the same limit on CPU seconds (`cpu_limited`); polvet's answer covers float32 rounding, peers compute
over the reals and their "unsat" is believed unless polvet executed a point. Ratios are geometric means over the questions that both
sides answered alike; over all questions, limits included, the cactus plot and the totals speak.
    python -m benchmarks.queries [--count 340] [--limit 5]      # writes results/queries.json, queries.md, queries-*.svg
    python -m benchmarks.queries --alone -o FOLDER              # polvet's answers alone, in another folder
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cpu_limited import answer
from benchmarks.grid import add_workers, run_grid
from benchmarks.query_peers import OUTPUTS, Question
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

RESULTS = Path(__file__).resolve().parent / "results"
PEERS = {"network": ("marabou", "highs", "z3"), "boxes": ("veritas",), "large": ("veritas",), "trees": ("z3", "highs")}
SLOW = ("z3", "highs")  # asked the first FEW questions of a kind: most of theirs end at the limit
FEW = 16
SAMPLES = 2000
MOST = {"large": 60, "trees": FEW}
PACKAGES = {"marabou": "maraboupy", "veritas": "dtai-veritas", "z3": "z3-solver", "highs": "highspy"}
DECIDED = ("sat", "unsat")
COLOURS = ("#1b6ca8", "#c0392b", "#3d8b37", "#8e44ad")


def make_question(rng: np.random.Generator, kind: str) -> Question:
    """Return a random network (2x16 to 2x64; with tanh 2x64) or boosted ensemble with a box, an output and a sum (boxes, large: none)."""
    inputs = int(rng.integers(5, 13))
    lower = rng.integers(0, 6, inputs)
    upper = lower + rng.integers(1, 9, inputs)
    total = int(rng.integers(lower.sum(), upper.sum() + 1))
    question: Question = {
        "kind": kind,
        "lower": lower.tolist(),
        "upper": upper.tolist(),
        "total": None if kind in ("boxes", "large") else total,
        "output": int(rng.integers(OUTPUTS)),
    }
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
        rounds, depth = (50, 6) if kind == "large" else (15, 4)
        question["trees"] = [_random_tree(rng, inputs, k % OUTPUTS, depth) for k in range(rounds * OUTPUTS)]
    if kind in ("boxes", "large"):
        _handicap(rng, question)
    return question


def _handicap(rng: np.random.Generator, question: Question) -> None:
    """Take from the output about as much as it leads by at the best of many sampled points, so that sampling does not answer."""
    lower, upper, output = np.array(question["lower"]), np.array(question["upper"]), question["output"]
    points = rng.integers(lower, upper + 1, (SAMPLES, len(lower)))
    scores = np.zeros((SAMPLES, OUTPUTS))
    for tree in question["trees"]:
        feature, threshold = np.array(tree["feature"]), np.array(tree["threshold"])
        node = np.zeros(SAMPLES, dtype=np.int64)
        while (node < len(feature)).all():
            node = 2 * node + 1 + (points[np.arange(SAMPLES), feature[node]] > threshold[node])
        scores[:, tree["output"]] += np.array(tree["values"])[node - len(feature)]
    lead = float((scores[:, output] - np.delete(scores, output, axis=1).max(axis=1)).max())
    loss = lead + float(rng.uniform(-0.1, 0.9)) * abs(lead)
    own = next(tree for tree in question["trees"] if tree["output"] == output)
    own["values"] = (np.array(own["values"]) - loss).astype(np.float32).tolist()


def _random_tree(rng: np.random.Generator, inputs: int, output: int, depth: int) -> dict[str, Any]:
    inner = 2**depth - 1
    return {
        "output": output,
        "feature": rng.integers(0, inputs, inner).tolist(),
        "threshold": (rng.integers(0, 14, inner) + 0.5).tolist(),
        "values": rng.normal(size=inner + 1).astype(np.float32).tolist(),
    }


def prepared(question: Question) -> Callable[[], str]:
    """Return polvet's question as a function; making the engine is not counted, as a verification makes it once."""
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
    total = question["total"]
    rows = [] if total is None else [row_of(dict.fromkeys(range(len(names)), 1), total, total)]
    cell = cell_of(Box(tuple(question["lower"]), tuple(question["upper"])), rows)
    words = {Answer.YES: "sat", Answer.NO: "unsat", Answer.NEAR_TIE: "near-tie", Answer.UNKNOWN: "unknown"}

    def ask() -> str:
        if cell is None:
            return "unsat"
        return words[engine.find([cell], question["output"], budget=Budget(None)).answer]

    return ask


def _tree(data: dict[str, Any]) -> Any:
    inner = len(data["feature"])
    leaves = [-1] * (inner + 1)
    return make_tree(
        data["output"],
        data["feature"] + leaves,
        data["threshold"] + [0.0] * (inner + 1),
        [2 * i + 1 for i in range(inner)] + leaves,
        [2 * i + 2 for i in range(inner)] + leaves,
        [0.0] * inner + data["values"],
    )


def ask_all(how: tuple[float, bool], numbered: tuple[int, Question]) -> dict[str, Any]:
    """Return everybody's answer to one question; of polvet alone, where nobody else is asked."""
    (limit, alone), (number, question) = how, numbered
    row: dict[str, Any] = {"kind": question["kind"], "polvet": answer("benchmarks.queries:prepared", question, limit)}
    for peer in () if alone else PEERS[question["kind"]]:
        if peer not in SLOW or number < FEW:
            row[peer] = answer("benchmarks.query_peers:prepared", {"peer": peer, "question": question}, limit)
    return row


def compare(rows: list[dict[str, Any]], peer: str) -> dict[str, Any]:
    """Return the line of the table: how many each side answers, and how much slower the peer is where both agree."""
    rows = [row for row in rows if peer in row]
    both = [r for r in rows if r[peer]["answer"] in DECIDED and r["polvet"]["answer"] in DECIDED]
    alike = [r for r in both if r[peer]["answer"] == r["polvet"]["answer"]]
    ratios = sorted(r[peer]["seconds"] / r["polvet"]["seconds"] for r in alike)
    return {
        "kind": rows[0]["kind"],
        "peer": f"{peer} {version(PACKAGES[peer])}",
        "questions": len(rows),
        "polvet_answered": sum(r["polvet"]["answer"] in DECIDED for r in rows),
        "peer_answered": sum(r[peer]["answer"] in DECIDED for r in rows),
        "contradictions": len(both) - len(alike),
        "compared": len(alike),
        "slower_by": math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None,
        "slower_by_quartiles": [ratios[len(ratios) * k // 4] for k in (1, 2, 3)] if ratios else None,
        "polvet_seconds": sum(r["polvet"]["seconds"] for r in rows),
        "peer_seconds": sum(r[peer]["seconds"] for r in rows),
    }


def cactus(title: str, seconds: dict[str, list[float]], asked: int) -> str:
    """Return an SVG: how many questions each solver answers within so many CPU seconds, one line per solver."""
    left, right, top, bottom, low, high = 50, 430, 30, 260, -5.0, 1.0

    def x(value: float) -> float:
        return left + (right - left) * (math.log10(max(value, 10**low)) - low) / (high - low)

    def y(count: float) -> float:
        return bottom - (bottom - top) * count / asked

    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" width="560" height="310" font-family="sans-serif" font-size="11">',
        '<rect width="560" height="310" fill="white"/>',
        f'<text x="{left}" y="18" font-size="13">{title}</text>',
        f'<text x="{(left + right) / 2}" y="{bottom + 32}" text-anchor="middle">CPU seconds per question</text>',
    ]
    for power in range(int(low), int(high) + 1):
        parts.append(f'<line x1="{x(10**power):.1f}" x2="{x(10**power):.1f}" y1="{top}" y2="{bottom}" stroke="#ddd"/>')
        parts.append(f'<text x="{x(10**power):.1f}" y="{bottom + 14}" text-anchor="middle">1e{power}</text>')
    for count in (0, asked // 2, asked):
        parts.append(f'<line x1="{left}" x2="{right}" y1="{y(count):.1f}" y2="{y(count):.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 6}" y="{y(count) + 4:.1f}" text-anchor="end">{count}</text>')
    for k, (solver, times) in enumerate(seconds.items()):
        points = [(float(left), float(bottom))]
        for done, value in enumerate(sorted(times), start=1):
            points += [(x(value), points[-1][1]), (x(value), y(done))]
        points.append((float(right), points[-1][1]))
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[k]}" stroke-width="1.5"/>')
        parts.append(f'<text x="{right + 12}" y="{top + 14 * k + 10}" fill="{COLOURS[k]}">{solver}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def write(limit: float, rows: list[dict[str, Any]], folder: Path) -> None:
    """Write the results as data, tables and pictures."""
    lines = [
        "# Single questions about a policy",
        "",
        f"CPU seconds of one thread; at most {limit:g} per answer, then killed. `python -m benchmarks.queries`",
        "",
        "Is there an integer point in a box where an output has the best score? *network*: 2x16 to 2x64 ReLU, with a given sum of the",
        "inputs; *trees*: 15 rounds of depth 4 for 4 outputs, with a given sum; *boxes*: the same without a sum, *large*: 50 rounds of",
        "depth 6; in both, the output is handicapped so that the best of 2,000 sampled points is near the border. *Compared*: both",
        "answered, and alike; *slower*: the geometric mean over these, with the quartiles. *Contradictions*: the peer says unsat where",
        "polvet executed a point, or sat where polvet proved there is none.",
        "",
        "| questions | peer | asked | polvet answers | peer answers | contradictions | compared | peer slower by (quartiles) "
        "| polvet CPU s in all | peer CPU s in all |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    table, pictures = [], []
    for kind, peers in PEERS.items():
        mine = [row for row in rows if row["kind"] == kind]
        for peer in (one for one in peers if any(one in row for row in mine)):
            one = compare(mine, peer)
            table.append(one)
            slower = "-"
            if one["slower_by"] is not None:
                slower = f"{one['slower_by']:,.0f} ({', '.join(f'{q:,.0f}' for q in one['slower_by_quartiles'])})"
            lines.append(
                f"| {kind} | {one['peer']} | {one['questions']} | {one['polvet_answered']} | {one['peer_answered']} "
                f"| {one['contradictions']} | {one['compared']} | {slower} "
                f"| {one['polvet_seconds']:.2f} | {one['peer_seconds']:.0f} |"
            )
            if peer not in SLOW:
                file = f"queries-{kind}.svg"
                solved = {
                    name: [row[name]["seconds"] for row in mine if row[name]["answer"] in DECIDED]
                    for name in ("polvet", peer)
                }
                (folder / file).write_text(
                    cactus(f"{kind}: {len(mine)} questions", solved, len(mine)), encoding="utf-8"
                )
                pictures.append(f"![{file}]({file})")
    lines += ["", "Questions answered within a time, over all questions with the common limit:", "", *pictures]
    document = {"limit": limit, "summary": table, "questions": rows}
    (folder / "queries.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    (folder / "queries.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    """Ask everybody everything; what was measured so far is written after each kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=340, help="questions of each kind")
    parser.add_argument("--limit", type=float, default=5.0, help="CPU seconds per answer")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--alone", action="store_true", help="ask polvet, and no peer")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS, help="the folder to write to")
    add_workers(parser)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    rows: list[dict[str, Any]] = []
    for kind in PEERS:
        count = min(options.count, MOST.get(kind, options.count))
        how = options.limit, options.alone
        questions = list(enumerate(make_question(rng, kind) for _ in range(count)))
        for number, row in enumerate(run_grid(ask_all, how, questions, options.workers)):
            rows.append(row)
            said = {name: f"{one['answer']} {one['seconds']:.4f}" for name, one in row.items() if name != "kind"}
            print(kind, number, said, file=sys.stderr, flush=True)
        write(options.limit, rows, options.output)


if __name__ == "__main__":
    main()
