"""Evidence that lists states, with something said of each: what must hold there, by kind.

Every listed state is looked at once. It is a fail state, or a goal state, or nothing is enabled, or the policy is stuck, or
runs go on: then each choice that may be made there has to hold. A kind is a row of `KINDS`; the rows differ in who chooses, in
what may end a run, and in what holds of a choice:
  closed   all its outcomes are listed
  falls    some outcome has a smaller rank
  value    the mean of its outcomes' values is at most the state's; or at least, with a falling rank
SOUND: what is said of states that are listed in vain is checked as well, and an error of the model in a listed state where runs go
on rejects: so an accepted list is true of every run, whoever made it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeAlias

from .policies import Chooser
from .text import Rejected, Unreadable, show
from .world import ModelFault, State, World

Label: TypeAlias = str | None
Outcomes: TypeAlias = list[tuple[int | Fraction, State]]
Choices: TypeAlias = dict[Label, list[Outcomes]]
"""By label the moves of which one happens if it is chosen; None is the pseudo-action."""
Evidence: TypeAlias = Mapping[str, Any]


def choices_of(world: World, state: State) -> Choices:
    """Return what may be chosen in a state where runs go on, and the moves that may follow; nothing: a deadlock."""
    moves = world.moves(state)
    silent = [outcomes for label, outcomes in moves if label is None]
    choices: Choices = {}
    for label, outcomes in moves:
        if label is not None:
            choices.setdefault(label, list(silent)).append(outcomes)
    return choices or ({None: silent} if silent else {})


@dataclass
class List:
    """The states of the evidence, with what is said of each, and what was discharged so far."""

    world: World
    evidence: Evidence
    states: list[State]
    place: dict[State, int]
    chooser: Chooser | None
    done: dict[str, int] = field(default_factory=dict)
    said: dict[str, list[Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, world: World, evidence: Evidence, chooser: Chooser | None, key: str = "states") -> List:
        """Return the list that stands under the key."""
        items = evidence.get(key)
        if not isinstance(items, list):
            raise Unreadable(f"'{key}' is not a list of states")
        rows = [item["state"] if isinstance(item, dict) and "state" in item else item for item in items]
        states = [world.checked(row) for row in rows]
        place = {state: k for k, state in enumerate(states)}
        if len(place) < len(states):
            raise Rejected("a state is listed twice")
        made = cls(world, evidence, states, place, chooser)
        for k, item in enumerate(items):
            if isinstance(item, dict) and "state" in item:
                for name, value in item.items():
                    made.said.setdefault(name, [None] * len(items))[k] = value
        return made

    def column(self, name: str, read: Callable[[Any], Any]) -> list[Any]:
        """Return what is said of each state under a name: a list beside the states, or a key of each."""
        values = self.said[name] if name in self.said else self.evidence.get(name)
        if not isinstance(values, list) or len(values) != len(self.states):
            raise Unreadable(f"'{name}' does not say something of each of {len(self.states)} states")
        known: dict[Any, Any] = {}
        return [known[v] if isinstance(v, str) and v in known else known.setdefault(v, read(v)) if isinstance(v, str) else read(v) for v in values]

    def count(self, obligation: str, times: int = 1) -> None:
        """Write down that an obligation was discharged."""
        self.done[obligation] = self.done.get(obligation, 0) + times

    def reject(self, obligation: str, k: int, why: str) -> Rejected:
        """Return a rejection with its place."""
        return Rejected(f"{obligation}: states[{k}] ({self.world.show(self.states[k])}) {why}")


def natural(value: Any) -> int:
    """Return a natural number."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise Unreadable(f"{show(value)} is not a natural number")
    return value


