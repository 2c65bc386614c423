"""The states in which nothing can happen, as a condition over the network's scalars."""

from __future__ import annotations

from polvet.model.expressions import Expression, negation
from polvet.model.infix import chained_operands
from polvet.model.network import Network


def deadlock_condition(network: Network) -> Expression:
    """Return the condition that no operator is enabled.

    It reads guards alone: where assignments that leave their bounds disable operators, it tells too few states.
    """
    enabled = [
        chained_operands(
            "∧", [chained_operands("∨", [network.edges[k].guard for k in edges]) for edges in joint.participants]
        )
        for joint in network.joints
    ]
    return negation(chained_operands("∨", enabled))
