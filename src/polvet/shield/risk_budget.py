"""A risk budget that is spent along a run: the least risky actions are free, the others cost what they risk above the least.

least    m(s), the least risk from s; r(s, a), what the action risks when the least is risked ever after
price    r(s, a) - m(s): how much less safe the run becomes by it
budget   begins with bound - m(start); an action may be taken while the budget covers its price
SOUND: m and what is left of the budget together never grow on average: after an action m is expected to be at most r(s, a) = m(s) + price.
They begin with the bound, m is 1 where a run fails, and nothing is ever negative: so failing is at most the bound likely, however the
actions are chosen. The checker is `check/action_risk.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from polvet.errors import InputError
from polvet.shield.file import Shield


class RiskBudget:
    """What one run may still risk. Call `begin` with its first state, `allowed` in each, and `take` with each action.

    >>> risks = {(0,): {"go": Fraction(1, 5), "wait": Fraction(1, 10)}}
    >>> shield = Shield(("x",), {(0,): ("wait",)}, {(0,): Fraction(1, 10)}, Fraction(1, 4), {"rule": {"budget": "1/4"}}, {}, risks)
    >>> run = RiskBudget(shield)
    >>> run.begin({"x": 0}), run.allowed({"x": 0}), run.take({"x": 0}, "go"), run.allowed({"x": 0})
    (Fraction(3, 20), ('go', 'wait'), Fraction(1, 20), ('wait',))
    """

    def __init__(self, shield: Shield) -> None:
        if not shield.has_budget:
            raise InputError("the shield has no budget.", hint="Make one with polvet permit --budget.")
        self.shield = shield
        self.left = Fraction(0)

    def begin(self, state: Mapping[str, Any]) -> Fraction:
        """Return what a run from the state may pay."""
        self.left = max(Fraction(0), self.shield.bound - self.shield.risk(state))
        return self.left

    def prices(self, state: Mapping[str, Any]) -> Mapping[str | None, Fraction]:
        """Return what each applicable action costs there."""
        risks = self.shield.action_risks(state)
        least = min(risks.values(), default=Fraction(0))
        return {label: risk - least for label, risk in risks.items()}

    def allowed(self, state: Mapping[str, Any]) -> tuple[str | None, ...]:
        """Return the actions that what is left can pay for."""
        return tuple(label for label, price in self.prices(state).items() if price <= self.left)

    def take(self, state: Mapping[str, Any], action: str | None) -> Fraction:
        """Pay for the action and return what is left; an InputError where that is too little."""
        price = self.prices(state).get(action)
        if price is None or price > self.left:
            raise InputError(f"'{action}' is not allowed with {self.left} left.", hint="Ask allowed(state) first.")
        self.left -= price
        return self.left
