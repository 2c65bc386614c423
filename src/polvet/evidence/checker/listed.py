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

from . import regions
from .policies import Chooser
from .text import Rejected, Unreadable
from .world import ModelFault, Outcomes, State, World

Label: TypeAlias = str | None
Choices: TypeAlias = dict[Label, list[Outcomes]]
"""By label the moves of which one happens if it is chosen; None is the pseudo-action."""
Evidence: TypeAlias = Mapping[str, Any]
Reading: TypeAlias = Mapping[str, Callable[[Any], Any]]  # what is said of states, and how it is read


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
        """Return what is said of each state under a name: in a list beside the states, or by each."""
        values = self.said[name] if name in self.said else self.evidence.get(name)
        if not isinstance(values, list) or len(values) != len(self.states):
            raise Unreadable(f"'{name}' does not say something of each of {len(self.states)} states")
        known = {value: read(value) for value in {*values}} if read is probability else {}  # numbers repeat
        return [known[value] if known else read(value) for value in values]

    def count(self, obligation: str, times: int = 1) -> None:
        """Write down that an obligation was discharged."""
        self.done[obligation] = self.done.get(obligation, 0) + times

    def reject(self, obligation: str, k: int, why: str) -> Rejected:
        """Return a rejection with its place."""
        return Rejected(f"{obligation}: states[{k}] ({self.world.show(self.states[k])}) {why}")


def natural(value: Any) -> int:
    """Return a natural number."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise Unreadable(f"{str(value)[:60]} is not a natural number")
    return value


def fraction(value: Any) -> Fraction:
    """Return the exact number that a text such as 3/25, or an integer, is."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise Unreadable(f"{str(value)[:60]} is not a fraction written as text")
    try:
        return Fraction(value)
    except (ValueError, ZeroDivisionError):
        raise Unreadable(f"{str(value)[:60]} is not a fraction") from None


def probability(value: Any) -> Fraction:
    """Return a number from 0 to 1."""
    if not 0 <= (number := fraction(value)) <= 1:
        raise Rejected(f"{str(value)[:60]} is not a probability")
    return number


def label_or_none(value: Any) -> Label:
    """Return a label, or None for the pseudo-action and where runs end."""
    if value is not None and not isinstance(value, str):
        raise Unreadable(f"{str(value)[:60]} is not a label")
    return value


def labels(value: Any) -> list[Label]:
    """Return a list of labels."""
    if not isinstance(value, list):
        raise Unreadable(f"{str(value)[:60]} is not a list of labels")
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
    enough = any if the.world.is_fair else all
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
    return total / sum((weight for weight, _ in outcomes), Fraction(0))


def at_most(the: List, k: int, label: Label, moves: Sequence[Outcomes]) -> None:
    """No move is expected to have more than the state's value."""
    value = the.said["value"]
    for outcomes in moves:
        if (expected := mean(the, k, outcomes, value)) > value[k]:
            raise the.reject("values", k, f"has the value {value[k]}, a move under {label} {expected}")


def leads_on(the: List, k: int, outcomes: Outcomes, value: Sequence[Fraction]) -> bool:
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
    if value[k] and not any(leads_on(the, k, outcomes, value) for outcomes in moves):
        raise the.reject(
            "values", k, f"has under {label} no move that keeps its value {value[k]} and may lower its rank"
        )


ANY: Any = object()
"""Nothing is asked of a state that ends runs. Else: None, it may not be listed; a number, its value is that."""


@dataclass(frozen=True)
class Kind:
    """A row: who chooses, what may end a run, what holds of each choice, what the claim is about."""

    who: str  # "policy", "everybody", or what is said of the states and names the labels
    fail: Any
    goal: Any
    ended: Any  # a deadlock, or a policy that is stuck; where the meaning avoids it, it is as `fail`
    holds: Callable[[List, int, Label, Sequence[Outcomes]], None]
    starts: str  # "all" start states, the "named" states, or the one "start" state that is named
    columns: Reading
    claim: str


