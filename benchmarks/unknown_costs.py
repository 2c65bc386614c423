"""Learning costs that no model knows, on Gymnasium's FrozenLake 8x8, slippery: bounds per iteration, and failures of a trained agent.

Each cell and action has a price that only the environment knows (its reward is minus that). `learn` is told the model without costs and
that prices lie between 1 and 29. The optimum it must close in on is computed apart, by a linear program over `env.unwrapped.P` and
the true prices. Then the same with MaskablePPO as the learner, whose agent plays 10,000 episodes under the last shield.
    python -m benchmarks.unknown_costs [-o benchmarks/results/unknown-costs.json]
"""

from __future__ import annotations

import argparse
import json
import math
import random
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import polvet
from polvet.report.shield_pictures import draw_bounds

RESULTS = Path(__file__).resolve().parent / "results"
LAKE = {"id": "FrozenLake-v1", "map_name": "8x8", "is_slippery": True}
BOUND, LOWER, UPPER = 0.2, 1, 29
EPISODES, DOUBT = 10_000, 1e-3


class Prices(gymnasium.Wrapper):  # type: ignore[misc]
    """A lake where each cell and action has a price that is paid, and told to nobody before."""

    def __init__(self, seed: int = 0, longest: int = 200) -> None:
        super().__init__(gymnasium.make(**LAKE, max_episode_steps=longest))
        rng = random.Random(seed)
        self.price = {(s, a): rng.randint(1, 9) + 20 * (rng.random() < 0.1) for s in range(64) for a in range(4)}
        self.cell = 0

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Begin anew."""
        self.cell, info = self.env.reset(**options)
        return self.cell, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Pay for the step."""
        paid = self.price[int(self.cell), int(action)]
        self.cell, reached, terminated, truncated, info = self.env.step(action)
        return self.cell, -float(paid), terminated, truncated, {**info, "fail": terminated and not reached}


def optimum(price: dict[tuple[int, int], int]) -> float:
    """Return the least expected price until goal or hole of a policy that falls in with at most the bound: a linear program."""
    from scipy.optimize import linprog

    table = gymnasium.make(**LAKE).unwrapped.P
    desc = gymnasium.make(**LAKE).unwrapped.desc.ravel()
    inner = [s for s in table if desc[s] in (b"S", b"F")]
    pairs = [(s, a) for s in inner for a in range(4)]
    flow, falls = np.zeros((len(inner), len(pairs))), np.zeros((1, len(pairs)))
    for k, (s, a) in enumerate(pairs):
        flow[inner.index(s), k] += 1
        for chance, target, _, _ in table[s][a]:
            if target in inner:
                flow[inner.index(target), k] -= chance
            elif desc[target] == b"H":
                falls[0, k] += chance
    begin = np.array([float(s == 0) for s in inner])
    answer = linprog([price[p] for p in pairs], A_ub=falls, b_ub=[BOUND], A_eq=flow, b_eq=begin, method="highs")
    assert answer.status == 0
    return float(answer.fun)


class Agent:
    """MaskablePPO that goes on learning in each shielded environment it is handed."""

    def __init__(self, steps: int) -> None:
        self.steps, self.model = steps, None
        self.episodes = self.failures = 0

    def __call__(self, env: Any) -> None:
        from sb3_contrib import MaskablePPO

        flat = gymnasium.wrappers.FlattenObservation(env)
        flat.action_masks = env.action_masks
        if self.model is None:
            self.model = MaskablePPO("MlpPolicy", flat, n_steps=512, batch_size=128, seed=0, device="cpu", verbose=0)
        else:
            self.model.set_env(flat)
        self.model.learn(self.steps, reset_num_timesteps=False)

    def chances(self, masks: dict[int, np.ndarray]) -> dict[int, np.ndarray]:
        """Return how likely the agent takes each action in each cell."""
        import torch

        found = {}
        for cell, mask in masks.items():
            shown = torch.as_tensor(np.eye(64, dtype=np.float32)[[cell]])
            with torch.no_grad():
                spread = self.model.policy.get_distribution(shown, action_masks=mask[None])
            found[cell] = spread.distribution.probs[0].numpy().astype(np.float64)
        return found


def named(cell: int, desc: np.ndarray) -> dict[str, Any]:
    """Return the model's state of a cell."""
    return {
        "s": cell, "row": cell // 8, "column": cell % 8, "failed": desc[cell] == b"H", "reached": desc[cell] == b"G",
    }  # fmt: skip


