"""The faults of a campaign as a page shows them: grouped by what was chosen and what was safe, each with its outcomes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polvet.report.campaign import ShownFault
from polvet.report.markup import plural, section, show, show_state, text
from polvet.report.page import Part
from polvet.report.pictures import Pictures
from polvet.report.repairs import BeforeAfter

MAX_FAULTS = 250
MAX_OUTCOMES = 3


def fault_part(
    faults: tuple[ShownFault, ...], compared: BeforeAfter | None, pictures: Pictures, drawings: list[Any]
) -> Part:
    """Return the section; `drawings` collects what the script draws when a fault is opened."""
    groups: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    for k, fault in enumerate(faults[:MAX_FAULTS]):
        groups.setdefault((fault.action, fault.safe_actions), []).append(k)
    ordered = sorted(groups.items(), key=lambda one: (-len(one[1]), one[0]))
    body = (
        "<p>A fault is a safe state on a run of the policy where the chosen action may lead to a state that no policy "
        "can keep safe any more.</p>"
    )
    if len(faults) > MAX_FAULTS:
        body += f"<p>{plural(len(faults) - MAX_FAULTS, 'fault')} of {len(faults):,} are left out here; all are in faults.json.</p>"
    if not faults:
        return Part("faults", "Faults", section("faults", "Faults", body + "<p>None was found.</p>"))
    iterations = sorted({fault.iteration for fault in faults})
    options = "".join(f'<option value="{k}">after {plural(k, "repair")}</option>' for k in iterations)
    body += (
        '<div class="controls"><label>Filter <input type="search" id="fault-filter" '
        f'placeholder="{text(_hint(faults[0]))}" '
        'autocomplete="off"></label><label>Found <select id="fault-iteration"><option value="">any time</option>'
        f'{options}</select></label><p id="fault-count" role="status">{plural(min(len(faults), MAX_FAULTS), "fault")}</p></div>'
    )
    for (action, safe), members in ordered:
        allowed = " or ".join(f"<code>{text(one)}</code>" for one in safe) or "nothing"
        cards = "".join(_card(k, faults[k], compared, pictures, drawings) for k in members)
        body += (
            f'<div class="group"><h3>chose <code class="bad">{text(action)}</code>, safe: {allowed} '
            f'<span class="count">{len(members)}</span></h3><div class="cards">{cards}</div></div>'
        )
    return Part("faults", "Faults", section("faults", "Faults", body))


def _card(number: int, fault: ShownFault, compared: BeforeAfter | None, pictures: Pictures, drawings: list[Any]) -> str:
    drawings.append(pictures.add(fault.state))
    image = ""
    if drawings[-1] is not None:
        alt = f"Drawing of the state {show_state(fault.state)}"
        image = f'<img class="drawing" data-drawing="{len(drawings) - 1}" alt="{text(alt)}">'
    after = ""
    if compared is not None and len(compared.choices) > 1:
        chosen = compared.choices[-1][number]
        word = "safe" if chosen in fault.safe_actions else "not in the list of safe actions"
        after = f"<p>The final policy chooses <code>{text(chosen or 'nothing')}</code> here: {word}.</p>"
    outcomes = fault.unsafe_outcomes[:MAX_OUTCOMES]
    more = len(fault.unsafe_outcomes) - len(outcomes)
    heads = "".join(
        f'<th scope="col">unsafe outcome{f" {k + 1}" if len(outcomes) > 1 else ""}</th>' for k in range(len(outcomes))
    )
    rows = "".join(
        f'<tr><th scope="row">{text(name)}</th><td>{text(value)}</td>{"".join(_outcome(one, name, value) for one in outcomes)}</tr>'
        for name, value in fault.state.items()
    )
    left = f"<p>{plural(more, 'more unsafe outcome')} left out.</p>" if more > 0 else ""
    table = (
        f'<div class="scroll" tabindex="0" role="region" aria-label="State of fault {number + 1}"><table>'
        f'<thead><tr><th scope="col">variable</th><th scope="col">state</th>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'
    )
    return (
        f'<details class="fault" data-iteration="{fault.iteration}"><summary><span class="number">{number + 1}</span> '
        f'{text(show_state(fault.state))}<span class="hidden"> {text(fault.action)}</span></summary>'
        f'<div class="body">{image}{table}{left}{after}</div></details>'
    )


def _hint(fault: ShownFault) -> str:
    name, value = next(iter(fault.state.items()), ("x", 3))
    return f"{name}={show(value)} or an action"


def _outcome(outcome: Mapping[str, Any], name: str, before: Any) -> str:
    value = outcome.get(name)
    changed = value != before
    arrow = f' <span class="from">from {text(show(before))}</span>' if changed else ""
    return f"<td{' class=changed' if changed else ''}>{text(value)}{arrow}</td>"