ACTION: Reading = {"action": label_or_none}
ALLOWED: Reading = {"allowed": labels}
RANK: Reading = {"rank": natural}
VALUE: Reading = {"value": probability}
KINDS: dict[str, Kind] = {
    # kind: who chooses, at fail states, at the goal, where runs end otherwise, what holds of a choice, starts, what is said of states
    "safe-policy": Kind("action", None, ANY, ANY, closed, "named", ACTION, "from {start} some policy never reaches fail"),
    "reachable-set": Kind("policy", None, ANY, ANY, closed, "all", {}, "the policy never reaches fail"),
    "unsafe-rank": Kind("everybody", ANY, None, None, falls, "named", RANK, "from {start} no policy avoids fail"),
    "strong-cyclic": Kind("action", None, ANY, None, closed_and_falls, "named", {**ACTION, **RANK},
        "from {start} some policy never reaches fail, and from wherever it comes it reaches the goal"),
    "no-strong-cyclic": Kind("everybody", ANY, None, ANY, falls_or_stays, "named", RANK,
        "every policy from {start} may come where it never reaches the goal"),
    "sure-end": Kind("policy", None, ANY, ANY, closed_and_falls, "all", RANK,
        "runs of the policy end with probability 1, never in fail"),
    "permissive": Kind("allowed", 1, ANY, ANY, at_most, "all", {**ALLOWED, **VALUE},
        "every run of allowed actions fails with probability at most {bound}"),
    "risk-bound": Kind("policy", 1, ANY, ANY, at_most, "all", VALUE,
        "the policy fails with probability at most {bound}"),
    "risk-exceeds": Kind("policy", ANY, 0, 0, at_least, "start", {**VALUE, **RANK},
        "from {start} the policy may fail with probability above {bound}"),
    "conflict": Kind("everybody", ANY, 0, 0, at_least, "start", {**VALUE, **RANK},
        "from {start} every policy{taken} fails with probability above {bound}"),
}  # fmt: skip


def check_listed(world: World, evidence: Evidence, kind: str) -> tuple[str, dict[str, int]]:
    """Return the claim that the list shows, and how often each obligation was discharged.

    Where the world was told to look at some states only, another checker has judged the others, and the start states.
    """
    row = KINDS[kind]
    # SOUND: that runs end is shown by ranks that fall; what is closed alone, or only bounds a risk, may go on for ever.
    if "loop" in world.avoided and row.holds in (closed, at_most):
        raise Rejected(f"ends of runs: a {kind} does not show that runs end, which the meaning asks for")
    the = List.of(world, evidence, Chooser(world) if row.who == "policy" else None)
    for column, read in row.columns.items():
        the.said[column] = the.column(column, read)
    has_taken = "taken" in the.said or "taken" in evidence
    taken = the.column("taken", label_or_none) if has_taken else [None] * len(the.states)
    for k in range(len(the.states)) if world.only is None else world.only:
        _check_state(the, row, k, the.states[k], taken[k])
    words = {"start": _check_starts(the, row), "bound": str(evidence.get("bound")), "taken": ""}
    if number := sum(label is not None for label in taken):
        words["taken"] = f" that takes {number} named actions"
    return row.claim.format(**words), the.done


def _check_state(the: List, row: Kind, k: int, state: State, taken: Label) -> None:
    world, avoided = the.world, the.world.avoided
    try:
        # SOUND: fail is asked first, so that it beats goal.
        if world.is_fail(state):
            return _end(the, k, row.fail)
        if world.is_goal(state):
            return _end(the, k, row.goal)
        choices = choices_of(world, state)
        the.count("model errors")
        if not choices:
            return _end(the, k, row.fail if "deadlock" in avoided else row.ended)
        chosen, stuck = _chosen(the, row, k, choices)
    except ModelFault as fault:
        raise Rejected(f"model errors: {fault}") from None
    if stuck:
        _end(the, k, row.fail if "stuck" in avoided else row.ended)
    if the.chooser is not None and row.starts == "start" and (len(chosen) > 1 or (stuck and chosen)):
        raise the.reject("ties", k, "is where the policy's choice is not certain")
    for label in [taken] if taken is not None else chosen:
        if label not in choices:
            raise the.reject("labels", k, f"does not have the choice {label}")
        the.count("labels")
        row.holds(the, k, label, choices[label])


def _end(the: List, k: int, wanted: Any) -> None:
    the.count("ends of runs")
    if wanted is None:
        raise the.reject("ends of runs", k, "ends runs as the claim says none does")
    if wanted is not ANY and the.said["value"][k] != wanted:
        raise the.reject("ends of runs", k, f"ends runs, yet its value is {the.said['value'][k]}, not {wanted}")


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
    if row.starts == "all" and world.only is not None:
        return "every start"
    if row.starts == "all":
        count = 0
        for state in world.starts() if "region" not in the.evidence else regions.among(world, the.evidence["region"]):
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
