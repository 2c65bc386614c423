"""Draw the gallery: one SVG per domain in docs/gallery/, and docs/gallery.md around them.

Run it from the repository's root: python docs/draw_gallery.py. Chance is seeded, so the same files come out.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from polvet.domains.catalogue import CATALOGUE, generate
from polvet.domains.draw import draw
from polvet.files import write_whole
from polvet.kernel.starts import Starts
from polvet.model.semantics import Semantics
from polvet.model.task import state_to_names

DOCS = Path(__file__).parent
SHOWN: dict[str, dict[str, Any]] = {
    "one-way-line": {"icy": True}, "two-way-line": {"icy": True, "park": True}, "racetrack": {"map": "hook"},
}  # fmt: skip


def a_state(name: str, steps: int = 9) -> dict[str, Any]:
    """Return a state some random steps from a start state, before the run fails or ends."""
    task = generate(name, **SHOWN.get(name, {})).task()
    semantics, rng = Semantics(task.network), random.Random(name)
    ended = [semantics.compile(task.fail), semantics.compile(task.goal)]
    (state,) = Starts.of(task).sample(1, rng)
    for _ in range(steps):
        outcomes = [one.state for move in semantics.moves(state) for one in move.outcomes]
        going_on = [one for one in outcomes if not any(test(one) for test in ended)]
        if not going_on:
            break
        state = rng.choice(going_on)
    return state_to_names(task.network, state)


def files() -> dict[str, str]:
    """Return the gallery's files with their content, by path below docs/."""
    made: dict[str, str] = {}
    page = [
        "# Gallery\n", "Every built-in benchmark, with a state drawn. `polvet domains NAME key=value -o FILE.jani`",
        "writes one as JANI together with its task; `polvet domains NAME` tells what was decided where the paper is",
        "silent. This page is written by `docs/draw_gallery.py`.\n",
    ]  # fmt: skip
    paper = ""
    for name, entry in CATALOGUE.items():
        made[f"gallery/{name}.svg"] = draw(name, a_state(name), **SHOWN.get(name, {}))
        if entry.paper != paper:
            paper = entry.paper
            page.append(f"## From the paper on {paper}\n")
        parameters = ", ".join(f"`{one.name}` ({one.meaning})" for one in entry.parameters)
        given = SHOWN.get(name, {}).items()
        shown = " ".join([name, *(key if value is True else f"{key}={value}" for key, value in given)])
        page += [
            f"### {name}\n", f"{entry.summary.capitalize()}.\n", f"Parameters: {parameters}.\n",
            f"![{shown}](gallery/{name}.svg)\n",
        ]  # fmt: skip
    made["gallery.md"] = "\n".join(page)
    return made


if __name__ == "__main__":
    for path, text in files().items():
        write_whole(DOCS / path, text)
