"""Unsafe runs to be replayed step by step: a slider, buttons and arrow keys; a drawing and a table of the variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polvet.files import Json
from polvet.report.campaign import ShownFault, ShownRun
from polvet.report.markup import plural, section, show, text
from polvet.report.page import Part
from polvet.report.pictures import Pictures

MAX_RUNS = 60
MAX_STATES = 4_000


def replay_part(
    runs: Sequence[ShownRun], faults: Sequence[ShownFault], pictures: Pictures, *, title: str = "Unsafe runs"
) -> tuple[Part | None, Json]:
    """Return the section and the data the script replays; no section where there is no run."""
    shown = _chosen(runs)
    if not shown:
        return None, {"runs": []}
    variables = list(shown[0].states[0])
    at_fault = {_key(fault.state): fault for fault in faults}
    data = {
        "variables": variables,
        "runs": [
            {
                "states": [[show(state.get(name)) for name in variables] for state in run.states],
                "actions": list(run.actions),
                "safe": [_safe_actions(run, k, at_fault) for k in range(len(run.actions))],
                "end": run.end,
                "drawings": [pictures.add(state) for state in run.states],
            }
            for run in shown
        ],
    }
    options = "".join(
        f'<option value="{k}">{k + 1}: {plural(len(run.actions), "step")}, ends in {text(run.end)}'
        + ("" if run.iteration is None else f", policy after {plural(run.iteration, 'repair')}")
        + "</option>"
        for k, run in enumerate(shown)
    )
    left = ""
    if len(runs) > len(shown):
        left = f"<p>{plural(len(runs) - len(shown), 'run')} of {len(runs):,} are left out here; all are in the folder runs.</p>"
    body = f"""<p>Step through with the slider, the buttons or the arrow keys.</p>{left}
<div class="replay" id="replay"><div class="controls"><label>Run <select id="run">{options}</select></label></div>
<div class="controls"><button type="button" id="first">First</button><button type="button" id="back">Back</button>
<button type="button" id="play" aria-pressed="false">Play</button><button type="button" id="next">Next</button>
<button type="button" id="last">Last</button></div>
<label class="wide" for="step">Step <output id="step-number" for="step">0</output></label>
<input type="range" id="step" min="0" max="{len(shown[0].actions)}" value="0" step="1">
<p id="move" role="status"></p><div class="sides"><div><img class="drawing" id="drawing" alt="" hidden></div>
<div class="scroll" tabindex="0" role="region" aria-label="Variables in this step"><table><thead><tr><th scope="col">variable</th>
<th scope="col">value</th><th scope="col">before</th></tr></thead><tbody id="variables"></tbody></table></div></div></div>"""
    return Part("runs", title, section("runs", f"{title}, step by step", body)), data


def _chosen(runs: Sequence[ShownRun]) -> list[ShownRun]:
    """The shortest runs, in their order, as many as a page may hold."""
    ranked = sorted(range(len(runs)), key=lambda k: (len(runs[k].states), k))
    chosen: list[int] = []
    states = 0
    for k in ranked[:MAX_RUNS]:
        states += len(runs[k].states)
        if states > MAX_STATES:
            break
        chosen.append(k)
    return [runs[k] for k in chosen]


def _key(state: Any) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, repr(value)) for name, value in state.items()))


def _safe_actions(run: ShownRun, step: int, at_fault: dict[Any, ShownFault]) -> list[str] | None:
    """What would have been safe in a state that is a fault of this run; None where it is none."""
    fault = at_fault.get(_key(run.states[step]))
    return list(fault.safe_actions) if fault is not None and fault.action == run.actions[step] else None
