"""Measure split trees of invariants: how large certificates are without and with them, and how long each is found and followed.

Run `python -m benchmarks.split_trees [--seconds 60]`; it writes `results/split_trees.json`. Times are CPU seconds of one process:
`prove` the engine (ic3), `search` finding the tree, `check` the checker that follows it. Instances are the networks of
`benchmarks.verification` on Transport and Blocksworld, and random networks on Transport, whose proofs need many boxes.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.verification_policies import FOLDER, instances
from polvet.budget import Budget
from polvet.check.arena import Arena
from polvet.check.checker import Accepted
from polvet.check.invariant import check_claim
from polvet.domains.transport import transport
from polvet.errors import LimitReached
from polvet.policy.binding import Fitted, fit, load_fitted
from polvet.policy.compiled import compile_policy
from polvet.policy.networks import network_of
from polvet.verify.ic3 import IC3
from polvet.verify.method import Request
from polvet.verify.split_tree import with_tree
from polvet.verify.verdicts import Safe

RESULTS = Path(__file__).resolve().parent / "results"


def cases() -> Iterator[tuple[str, Fitted]]:
    """Yield the policies by name."""
    for name, task, _, _, _ in instances():
        if name.startswith(("transport", "blocksworld")) and (FOLDER / f"{name}.onnx").exists():
            yield name, load_fitted(task, FOLDER / f"{name}.onnx")
    for seed in (3, 10):
        yield f"transport-10-15-random-{seed}", random_policy(seed)


def random_policy(seed: int) -> Fitted:
    """Return a random network of two layers of 16 on Transport with 10 locations and 15 packages."""
    task = transport(locations=10, packages=15).task()
    names = [variable.name for variable in task.network.variables][:-1]
    rng = np.random.default_rng(seed)
    sizes = ((16, len(names), 0.4), (16, 16, 0.35), (4, 16, 0.35))
    layers = [(rng.normal(size=(rows, columns)) * scale, rng.normal(size=rows) * 0.5) for rows, columns, scale in sizes]
    return fit(task, network_of(layers, names, list(task.network.labels)))


def measure(name: str, fitted: Fitted, seconds: float) -> dict[str, Any] | None:
    """Return the row of one policy; None where it is not proved within the limit."""
    begun = time.process_time()
    result = IC3(compile_policy(fitted), Request(Budget(seconds)))
    proved = time.process_time()
    if not isinstance(result, Safe):
        return None
    try:
        whole = json.loads(json.dumps(with_tree(result.certificate, fitted, Budget(seconds))))
    except LimitReached:
        return None
    searched = time.process_time()
    arena = Arena.of(fitted.task, name)
    accepted = isinstance(check_claim(arena, fitted, whole, name), Accepted)
    checked = time.process_time()
    return {
        "instance": name,
        "accepted": accepted,
        "by": whole["tree"]["by"],
        "nodes": whole["tree"]["nodes"],
        "bytes_without_tree": len(json.dumps(result.certificate)),
        "bytes": len(json.dumps(whole)),
        "prove_seconds": round(proved - begun, 2),
        "search_seconds": round(searched - proved, 2),
        "check_seconds": round(checked - searched, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.split_trees")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each proof, and for each tree")
    seconds = parser.parse_args().seconds
    rows = []
    for name, fitted in cases():
        row = measure(name, fitted, seconds)
        print(row or f"{name}: not within {seconds:g} s", flush=True)
        rows += [row] if row else []
    RESULTS.joinpath("split_trees.json").write_text(json.dumps({"limit": seconds, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
