"""Scores per CPU second: polvet's kernels against onnxruntime (networks) and XGBoost (trees), batched and row by row.

Both sides run on one thread in the same process, repetitions interleaved; the best of each side counts. Row by row means one
call from Python per row, so it also measures the cost of a call; `kernel` calls the compiled function without polvet's checks.
    python -m benchmarks.policies [--repeat 5] [-o benchmarks/results/policies.json]
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from polvet.errors import Where
from polvet.policy.networks import network_of
from polvet.policy.onnx_save import save_onnx
from polvet.policy.xgboost_file import ensemble_from_xgboost

Run = Callable[[], Any]
NETWORKS = {"2x16": (14, 16, 16, 5), "2x32": (20, 32, 32, 7), "2x64": (14, 64, 64, 9), "2x128": (25, 128, 128, 11)}
TREES = {"20 rounds, depth 5, 5 classes": (20, 5, 5), "100 rounds, depth 6, 9 classes": (100, 6, 9)}
BATCH, SINGLES = 65_536, 2_000


def rates(runs: dict[str, tuple[int, Run]], repeat: int) -> dict[str, float]:
    """Return rows per CPU second of each run, the best of `repeat` interleaved repetitions."""
    best = dict.fromkeys(runs, 0.0)
    for _ in range(repeat):
        for name, (rows, run) in runs.items():
            start = time.process_time()
            run()
            best[name] = max(best[name], rows / (time.process_time() - start))
    return best


def network_case(sizes: tuple[int, ...], folder: Path, rng: np.random.Generator) -> dict[str, tuple[int, Run]]:
    """Return the runs of one network."""
    import onnxruntime as ort

    network = network_of([(rng.normal(size=(b, a)), rng.normal(size=b)) for a, b in pairwise(sizes)])
    path = folder / "network.onnx"
    save_onnx(network, path)
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    rows = rng.integers(0, 20, size=(BATCH, sizes[0])).astype(np.float32)
    singles = [rows[i : i + 1] for i in range(SINGLES)]
    return {
        "polvet batch": (BATCH, lambda: network.choose(rows)),
        "onnxruntime batch": (BATCH, lambda: session.run(None, {"inputs": rows})[0].argmax(axis=1)),
        "polvet single": (SINGLES, lambda: [network.choose(row) for row in singles]),
        "polvet kernel single": (SINGLES, lambda: [network.kernel.choose(row, None) for row in singles]),
        "onnxruntime single": (SINGLES, lambda: [session.run(None, {"inputs": row})[0].argmax() for row in singles]),
        "polvet sure choices": (BATCH, lambda: network.kernel.choose_surely(rows, None)),
        "polvet rounding bounds": (BATCH // 8, lambda: network.kernel.rounding_bounds(rows[: BATCH // 8])),
    }


def tree_case(shape: tuple[int, int, int], rng: np.random.Generator) -> dict[str, tuple[int, Run]]:
    """Return the runs of one tree ensemble."""
    import xgboost as xgb

    rounds, depth, classes = shape
    train = rng.integers(0, 20, size=(4000, 14)).astype(np.float32)
    labels = (train[:, 0] + train[:, 1] * train[:, 2] + rng.integers(0, 5, 4000)).astype(int) % classes
    parameters = {"objective": "multi:softmax", "num_class": classes, "max_depth": depth, "eta": 0.4, "nthread": 1}
    booster = xgb.train(parameters, xgb.DMatrix(train, labels), rounds)
    policy = ensemble_from_xgboost(json.loads(booster.save_raw("json")), Where("model"))
    rows = rng.integers(0, 20, size=(BATCH, 14)).astype(np.float32)
    singles = [rows[i : i + 1] for i in range(SINGLES)]
    few = singles[: SINGLES // 4]
    return {
        "polvet batch": (BATCH, lambda: policy.choose(rows)),
        "xgboost batch": (BATCH, lambda: booster.inplace_predict(rows)),
        "polvet single": (SINGLES, lambda: [policy.choose(row) for row in singles]),
        "polvet kernel single": (SINGLES, lambda: [policy.kernel.choose(row, None) for row in singles]),
        "xgboost single": (len(few), lambda: [booster.inplace_predict(row) for row in few]),
    }


def main() -> None:
    """Measure every case, print a Markdown table and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).parent / "results" / "policies.json")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    results: dict[str, dict[str, float]] = {}
    for name, sizes in NETWORKS.items():
        results[f"network {name}"] = rates(network_case(sizes, options.output.parent, rng), options.repeat)
    (options.output.parent / "network.onnx").unlink()
    for name, shape in TREES.items():
        results[f"trees {name}"] = rates(tree_case(shape, rng), options.repeat)
    options.output.write_text(json.dumps(results, indent=1) + "\n")
    print("| policy | batch: polvet rows/s | peer rows/s | ratio | single: polvet | peer | ratio | kernel ratio |")
    print("|---|---|---|---|---|---|---|---|")
    for name, found in results.items():
        peer = "onnxruntime" if name.startswith("network") else "xgboost"
        batch, single = found["polvet batch"], found["polvet single"]
        others = found[f"{peer} batch"], found[f"{peer} single"]
        print(
            f"| {name} | {batch:,.0f} | {others[0]:,.0f} | {batch / others[0]:.2f} | {single:,.0f} | {others[1]:,.0f} "
            f"| {single / others[1]:.1f} | {found['polvet kernel single'] / others[1]:.1f} |"
        )


if __name__ == "__main__":
    main()
