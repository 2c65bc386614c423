"""Pictures of a finite-memory policy as text: Graphviz and Mermaid."""

from __future__ import annotations

from polvet.policy.finite_memory.fmp import ALWAYS, Choice, Edge, FiniteMemoryPolicy


def to_graphviz(fmp: FiniteMemoryPolicy) -> str:
    """Return the policy as a Graphviz digraph; initial control states have a double border."""
    number = {state: index for index, state in enumerate(fmp.control_states)}
    lines = ["digraph fmp {", "  rankdir=LR;"]
    for state, index in number.items():
        border = ", peripheries=2" if state in fmp.initial else ""
        lines.append(f'  n{index} [label="{_quoted(state)}"{border}];')
    for edge in fmp.edges:
        label = _quoted(edge_label(edge))
        lines.append(f'  n{number[edge.source]} -> n{number[edge.target]} [label="{label}"];')
    return "\n".join([*lines, "}"]) + "\n"


def to_mermaid(fmp: FiniteMemoryPolicy) -> str:
    """Return the policy as a Mermaid flowchart; initial control states are round."""
    number = {state: index for index, state in enumerate(fmp.control_states)}
    lines = ["flowchart LR"]
    for state, index in number.items():
        text = _entities(state)
        lines.append(f'  n{index}(("{text}"))' if state in fmp.initial else f'  n{index}["{text}"]')
    for edge in fmp.edges:
        text = _entities(edge_label(edge))
        arrow = f'-- "{text}" -->' if text else "-->"
        lines.append(f"  n{number[edge.source]} {arrow} n{number[edge.target]}")
    return "\n".join(lines) + "\n"


def edge_label(edge: Edge) -> str:
    """Return what stands on the edge: guard, then each choice with its effects."""
    guard = "" if edge.guard == ALWAYS else " | ".join(" & ".join(str(atom) for atom in atoms) for atoms in edge.guard)
    choices = "; ".join(filter(None, (_choice_label(choice) for choice in edge.choices)))
    return " / ".join(filter(None, (guard, choices)))


def action_label(edge: Edge) -> str:
    """Return the actions of the edge, where each of its choices has one, as those of rules have; else nothing."""
    actions = [choice.action or "" for choice in edge.choices]
    return "; ".join(dict.fromkeys(actions)) if all(actions) else ""


def _choice_label(choice: Choice) -> str:
    effects = ", ".join(f"{name}{effect}" for name, effect in choice.effects.items())
    return ": ".join(filter(None, (choice.action or "", effects)))


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _entities(text: str) -> str:
    return text.replace("&", "#amp;").replace('"', "#quot;").replace("<", "#lt;").replace(">", "#gt;")
