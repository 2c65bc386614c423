"""What a part of the faults is good for: the input policy, repaired once with it (the paper on safety debugging, Figs. 2 to 4)."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Sequence
from typing import Any

from polvet.budget import Budget
from polvet.debug.evaluate import evaluate, evaluation_starts
from polvet.policy.binding import Fitted, fit
from polvet.policy.compiled import bind_policy, compile_policy
from polvet.records.fault_files import Fault
from polvet.repair.library import repair_checked
from polvet.repair.repair import Options

PARTS = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)
Curve = list[dict[str, float]]


def fractions(
    fitted: Fitted, faults: Sequence[Fault], how: Options, *, max_steps: int = 1_000, seconds: float = 60
) -> Curve:
    """Return %Unsafe, %Goal (1,000 starts, 10 runs each) and the CPU seconds of one repair, for each part of the faults."""
    bound = compile_policy(fitted)
    order = list(faults)
    random.Random(0).shuffle(order)
    starts = evaluation_starts(fitted.task, 1_000, 1)
    found: Curve = []
    for part in PARTS:
        used = order[: round(part * len(order))]
        begun, limit = time.process_time(), Budget(seconds)
        repaired = (
            repair_checked(fitted, used, how, compiled=bound.compiled, budget=limit)[0].policy
            if used
            else fitted.policy
        )
        spent = time.process_time() - begun
        after = bind_policy(fit(fitted.task, repaired), bound.compiled)
        judged = evaluate(after, starts, runs=10, max_steps=max_steps, budget=Budget(seconds, 3_000, 2_000_000))
        found.append(
            {
                "part": part,
                "faults": len(used),
                "unsafe": 100 * judged.unsafe,
                "open": judged.open,
                "goal": 100 * judged.goal,
                "seconds": spent,
            }
        )
    return found


def curves(found: dict[str, Curve]) -> str:
    """Return %Unsafe, %Goal and seconds over the part of the faults that is repaired: all rows thin, their mean thick."""
    size, gap = 230, 70
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{3 * (size + gap) + 20}" height="{size + 90}" '
             'font-family="sans-serif" font-size="11">']  # fmt: skip
    longest = max((one["seconds"] for curve in found.values() for one in curve), default=1.0)
    for number, (key, title, top_value) in enumerate(
        (("unsafe", "%Unsafe", 100.0), ("goal", "%Goal", 100.0), ("seconds", "CPU seconds", longest))
    ):
        left, top = gap + number * (size + gap), 30
        parts.append(f'<rect x="{left}" y="{top}" width="{size}" height="{size}" fill="none" stroke="#888"/>')
        parts.append(
            f'<text x="{left}" y="{top - 8}">{title} {"of" if key == "seconds" else "after"} one repair</text>'
        )
        parts.append(f'<text x="{left + 60}" y="{top + size + 34}">part of the faults repaired</text>')
        for tick in (0, 25, 50, 75, 100):
            value = f"{top_value * tick / 100:.3g}"
            parts.append(f'<text x="{left + size * tick / 100 - 8:.0f}" y="{top + size + 16}">{tick}%</text>')
            parts.append(f'<text x="{left - 30}" y="{top + size * (1 - tick / 100) + 4:.0f}">{value}</text>')

        def line(
            points: list[tuple[float, float]],
            style: str,
            name: str,
            left: int = left,
            top: int = top,
            most: float = top_value,
        ) -> str:
            at = " ".join(f"{left + size * x:.1f},{top + size * (1 - y / most):.1f}" for x, y in points)
            return f'<polyline points="{at}" fill="none" {style}><title>{name}</title></polyline>'

        for name, curve in found.items():
            parts.append(line([(one["part"], one[key]) for one in curve], 'stroke="#9ecae1"', name))
        mean = [(part, statistics.fmean(curve[k][key] for curve in found.values())) for k, part in enumerate(PARTS)]
        parts.append(line(mean, 'stroke="#08519c" stroke-width="3"', "mean"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def parts_table(found: dict[str, Curve], *, seconds: bool = False) -> list[str]:
    """Return %Unsafe / %Goal (and the seconds of the repair) for each row and part, as lines of Markdown."""
    lines = ["| benchmark | " + " | ".join(f"{part:.0%}" for part in PARTS) + " |", "|---|" + "---|" * len(PARTS)]

    def cell(one: dict[str, Any]) -> str:
        return f"{one['unsafe']:.2f} / {one['goal']:.1f}" + (f" / {one['seconds']:.1f} s" if seconds else "")

    return [*lines, *(f"| {name} | " + " | ".join(map(cell, curve)) + " |" for name, curve in found.items())]
