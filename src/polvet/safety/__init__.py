"""Is this state safe? Whether some policy from it can never reach `fail`, decided and proved; it judges states, not policies."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from polvet.safety.algorithms import ALGORITHMS, ORDERS

if TYPE_CHECKING:
    from polvet.safety.certificates import prove, prove_states
    from polvet.safety.decide import Decided, Decider
    from polvet.verdict import Verdict

__all__ = ["ALGORITHMS", "ORDERS", "Decided", "Decider", "Verdict", "prove", "prove_states"]


def __getattr__(name: str) -> Any:
    """Return a public name from its module, at first use: a help page that lists the algorithms imports no kernel."""
    if name in __all__:
        return getattr(import_module(f"polvet.safety.{'certificates' if name.startswith('prove') else 'decide'}"), name)
    raise AttributeError(f"module 'polvet.safety' has no attribute '{name}'")