def fraction(value: Any) -> Fraction:
    """Return the exact number that a text such as 3/25, or an integer, is."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise Unreadable(f"{show(value)} is not a fraction written as text")
    try:
        return Fraction(value)
    except (ValueError, ZeroDivisionError):
        raise Unreadable(f"{show(value)} is not a fraction") from None


def probability(value: Any) -> Fraction:
    """Return a number from 0 to 1."""
    if not 0 <= (number := fraction(value)) <= 1:
        raise Rejected(f"{show(value)} is not a probability")
    return number


def label_or_none(value: Any) -> Label:
    """Return a label, or None for the pseudo-action and where runs end."""
    if value is not None and not isinstance(value, str):
        raise Unreadable(f"{show(value)} is not a label")
    return value


def labels(value: Any) -> list[Label]:
    """Return a list of labels."""
    if not isinstance(value, list):
        raise Unreadable(f"{show(value)} is not a list of labels")
    return [label_or_none(label) for label in value]


# -- what may hold of a choice: (list, k, label, its moves)


def closed(the: List, k: int, label: Label, moves: Sequence[Outcomes]) -> None:
    """All outcomes are listed."""
    for outcomes in moves:
        for _, after in outcomes:
            if after not in the.place:
                raise the.reject("outcomes", k, f"may lead to {the.world.show(after)}, which is not listed")


def _smaller(the: List, rank: Sequence[int], k: int, outcomes: Outcomes) -> bool:
    return any(after in the.place and rank[the.place[after]] < rank[k] for _, after in outcomes)


def falls(the: List, k: int, label: Label, moves: Sequence[Outcomes]) -> None:
    """Some outcome of some move has a smaller rank."""
    if not any(_smaller(the, the.said["rank"], k, outcomes) for outcomes in moves):
        raise the.reject("ranks", k, f"has no outcome of smaller rank under {label}")


def closed_and_falls(the: List, k: int, label: Label, moves: Sequence[Outcomes]) -> None:
    """All outcomes are listed; with a fair environment some move, with an adversarial one every move, may lower the rank."""
    closed(the, k, label, moves)
    enough = any if the.world.says("environment", "adversarial", "fair") == "fair" else all
    if not enough(_smaller(the, the.said["rank"], k, outcomes) for outcomes in moves):
        raise the.reject("ranks", k, f"has a choice, {label}, after which the rank need not fall")


def falls_or_stays(the: List, k: int, label: Label, moves: Sequence[Outcomes]) -> None:
    """Some outcome has a smaller rank, or all are listed with the same."""
    rank = the.said["rank"]
    if not any(_smaller(the, rank, k, outcomes) for outcomes in moves) and not all(
        after in the.place and rank[the.place[after]] == rank[k] for outcomes in moves for _, after in outcomes
    ):
        raise the.reject("ranks", k, f"leads under {label} neither to a smaller round nor to the same alone")


def mean(the: List, k: int, outcomes: Outcomes, value: Sequence[Fraction]) -> Fraction:
    """Return what is expected of the values after a move; all outcomes are listed."""
    total = Fraction(0)
    for weight, after in outcomes:
        if after not in the.place:
            raise the.reject("outcomes", k, f"may lead to {the.world.show(after)}, which is not listed")
        total += weight * value[the.place[after]]
    return total / sum(weight for weight, _ in outcomes)


def at_most(the: List, k: int, label: Label, moves: Sequence[Outcomes]) -> None:
    """No move is expected to have more than the state's value."""
    value = the.said["value"]
    for outcomes in moves:
        if (expected := mean(the, k, outcomes, value)) > value[k]:
            raise the.reject("values", k, f"has the value {value[k]}, a move under {label} {expected}")


def _leads_on(the: List, k: int, outcomes: Outcomes, value: Sequence[Fraction]) -> bool:
    """Return whether a move loses nothing of the value and may lower the rank; what is not listed ends the run there."""
    rank, total, nearer = the.said["rank"], Fraction(0), False
    for weight, after in outcomes:
        if (place := the.place.get(after)) is None:
            total += weight * the.world.is_fail(after)
            nearer = True
        else:
            total += weight * value[place]
            nearer |= rank[place] < rank[k] or value[place] == 0
    return nearer and total >= value[k] * sum(weight for weight, _ in outcomes)


