"""What an accepted certificate says of a tiny world, as facts: a quantity and the values that it may have; and what the quantity is.

Two accepted certificates contradict each other where facts about one quantity leave no value; one is false where the quantity has another.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Fact:
    """The quantity lies between these, or with `strictly` above the least."""

    quantity: tuple
    least: Fraction
    most: Fraction
    strictly: bool = False

    def contradicts(self, other):
        """Whether no value is left by both."""
        least, most = max(self.least, other.least), min(self.most, other.most)
        strictly = any(one.strictly and one.least == least for one in (self, other))
        return least > most or (strictly and least == most)

    def holds(self, least, most):
        """Whether all values between these are left."""
        return self.least <= least and most <= self.most and not (self.strictly and self.least == least)


def yes(*quantity):
    return Fact(quantity, Fraction(1), Fraction(1))


def no(*quantity):
    return Fact(quantity, Fraction(0), Fraction(0))


def at_most(bound, *quantity):
    return Fact(quantity, Fraction(0), Fraction(bound))


def above(bound, *quantity):
    return Fact(quantity, Fraction(bound), Fraction(1), strictly=True)


def exactly(value, *quantity):
    return Fact(quantity, Fraction(value), Fraction(value))


def truth(tiny, quantity):
    """Return between which values the quantity lies; None where that takes too long. Errors of the model leave it open."""
    if quantity not in tiny.memo:
        tiny.memo[quantity] = _truth(tiny, *quantity)
    return tiny.memo[quantity]


def _truth(tiny, what, *about):
    match what:
        case "some start":
            return int(bool(tiny.starts)), int(bool(tiny.starts))
        case "a start":
            (state,) = about
            return int(state in tiny.starts), int(state in tiny.starts)
        case "avoidable":
            (state,) = about
            return int(state in tiny.safe), 1 - int(state in tiny.unsafe)
        case "goal in reach":
            (state,) = about
            return int(state in tiny.won), 1 - int(state in tiny.lost)
        case "least risk":
            (state,) = about
            low, high = tiny.least_risk(error=0), tiny.least_risk(error=1)
            return None if low is None else (low[state], high[state])
        case "policy risk":
            (state,) = about
            return tiny.policy_risk(error=0)[state], tiny.policy_risk(error=1)[state]
        case "policy may":
            end, state = about
            ends = tiny.policy_ends([state])
            return int(end in ends), int(end in ends or "error" in ends)
        case "reachable fail":
            (state,) = about
            found = any(tiny.fails(one) for one in tiny.reached([state], follow=False))
            return int(found), int(found)
        case "allowed risk":
            state, allowed = about
            value = tiny.allowed_risk(dict(allowed))
            return (2, 2) if value is None else (value[state], value[state])
        case "Pmax" | "Pmin":
            (state,) = about
            value = tiny.any_risk(least=what == "Pmin")
            return None if value is None else (value[state], value[state])
        case "bent":
            return 1, 1
    raise ValueError(what)


def facts_of(tiny, certificate):
    """Return what an accepted certificate says; one that nothing can be read from says what cannot be true."""
    try:
        return list(FACTS[certificate["kind"]](tiny, certificate))
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError):
        return [no("bent")]


def _state(tiny, named):
    """The state that is named, which must exist."""
    return tiny.place(named)


def _named(tiny, certificate):
    """The states in `states` that `start` names; a claim about no state is none."""
    found = [_state(tiny, certificate["states"][k]["state"]) for k in certificate["start"]]
    return found or [None]


def _about_states(make):
    def facts(tiny, certificate):
        yield from (make(state) if state is not None else no("bent") for state in _named(tiny, certificate))

    return facts


def _policy_is_safe(tiny, certificate, starts=None):
    if starts is None:
        starts = tiny.starts
        yield yes("some start")
    for state in starts:
        yield no("policy may", "fail", state)
        yield no("policy risk", state)
        yield no("policy may", "error", state)
        for end in certificate.get("avoids", []):
            yield no("policy may", end, state)


def _region(tiny, certificate):
    ((side, boxes),) = certificate["region"].items()

    def boxed(state):
        values = dict(zip("st", tiny.value(state), strict=True))
        return any(all(low <= values[name] <= high for name, (low, high) in box.items()) for box in boxes)

    starts = [s for s in tiny.starts if (boxed(s) if side == "in" else not boxed(s) and not tiny.fails(s))]
    if not starts:
        yield no("bent")
    if certificate["proof"]["kind"] == "safe-policy":
        yield from (yes("avoidable", state) for state in starts)
    else:
        yield from _policy_is_safe(tiny, certificate["proof"], starts)


def _run(tiny, certificate):
    states = [_state(tiny, named) for named in certificate["states"]]
    start, last = states[0], states[-1]
    if None in states:
        yield no("bent")
        return
    yield yes("a start", start)
    end = certificate["end"]
    if certificate.get("policy_sha256") is None:
        yield yes("reachable fail", start)
        return
    yield yes("policy may", end, start)
    if end == "fail":
        yield above(0, "policy risk", start)
        if not tiny.fails(last):
            yield no("bent")


def _risk_bound(tiny, certificate):
    yield yes("some start")
    yield from (at_most(certificate["bound"], "policy risk", state) for state in tiny.starts)


def _risk_exceeds(tiny, certificate):
    from polvet.records.packed import unpack_columns
    from polvet.sources import load_task

    states = unpack_columns(
        load_task(certificate["#task"]).network.variables, certificate["states"], certificate["count"]
    )
    state = tiny.place(dict(zip("st", states[certificate["start"]], strict=True)))
    yield yes("a start", state)
    yield above(certificate["bound"], "policy risk", state)


def _sure_end(tiny, certificate):
    yield from _policy_is_safe(tiny, certificate)
    yield from (no("policy may", "loop", state) for state in tiny.starts)


def _livelock(tiny, certificate):
    start = _state(tiny, certificate["states"][0])
    yield yes("a start", start)
    yield yes("policy may", "loop", start)


def _shield(tiny, certificate):
    yield yes("some start")
    bound = Fraction(certificate["bound"])
    allowed = {_state(tiny, row["state"]): tuple(row["allowed"]) for row in certificate["states"]}
    mixed = any("mixed" in row for row in certificate["states"])
    about = tuple(sorted(allowed.items(), key=repr))
    for state in tiny.starts:
        yield at_most(bound, "least risk", state)
        yield at_most(bound, "allowed risk", state, about)
    if certificate.get("values", "exact") == "exact" and not mixed:
        for row in certificate["states"]:
            yield exactly(row["value"], "allowed risk", _state(tiny, row["state"]), about)


def _action_risk(tiny, certificate):
    yield from _shield(tiny, certificate)
    if certificate.get("horizon") is None:
        for row in certificate["states"]:
            yield exactly(row["least"], "least risk", _state(tiny, row["state"]))


def _conflict(tiny, certificate):
    start = _state(tiny, certificate["start"])
    yield yes("a start", start)
    yield above(certificate["bound"], "least risk", start)


def _repair(tiny, certificate):
    """Each fault is listed with the scores that the policy has there, and what it takes is not the faulty action."""
    if not certificate["faults"] or (certificate["reading"] == "raw") != tiny.policy.raw:
        yield no("bent")
    for fault in certificate["faults"]:
        state = _state(tiny, fault["state"])
        labels = set() if state is None else {o.label for o in tiny.operators[state] if o.label is not None}
        taken = tiny.policy.choose(state, labels) if labels else None
        scores = {} if state is None else dict(zip(tiny.policy.outputs, tiny.policy.scores(state), strict=True))
        safe = certificate["mode"] == "avoid" or taken in fault["safe_actions"]
        if taken is None or taken == fault["action"] or not safe or fault["after"] != scores:
            yield no("bent")


def _avoidable(state):
    return yes("avoidable", state)


def _unavoidable(state):
    return no("avoidable", state)


FACTS = {
    "action-risk": _action_risk,
    "conflict": _conflict,
    "invariant": _policy_is_safe,
    "livelock": _livelock,
    "lost-projection": _about_states(_unavoidable),
    "no-strong-cyclic": _about_states(lambda state: no("goal in reach", state)),
    "permissive": _shield,
    "reachable-set": _policy_is_safe,
    "repair": _repair,
    "risk-bound": _risk_bound,
    "risk-exceeds": _risk_exceeds,
    "run": _run,
    "safe-policy": _about_states(_avoidable),
    "safe-region": _region,
    "strong-cyclic": _about_states(lambda state: yes("goal in reach", state)),
    "sure-end": _sure_end,
    "unsafe-rank": _about_states(_unavoidable),
    "won-projection": _about_states(_avoidable),
}
"""By kind: what it says of a world. Kinds about plans and real numbers are not about such worlds."""
