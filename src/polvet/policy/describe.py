"""What a policy file holds, said in words: its kind, columns, units, arithmetic, and what was dropped behind its scores."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from polvet.errors import InputError
from polvet.policy.format import Content, Names
from polvet.policy.load import format_of
from polvet.policy.networks import Network
from polvet.policy.protocol import Policy
from polvet.policy.trees import TreeEnsemble
from polvet.policy.unit_graph import Affine, Unit, UnitGraph
from polvet.policy.units import UNITS, is_relu

ENCLOSURES = {
    "exact": "exact",
    "rounded": "one rounding",
    "plain": "within 2^-20",
    "size": "within 2^-20 max(1, |x|)",
    "value": "within 2^-20 max(1, |value|)",
    "relative": "within 2^-20 |value|",
}
SOFTMAX = {"softmax": "scores closer than 2^-20 max(1, |score|, distance to the best) count as near ties"}


@dataclass(frozen=True, slots=True)
class Description:
    """A policy in words; `facts` go from a short head to a sentence."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    facts: dict[str, str] = field(default_factory=dict)


def is_policy_file(path: str | Path) -> bool:
    """Return whether the bytes are those of a policy and of no model."""
    content = Content.of(path)
    try:
        return "automata" not in content.document and bool(format_of(content))
    except InputError:
        return False


def describe_policy(path: str | Path) -> Description:
    """Return what is in a policy's file."""
    content = Content.of(path)
    form = format_of(content)
    policy = form.read(content, Names())
    return Description(policy.inputs, policy.outputs, _facts(policy) | form.facts(content))


def _facts(policy: Policy) -> dict[str, str]:
    match policy:
        case Network():
            sizes = " x ".join(str(len(layer.bias)) for layer in policy.layers)
            facts = {"kind": f"a chain of linear layers ({sizes}) with ReLU", "sums": "float32, in any order"}
            return facts | (SOFTMAX if policy.softmax else {})
        case UnitGraph():
            weights = sum(node.weights.size for node in policy.nodes if isinstance(node, Affine))
            facts = {
                "kind": f"a graph of {len(policy.nodes)} nodes with {weights} weights",
                "sums": "float64, in any order; read as float32, with the rounding of each weight in the bounds"
                if policy.narrowed
                else "float32, in any order",
            }
            units = [node for node in policy.nodes if isinstance(node, Unit)]
            names = dict.fromkeys("relu" if is_relu(unit.name, unit.a, unit.b) else unit.name for unit in units)
            facts["units"] = ", ".join(f"{name} ({_enclosure(name)})" for name in names) or "none"
            return facts | (SOFTMAX if policy.softmax else {})
        case TreeEnsemble():
            return {"kind": f"{len(policy.trees)} trees", "sums": f"{policy.arithmetic}, in tree order"}
    return {"kind": type(policy).__name__}


def _enclosure(name: str) -> str:
    return ENCLOSURES["exact" if name == "relu" else UNITS[name].enclosure]