def at_least(the: List, k: int, label: Label, moves: Sequence[Outcomes]) -> None:
    """One move is expected to have the state's value at least, and may lower the rank; a value 0 asks for nothing."""
    value = the.said["value"]
    if value[k] and not any(_leads_on(the, k, outcomes, value) for outcomes in moves):
        raise the.reject("values", k, f"has under {label} no move that keeps its value {value[k]} and may lower its rank")


# -- what is said where runs end: (list, k)


def never(the: List, k: int) -> None:
    """Such a state may not be listed."""
    raise the.reject("ends of runs", k, "ends runs as the claim says none does")


def fine(the: List, k: int) -> None:
    """Nothing is asked."""


def worth_one(the: List, k: int) -> None:
    """Its value is 1."""
    if the.said["value"][k] != 1:
        raise the.reject("values", k, f"is a fail state of value {the.said['value'][k]}, not 1")


def worth_nothing(the: List, k: int) -> None:
    """Its value is 0."""
    if the.said["value"][k] != 0:
        raise the.reject("values", k, f"ends runs without failing, yet its value is {the.said['value'][k]}")


At: TypeAlias = Callable[[List, int], None]


@dataclass(frozen=True)
class Kind:
    """A row: who chooses, what may end a run, what holds of each choice, which starts the claim is about."""

    claim: str
    who: str  # "policy", "everybody", or the name of a column that says which labels
    fail: At
    goal: At
    ended: At  # a deadlock, or a policy that is stuck; where the meaning avoids it, it is as `fail`
    holds: Callable[[List, int, Label, Sequence[Outcomes]], None]
    starts: str  # "all" start states, or those that "start" names by their places
    columns: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    certain: bool = False  # whether the policy has to choose for certain


RANK, VALUE = {"rank": natural}, {"value": probability}
KINDS: dict[str, Kind] = {
    "safe-policy": Kind("from {start} some policy never reaches fail", "action", never, fine, fine, closed, "named", {"action": label_or_none}),
    "reachable-set": Kind("the policy never reaches fail", "policy", never, fine, fine, closed, "all"),
    "unsafe-rank": Kind("from {start} no policy avoids fail", "everybody", fine, never, never, falls, "named", RANK),
    "strong-cyclic": Kind(
        "from {start} some policy never reaches fail, and the goal stays in reach wherever it comes",
        "action", never, fine, never, closed_and_falls, "named", {"action": label_or_none} | RANK,
    ),
    "no-strong-cyclic": Kind(
        "every policy from {start} may come where it never reaches the goal", "everybody", fine, never, fine, falls_or_stays, "named", RANK
    ),
    "sure-end": Kind("runs of the policy end with probability 1, never in fail", "policy", never, fine, fine, closed_and_falls, "all", RANK),
    "permissive": Kind(
        "every run of allowed actions fails with probability at most {bound}",
        "allowed", worth_one, fine, fine, at_most, "all", {"allowed": labels} | VALUE,
    ),
    "risk-bound": Kind("the policy fails with probability at most {bound}", "policy", worth_one, fine, fine, at_most, "all", VALUE),
    "risk-exceeds": Kind(
        "from {start} the policy may fail with probability above {bound}",
        "policy", fine, worth_nothing, worth_nothing, at_least, "start", VALUE | RANK, certain=True,
    ),
    "conflict": Kind(
        "from {start} every policy{taken} fails with probability above {bound}",
        "everybody", fine, worth_nothing, worth_nothing, at_least, "start", VALUE | RANK,
    ),
}  # fmt: skip
"""`action-risk` and `livelock` are `permissive` and a closed set with more to it: `check_action_risk`, and `paths`."""


