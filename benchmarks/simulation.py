"""Policy steps per CPU second: polvet's batch simulation against stormpy's sparse simulator and a Gymnasium-style loop.

polvet runs the policy (a 2x64 network or 20 rounds of depth-5 trees, with random weights and lessons) on one thread, 100
runs per start state as `polvet evaluate` does, and once more with a new start state for every run, where little can be
remembered from run to run (what the policy chose in a state is kept while there is room). stormpy's sparse simulator takes
random choices, evaluates no policy, and its model is built beforehand, unmeasured. The Gymnasium-style loop is the usual
one: `env.step(action)` in Python (a hand-written Flappy Bird, faster than any interpreter) and one onnxruntime call per
step. Repetitions are interleaved, the best of each side counts.
    python -m benchmarks.simulation [--repeat 3] [-o benchmarks/results/simulation.json]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from polvet.domains import generate
from polvet.domains.flappy_bird import layout
from polvet.kernel.starts import Starts
from polvet.model.task import Task
from polvet.policy.binding import fit
from polvet.policy.compiled import Bound, compile_policy
from polvet.policy.networks import network_of
from polvet.policy.onnx_save import save_onnx
from polvet.policy.protocol import Policy
from polvet.policy.runs import simulate
from polvet.train.imitate import imitate

WORLDS: dict[str, dict[str, Any]] = {
    "flappy-bird": {"width": 50, "height": 20, "walls": 5},
    "one-way-line": {"n": 15, "p": 10},
    "blocksworld": {"n": 6, "cost": 0},
}
RUNS, PER_START, MAX_STEPS, STORM_STEPS, LOOP_STEPS = 40_000, 100, 200, 200_000, 10_000
Measured = Callable[[], int]


def names_of(task: Task) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple(v.name for v in task.network.variables if not v.is_location), task.network.labels


def random_network(task: Task, rng: np.random.Generator) -> Policy:
    inputs, outputs = names_of(task)
    sizes = (len(inputs), 64, 64, len(outputs))
    return network_of([(rng.normal(size=(b, a)), rng.normal(size=b)) for a, b in pairwise(sizes)], inputs, outputs)


def random_trees(task: Task, rng: np.random.Generator) -> Policy:
    inputs, outputs = names_of(task)
    rows = rng.integers(0, 15, size=(4000, len(inputs))).astype(np.float32)
    taught = (rows.sum(axis=1) + rng.integers(0, 3, 4000)).astype(np.int64) % len(outputs)
    return imitate(rows, taught, inputs, outputs).policy


def kernel_steps(bound: Bound, per_start: int) -> Measured:
    starts = Starts.of(bound.task)
    packed = bound.compiled.pack(starts.sample(RUNS // per_start, random.Random(0)))

    def run() -> int:
        return simulate(bound, packed, runs_per_start=per_start, max_steps=MAX_STEPS, seed=1).steps

    return run


def storm_steps(file: Path) -> Measured:
    import stormpy
    import stormpy.simulator

    model, _ = stormpy.parse_jani_model(str(file))
    sparse = stormpy.build_model(model)
    simulator = stormpy.simulator.create_simulator(sparse, seed=1)

    def run() -> int:
        simulator.restart()
        for _ in range(STORM_STEPS):
            if simulator.is_done():
                simulator.restart()
            simulator.random_step()
        return STORM_STEPS

    return run


class FlappyBird:
    """Flappy Bird as people write it for Gymnasium: reset and step, a row of floats as observation."""

    def __init__(self, width: int, height: int, walls: list[tuple[int, int, int]]) -> None:
        self.width, self.height = width, height
        self.gaps = {column: (low, high) for column, low, high in walls}
        self.rng = random.Random(0)

    def reset(self) -> np.ndarray:
        self.x, self.y = 0, self.rng.randrange(self.height)
        return np.array([[self.x, self.y]], dtype=np.float32)

    def action_mask(self) -> np.ndarray:
        return np.array([[self.y < self.height - 1, self.y > 0]])

    def step(self, action: int) -> tuple[np.ndarray, float, bool]:
        self.y += 1 if action == 0 else -1
        if self.rng.random() < 0.5:
            self.x = (self.x + 1) % self.width
        gap = self.gaps.get(self.x)
        crashed = gap is not None and not gap[0] <= self.y <= gap[1]
        return np.array([[self.x, self.y]], dtype=np.float32), -1.0 if crashed else 0.0, crashed


def loop_steps(network: Policy, folder: Path) -> Measured:
    import onnxruntime as ort

    size = WORLDS["flappy-bird"]
    env = FlappyBird(size["width"], size["height"], layout(size["width"], size["height"], size["walls"], 1))
    path = folder / "loop.onnx"
    save_onnx(network, path)  # type: ignore[arg-type]
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name

    def run() -> int:
        row = env.reset()
        for _ in range(LOOP_STEPS):
            scores = session.run(None, {name: row})[0]
            action = int(np.where(env.action_mask(), scores, -np.inf).argmax())
            row, _, over = env.step(action)
            if over:
                row = env.reset()
        return LOOP_STEPS

    return run


def rates(runs: dict[str, Measured], repeat: int) -> dict[str, float]:
    best = dict.fromkeys(runs, 0.0)
    for _ in range(repeat):
        for name, run in runs.items():
            start = time.process_time()
            steps = run()
            best[name] = max(best[name], steps / (time.process_time() - start))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).parent / "results" / "simulation.json")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    results: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for world, size in WORLDS.items():
            instance = generate(world, **size)
            file = folder / f"{world}.jani"
            instance.write(file)
            task = instance.task()
            network, trees = random_network(task, rng), random_trees(task, rng)
            runs = {
                "polvet, 2x64 network": kernel_steps(compile_policy(fit(task, network)), PER_START),
                "polvet, 20x5 trees": kernel_steps(compile_policy(fit(task, trees)), PER_START),
                "polvet, 2x64 network, one run per start": kernel_steps(compile_policy(fit(task, network)), 1),
                "polvet, 20x5 trees, one run per start": kernel_steps(compile_policy(fit(task, trees)), 1),
                "stormpy, random choices": storm_steps(file),
            }
            if world == "flappy-bird":
                runs["Python loop, onnxruntime"] = loop_steps(network, folder)
            results[world] = rates(runs, options.repeat)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(results, indent=1) + "\n")
    print(written := markdown(results))
    options.output.with_suffix(".md").write_text(written)


def markdown(results: dict[str, dict[str, float]]) -> str:
    """Return the table; each peer stands beside how many times faster polvet is, remembering and with new starts."""
    table = [
        "| world | side | steps per CPU second | network: times | trees: times | new starts, network | new starts, trees |",
        "|---|---|---|---|---|---|---|",
    ]
    sides = ("2x64 network", "20x5 trees", "2x64 network, one run per start", "20x5 trees, one run per start")
    for world, found in results.items():
        for side, rate in found.items():
            ratios = ["" if side.startswith("polvet") else f"{found[f'polvet, {own}'] / rate:.1f}" for own in sides]
            table.append(f"| {world} | {side} | {rate:,.0f} | {' | '.join(ratios)} |")
    return "# Simulation\n\n" + "\n".join(table) + "\n\n" + NOTE


NOTE = """Rates above ten million come from remembering: a state's choice is evaluated once per call, later visits look it up.
Where nearly every state is new (one-way-line, one run per start) each step asks model and policy, nothing is remembered, and
the gain is smaller.
"""

if __name__ == "__main__":
    main()
