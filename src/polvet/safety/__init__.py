"""Is this state safe? Whether some policy from it can never reach `fail`, decided and proved; it judges states, not policies."""

from polvet.safety.certificates import prove, prove_states
from polvet.safety.decide import ALGORITHMS, ORDERS, Decided, Decider, Verdict

__all__ = ["ALGORITHMS", "ORDERS", "Decided", "Decider", "Verdict", "prove", "prove_states"]