def check_listed(world: World, evidence: Evidence, kind: str) -> tuple[str, dict[str, int]]:
    """Return the claim that the list shows, and how often each obligation was discharged."""
    row = KINDS[kind]
    the = List.of(world, evidence, Chooser(world) if row.who == "policy" else None)
    for column, read in row.columns.items():
        the.said[column] = the.column(column, read)
    taken = [label_or_none(label) for label in the.said.get("taken", [])] or [None] * len(the.states)
    for k, state in enumerate(the.states):
        _check_state(the, row, k, state, taken[k])
    words = {"start": _check_starts(the, row), "bound": str(evidence.get("bound")), "taken": ""}
    if number := sum(label is not None for label in taken):
        words["taken"] = f" that takes {number} named actions"
    return row.claim.format(**words), the.done


def _check_state(the: List, row: Kind, k: int, state: State, taken: Label) -> None:
    world = the.world
    try:
        # SOUND: fail is asked first, so that it beats goal.
        if world.is_fail(state):
            the.count("fail states")
            return row.fail(the, k)
        if world.is_goal(state):
            the.count("ends of runs")
            return row.goal(the, k)
        choices = choices_of(world, state)
        the.count("model errors")
        if not choices:
            return _end(the, row, k, "deadlock")
        chosen, stuck = _chosen(the, row, k, choices)
    except ModelFault as fault:
        raise Rejected(f"model errors: {fault}") from None
    if stuck:
        _end(the, row, k, "stuck")
    if row.certain and (len(chosen) > 1 or (stuck and chosen)):
        raise the.reject("ties", k, "is where the policy's choice is not certain")
    for label in [taken] if taken is not None else chosen:
        if label not in choices:
            raise the.reject("labels", k, f"does not have the choice {label}")
        the.count("labels")
        row.holds(the, k, label, choices[label])


def _end(the: List, row: Kind, k: int, how: str) -> None:
    the.count("ends of runs")
    (row.fail if how in the.world.meaning.get("avoid", ()) else row.ended)(the, k)


def _chosen(the: List, row: Kind, k: int, choices: Choices) -> tuple[list[Label], bool]:
    """Return the labels that have to hold, and whether the policy may be stuck."""
    if row.who == "everybody":
        return list(choices), False
    if the.chooser is not None:
        if None in choices:
            return [None], False
        found, stuck = the.chooser.choose(the.states[k], choices.keys())
        the.count("ties", len(found) > 1)
        return list(found), stuck
    said = the.said[row.who][k]
    chosen = said if isinstance(said, list) else [said]
    if not chosen:
        raise the.reject("labels", k, "lists no choice, yet runs go on there")
    return chosen, False


def _check_starts(the: List, row: Kind) -> str:
    """Return the start states in words, once all that the claim is about are found to be listed, within its bound."""
    world, value = the.world, the.said.get("value")
    bound = probability(the.evidence.get("bound")) if value is not None else None
    if row.starts == "all":
        count = 0
        for state in starts_of(world, the.evidence):
            if (place := the.place.get(state)) is None:
                raise Rejected(f"starts: {world.show(state)} is not listed")
            if value is not None and bound is not None and value[place] > bound:
                raise Rejected(f"starts: {world.show(state)} has the value {value[place]}, above {bound}")
            count += 1
        if not count:
            raise Rejected("starts: there is none, so that nothing is claimed")
        the.count("starts", count)
        return "every start"
    places = the.evidence.get("start")
    places = [places] if row.starts == "start" else places
    if not isinstance(places, list) or not places or any(natural(place) >= len(the.states) for place in places):
        raise Unreadable("'start' does not name places of listed states")
    for place in places:
        if row.starts == "start" and not world.is_start(the.states[place]):
            raise the.reject("starts", place, "is not a start state")
        if value is not None and bound is not None and value[place] <= bound:
            raise the.reject("values", place, f"has the value {value[place]}, which is not above {bound}")
    the.count("starts", len(places))
    return world.show(the.states[places[0]]) + (f" and {len(places) - 1} more" if len(places) > 1 else "")