def play(agent: Agent, shield: Any, task: Any) -> dict[str, Any]:
    """Return how often the agent fails in so many episodes of the lake itself under the shield."""
    env = Prices(longest=100_000)
    desc = env.unwrapped.desc.ravel()
    guarded = shield.wrap(env, state_of=lambda cell: named(int(cell), desc), labels=task.labels)
    cells = [c for c in range(64) if desc[c] in (b"S", b"F")]
    known = {c: named(c, desc) for c in cells}
    listed = {c: np.array(shield.mask(s, task.labels)) for c, s in known.items() if _lists(shield, s)}
    spread = {c: np.cumsum(p) for c, p in agent.chances(listed).items()}
    chance = np.random.default_rng(7)
    failures = steps = replaced = 0
    for episode in range(EPISODES):
        cell, _ = guarded.reset(seed=episode if episode == 0 else None)
        over = False
        while not over:
            action = min(3, int(np.searchsorted(spread[int(cell)], chance.random())))
            cell, _, terminated, truncated, info = guarded.step(action)
            over = terminated or truncated
            steps += 1
            replaced += info["replaced"]
        failures += info["fail"]
    radius = math.sqrt(math.log(2 / DOUBT) / (2 * EPISODES))
    rate = failures / EPISODES
    return {
        "episodes": EPISODES, "steps": steps, "replaced": replaced, "failures": failures, "rate": rate,
        "interval": [max(0.0, rate - radius), rate + radius], "doubt": DOUBT, "risk": float(shield.risk(known[0])),
        "within": rate - radius <= BOUND,
    }  # fmt: skip


def _lists(shield: Any, state: dict[str, Any]) -> bool:
    return shield.table.key(state) in shield.table.actions


def main() -> None:
    """Learn twice, play, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "unknown-costs.json")
    given = parser.parse_args()
    task = polvet.from_gym(gymnasium.make(**LAKE))
    best = optimum(Prices().price)
    asked: dict[str, Any] = {"cost_lower": LOWER, "cost_upper": UPPER, "seed": 1}
    rows: list[dict[str, Any]] = []
    agent = Agent(20_000)
    for name, learner, more in (
        ("Q-learning", None, {"iterations": 12, "episodes": 300}), ("MaskablePPO", agent, {"iterations": 4, "episodes": 300}),
    ):  # fmt: skip
        begun = time.process_time()
        found = task.learn(str(BOUND), env=Prices(), learner=learner, **asked, **more)
        history = [
            {key: one[key] for key in ("iteration", "permitted", "visited", "lower", "upper")}
            for one in found.figures["history"]
        ]
        inside = all(one["lower"] <= best * (1 + 1e-6) and best <= one["upper"] * (1 + 1e-6) for one in history)
        rows.append({
            "learner": name, "verdict": found.verdict.value, "reason": found.source.reason, "lower": found.lower,
            "upper": found.upper, "optimum_between": inside, "cpu_seconds": round(time.process_time() - begun, 1),
            "history": history,
        })  # fmt: skip
        print(json.dumps(rows[-1]), flush=True)
        if learner is None:
            series = {
                "upper": [o["upper"] for o in history],
                "lower": [o["lower"] for o in history],
                "optimum": [best] * len(history),
            }
            given.output.with_suffix(".svg").write_text(draw_bounds(series), encoding="utf-8")
        else:
            rows[-1]["played"] = play(agent, found.shield, task)
            print(json.dumps(rows[-1]["played"]), flush=True)
    document = {"lake": LAKE, "bound": BOUND, "prices": [LOWER, UPPER], "optimum": best, "rows": rows}
    given.output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    given.output.with_suffix(".md").write_text("\n".join(page(document)) + "\n", encoding="utf-8")


def page(document: dict[str, Any]) -> list[str]:
    """Return the results as a page."""
    lines = [
        "# Costs that the model does not know", "",
        f"FrozenLake 8x8, slippery; falling in with probability at most {document['bound']}. The optimum by a linear program that "
        f"knows the prices: {document['optimum']:.6f}.", "", "![bounds per iteration](unknown-costs.svg)", "",
        "| learner | iteration | allowed | visited | lower | upper |", "|---|--:|--:|--:|--:|--:|",
    ]  # fmt: skip
    for row in document["rows"]:
        lines += [
            f"| {row['learner']} | {o['iteration']} | {o['permitted']} | {o['visited']} | {o['lower']:.4f} | {o['upper']:.4f} |"
            for o in row["history"]
        ]
    lines.append("")
    for row in document["rows"]:
        lines.append(
            f"- {row['learner']}: {row['reason']}; {row['cpu_seconds']} CPU seconds; the optimum lies between the bounds of every "
            f"iteration: {'yes' if row['optimum_between'] else 'NO'}."
        )
    played = document["rows"][-1]["played"]
    lines.append(
        f"- The MaskablePPO agent under the last shield (greatest risk {played['risk']:.4f}): {played['failures']:,} failures in "
        f"{played['episodes']:,} episodes, rate {played['rate']:.4f}, with confidence {1 - played['doubt']:g} between "
        f"{played['interval'][0]:.4f} and {played['interval'][1]:.4f}; {played['replaced']:,} of {played['steps']:,} actions replaced."
    )
    return lines


if __name__ == "__main__":
    main()
