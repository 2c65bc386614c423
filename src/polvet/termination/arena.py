"""What a policy of a qualitative problem chooses among: control states, and in each the actions with what may follow.

A node is a pattern of the features; an option is an action. All outcomes of an option change numbers alike, so which it raises and
lowers are two sets, as bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from polvet.budget import UNLIMITED, Budget
from polvet.errors import LimitReached
from polvet.policy.finite_memory.features import ANY, DOWN, MAX_STATES, NOT_DOWN, UP, Pattern, Rule, outcomes
from polvet.policy.finite_memory.qnp import Problem, starts_of

Node = int
Choice = int
"""An option, by its number in the arena."""


@dataclass(frozen=True, slots=True)
class Option:
    """An action in a node: the nodes that may follow, and the numbers it raises and lowers."""

    node: Node
    action: str
    outcomes: tuple[Node, ...]
    raises: int
    lowers: int


@dataclass(frozen=True, slots=True)
class Arena:
    """The nodes that can be reached, the starts, the goal nodes, and the options of each node, most promising first."""

    nodes: tuple[Pattern, ...]
    starts: tuple[Node, ...]
    goals: frozenset[Node]
    options: tuple[Option, ...]
    choices: tuple[tuple[Choice, ...], ...]  # by node


def build_arena(problem: Problem, fixed: Sequence[Rule] = (), budget: Budget = UNLIMITED) -> Arena:
    """Return the arena of the problem; where a fixed rule is open, it is the only choice."""
    features = problem.features
    bit = {name: 1 << k for k, name in enumerate(features.names)}
    actions = [Rule((action.precondition,), action.changes, action.name) for action in problem.actions]
    effects = [
        (_bits(rule, features.names, bit, (UP, ANY, NOT_DOWN)), _bits(rule, features.names, bit, (DOWN,)))
        for rule in actions
    ]
    number: dict[Pattern, Node] = {pattern: k for k, pattern in enumerate(starts_of(problem))}
    starts = tuple(number.values())
    goals: set[Node] = set()
    options: list[Option] = []
    choices: list[tuple[Choice, ...]] = []
    agenda = list(number)
    for pattern in agenda:  # grows while it is read
        budget.check()
        here, first = number[pattern], len(options)
        if _holds(problem.goal, pattern):
            goals.add(here)
            choices.append(())
            continue
        open_ones = (rule for rule in fixed if any(_holds(c, pattern) for c in rule.conditions))
        wanted = next((rule.label for rule in open_ones if outcomes(features, rule, pattern)), None)
        for rule, (raises, lowers) in zip(actions, effects, strict=True):
            if not _holds(rule.conditions[0], pattern) or wanted not in (None, rule.label):
                continue
            after = [one for one, _ in outcomes(features, rule, pattern)]
            for one in after:
                if one not in number:
                    if len(number) >= MAX_STATES:
                        raise LimitReached(f"the problem has more than {MAX_STATES} control states")
                    number[one] = len(number)
                    agenda.append(one)
            if after:
                options.append(Option(here, rule.label, tuple(number[one] for one in after), raises, lowers))
        choices.append(tuple(range(first, len(options))))
    return _promising(Arena(tuple(number), starts, frozenset(goals), tuple(options), tuple(choices)))


def _holds(wanted: Mapping[int, bool], pattern: Pattern) -> bool:
    return all(pattern[index] == value for index, value in wanted.items())


def _bits(rule: Rule, names: Sequence[str], bit: dict[str, int], wanted: Sequence[str]) -> int:
    return sum(bit[names[index]] for index, change in rule.changes.items() if change in wanted)


def _promising(arena: Arena) -> Arena:
    """Return the arena with the options of a strong-cyclic policy only, those nearer to the goal first.

    SOUND: a policy that surely ends in the goal can reach it from wherever it comes, so it uses no other option.
    """
    before: list[list[Choice]] = [[] for _ in arena.nodes]
    for number, option in enumerate(arena.options):
        for node in set(option.outcomes):
            before[node].append(number)
    alive, distance = set(range(len(arena.nodes))), dict[Node, int]()
    while True:
        distance = dict.fromkeys(arena.goals & alive, 0)
        agenda = list(distance)
        for node in agenda:
            for number in before[node]:
                option = arena.options[number]
                if option.node not in distance and option.node in alive and alive.issuperset(option.outcomes):
                    distance[option.node] = distance[node] + 1
                    agenda.append(option.node)
        if len(distance) == len(alive):
            break
        alive = set(distance)

    def nearest(number: Choice) -> tuple[int, int]:
        outcome = [distance[node] for node in arena.options[number].outcomes]
        return max(outcome), min(outcome)

    usable = [
        tuple(sorted((c for c in some if alive.issuperset(arena.options[c].outcomes)), key=nearest)) if node in alive else ()
        for node, some in enumerate(arena.choices)
    ]  # fmt: skip
    return Arena(arena.nodes, arena.starts, arena.goals, arena.options, tuple(usable))