def starts_of(world: World, evidence: Evidence) -> Any:
    """Return the start states that the claim is about: all, or those in a region of boxes."""
    region = evidence.get("region")
    if region is None:
        return world.starts()
    inside, boxes = read_region(world, region)

    def is_in(state: State) -> bool:
        boxed = any(all(low <= state[place] <= high for place, low, high in box) for box in boxes)
        return boxed if inside else not (boxed or world.is_fail(state))

    return filter(is_in, world.starts())


def read_region(world: World, region: Any) -> tuple[bool, list[list[tuple[int, Any, Any]]]]:
    """Return whether the region is in the boxes or outside of all, and the boxes: places with their ends."""
    if not isinstance(region, dict) or len(region) != 1 or not region.keys() <= {"in", "out"}:
        raise Unreadable('\'region\' is neither {"in": boxes} nor {"out": boxes}')
    ((side, boxes),) = region.items()
    found = []
    for box in boxes if isinstance(boxes, list) else [None]:
        ends = []
        for key, pair in box.items() if isinstance(box, dict) else [("", None)]:
            if key not in world.names or not isinstance(pair, list) or len(pair) != 2:
                raise Unreadable("a box of 'region' does not give two ends of variables")
            if any(isinstance(end, bool) or not isinstance(end, int | float) for end in pair):
                raise Unreadable("an end of a box of 'region' is not a number")
            ends.append((world.names.index(key), *pair))
        found.append(ends)
    return side == "in", found


# -- shields that allow exactly what a rule says


def check_shield(world: World, evidence: Evidence, kind: str) -> tuple[str, dict[str, int]]:
    """Return the claim of a shield: `permissive` as listed, with mixtures and attained values; `action-risk` with its rule."""
    the = List.of(world, evidence, None)
    claim, done = check_listed(world, evidence, "permissive")
    value, allowed = the.column("value", probability), the.column("allowed", labels)
    the.said["value"] = value
    if "mixed" in the.said:
        _check_mixtures(the, value)
    if "rank" in the.said or "rank" in evidence:
        the.said["rank"] = the.column("rank", natural)
        _check_attained(the, allowed)
        claim += "; the listed values are attained"
    if kind == "action-risk":
        claim += _check_rule(the, evidence, allowed)
    return claim, done


def _check_mixtures(the: List, value: Sequence[Fraction]) -> None:
    """SOUND: only where a label is one operator and nothing else moves does a mixture of labels mix their outcomes."""
    for k, mixtures in enumerate(the.said["mixed"]):
        for mixture in mixtures or ():
            state = the.states[k]
            choices = {} if the.world.is_fail(state) or the.world.is_goal(state) else choices_of(the.world, state)
            shares = {label: probability(share) for label, share in mixture.items()}
            if sum(shares.values()) != 1 or not all(len(choices.get(label, ())) == 1 for label in shares):
                raise the.reject("mixtures", k, "mixes labels that do not have one operator each, or shares that do not sum to 1")
            if sum(share * mean(the, k, choices[label][0], value) for label, share in shares.items()) > value[k]:
                raise the.reject("mixtures", k, "has a mixture that is expected to fail with more than its value")


def _check_attained(the: List, allowed: Sequence[list[Label]]) -> None:
    """Raise Rejected unless following allowed labels some run has each value: no move loses any, and ranks fall to fail states."""
    value = the.said["value"]
    for k, state in enumerate(the.states):
        if value[k] and not the.world.is_fail(state):
            choices = {} if the.world.is_goal(state) else choices_of(the.world, state)
            moves = [outcomes for label in allowed[k] for outcomes in choices.get(label, ())]
            if not any(_leads_on(the, k, outcomes, value) for outcomes in moves):
                raise the.reject("values", k, f"does not attain its value {value[k]} by an allowed choice of falling rank")


def _check_rule(the: List, evidence: Evidence, allowed: Sequence[list[Label]]) -> str:
    rule, horizon = evidence.get("rule"), evidence.get("horizon")
    if not isinstance(rule, dict) or len(rule) != 1 or not rule.keys() <= {"per-state", "relative", "budget"}:
        raise Unreadable("'rule' is not 'per-state', 'relative' or 'budget' with a threshold")
    ((name, threshold),) = ((name, probability(value)) for name, value in rule.items())
    if name == "budget" and (horizon is not None or threshold != probability(evidence.get("bound"))):
        raise Rejected("rule: a budget has no horizon, and is the bound")
    world, states = the.world, the.states
    choices = [{} if world.is_fail(s) or world.is_goal(s) else choices_of(world, s) for s in states]
    least = the.column("least", probability)
    later = least if horizon is None else _within(the, choices, natural(horizon) - 1)
    for k, state in enumerate(states):
        risks = {label: max(mean(the, k, outcomes, later) for outcomes in moves) for label, moves in choices[k].items()}
        if least[k] != min(risks.values(), default=Fraction(world.is_fail(state))):
            raise the.reject("risks", k, f"does not have the least risk {least[k]}")
        limit = {"per-state": max(threshold, least[k]), "relative": 1 - threshold * (1 - least[k]), "budget": least[k]}[name]
        if sorted(map(str, allowed[k])) != sorted(str(label) for label, risk in risks.items() if risk <= limit):
            raise the.reject("labels", k, "does not allow exactly what the rule says")
        if horizon is None and least[k] and choices[k]:
            for label, moves in choices[k].items():
                if not any(_leads_on(the, k, outcomes, least) for outcomes in moves):
                    raise the.reject("risks", k, f"need not have the risk {least[k]} under {label}")
    within = "" if horizon is None else f" within {horizon} steps"
    return {
        "per-state": f"; exactly the actions are allowed of risk at most {threshold}{within}, or the least there is",
        "relative": f"; exactly the actions are allowed that keep {threshold} of the best chance of not failing{within}",
        "budget": f"; who pays for each action what it risks above the least, out of the bound, fails with at most {threshold}",
    }[name]


def _within(the: List, choices: Sequence[Choices], steps: int) -> list[Fraction]:
    """Return the least probability of failing within so many steps, by backward induction."""
    now = [Fraction(the.world.is_fail(state)) for state in the.states]
    for _ in range(steps):
        now = [
            min(max(mean(the, k, outcomes, now) for outcomes in moves) for moves in mine.values()) if mine else now[k]
            for k, mine in enumerate(choices)
        ]
    return now


# -- repairs


def check_repair(world: World, evidence: Evidence, kind: str) -> tuple[str, dict[str, int]]:
    """Return the claim that in each listed fault the policy takes another action: with the mode "safe" one of the safe ones."""
    faults, chooser, mode = evidence.get("faults"), Chooser(world), evidence.get("mode")
    if not isinstance(faults, list) or mode not in ("safe", "avoid"):
        raise Unreadable("'faults' is not a list, or 'mode' neither safe nor avoid")
    if not faults:
        raise Rejected("faults: there is none, so that nothing is claimed")
    for k, fault in enumerate(faults):
        state, action, safe = world.checked(fault["state"]), label_or_none(fault["action"]), labels(fault["safe_actions"])
        choices = choices_of(world, state)
        chosen, stuck = chooser.choose(state, choices.keys())
        if stuck or action in chosen or action in safe or (mode == "safe" and not set(chosen) <= set(safe)):
            raise Rejected(f"choices: faults[{k}] ({world.show(state)}): the policy takes {chosen or 'nothing'}{' or is stuck' * stuck}")
    what = "takes a listed safe action" if mode == "safe" else "does not take the faulty action"
    return f"the policy {what} in each of {len(faults)} faults", {"choices": len(faults)}
