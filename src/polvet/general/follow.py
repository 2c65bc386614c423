"""Following a sketch on an instance: every state that its rules lead to, until the goal, or until something is wrong.

A state outside the goal offers the policy's steps. Of a rule without actions: every applicable action all of whose outcomes
change the features as the rule says. Of a rule with actions: every applicable action of these names, which then must do what the
rule claims. What can be wrong, nearest to the initial state first:

    claim   a step changes the features otherwise than its rule says
    stuck   a state outside the goal offers no step
    cycle   steps lead back to where they began, outside the goal

If nothing is, every run of the policy ends in the goal; `ranks` are the longest ways to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from polvet.budget import UNLIMITED, Budget
from polvet.features.instances import Instance, State
from polvet.policy.finite_memory.features import Rule
from polvet.policy.finite_memory.sketch import Sketch
from polvet.policy.finite_memory.valuations import Meaning, Valuations, Values, broken_claim, is_open

Place = tuple[str, State]
"""A memory state and a state of the instance."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What is wrong: `kind`, in words, and the run that shows it; of a cycle the run ends in the place numbered `back_to`."""

    kind: str
    why: str
    places: tuple[Place, ...]
    actions: tuple[str, ...]
    back_to: int | None = None


@dataclass(frozen=True, slots=True)
class Followed:
    """An instance explored: the places with their rank where nothing is wrong, or the first failure."""

    instance: Instance
    ranks: Mapping[Place, int] = field(repr=False)
    values: Mapping[State, Values] = field(repr=False)
    steps: Mapping[Place, tuple[Place, ...]] = field(repr=False)
    failure: Failure | None = None

    @property
    def longest_run(self) -> int:
        """The longest way from the initial state to the goal that the policy allows."""
        return max(self.ranks.values(), default=0)


@dataclass(frozen=True, slots=True)
class _Choice:
    action: str
    outcomes: tuple[Place, ...]
    broken: str | None  # what the step does not do although its rule claims it


def follow(
    sketch: Sketch,
    meanings: tuple[Meaning, ...],
    instance: Instance,
    *,
    budget: Budget = UNLIMITED,
) -> Followed:
    """Return what becomes of the sketch on the instance."""
    values = Valuations(sketch, meanings, instance)
    start: Place = (sketch.memory[0], instance.initial)
    parents: dict[Place, tuple[Place, str] | None] = {start: None}
    steps: dict[Place, tuple[Place, ...]] = {}
    agenda = deque([start])
    while agenda:
        budget.check(len(parents))
        place = agenda.popleft()
        steps[place] = ()
        if instance.is_goal(place[1]):
            continue
        choices = list(_choices(sketch, instance, values, place))
        for choice in choices:
            if choice.broken is not None:
                run = _run_to(parents, place)
                broken = Failure("claim", choice.broken, (*run[0], choice.outcomes[0]), (*run[1], choice.action))
                return Followed(instance, {}, _valued(values, broken), {}, broken)
        if not choices:
            why = "no applicable action changes the features as a rule says" + _open_rules(
                sketch, values(place[1]), place[0]
            )
            stuck = Failure("stuck", why, *_run_to(parents, place))
            return Followed(instance, {}, _valued(values, stuck), {}, stuck)
        following: dict[Place, None] = {}
        for choice in choices:
            for outcome in choice.outcomes:
                following[outcome] = None
                if outcome not in parents:
                    parents[outcome] = (place, choice.action)
                    agenda.append(outcome)
        steps[place] = tuple(following)
    ranks = _ranks(steps)
    if len(ranks) < len(steps):
        cycle = _cycle(sketch, instance, values, steps, ranks, parents)
        return Followed(instance, {}, _valued(values, cycle), {}, cycle)
    return Followed(instance, ranks, {state: values(state) for _, state in steps}, steps)


def _choices(sketch: Sketch, instance: Instance, values: Valuations, place: Place) -> Iterable[_Choice]:
    memory, state = place
    before = values(state)
    rules = [rule for rule in sketch.rules if rule.memory in (None, memory) and is_open(rule, before)]
    for action, outcomes in instance.moves(state) if rules else ():
        schema = action.partition("(")[0]
        claimed = [rule for rule in rules if schema in rule.actions]
        fitting: dict[str, None] = {}
        for rule in rules:
            if rule.actions and schema not in rule.actions:
                continue
            if all(broken_claim(rule, before, values(outcome)) is None for outcome in outcomes):
                fitting[rule.following or memory] = None
        for following in fitting:
            yield _Choice(action, tuple((following, outcome) for outcome in outcomes), None)
        if not fitting and claimed:
            why, shown = _broken(sketch, action, claimed, before, [values(outcome) for outcome in outcomes])
            yield _Choice(action, ((memory, outcomes[shown]),), why)


def _broken(sketch: Sketch, action: str, rules: list[Rule], before: Values, after: list[Values]) -> tuple[str, int]:
    """Return in words what the action does that none of the rules allows, and the number of the outcome that shows it."""
    rule, number, index = next(
        (rule, number, index)
        for rule in rules
        for number, values in enumerate(after)
        if (index := broken_claim(rule, before, values)) is not None
    )
    claim, now = _change_in_words(rule, index), after[number][index]
    what = f"{sketch.features.names[index]}: {claim}; it goes from {before[index]} to {now}"
    return f"{action} follows {rule.label}, which says {what}", number


def _change_in_words(rule: Rule, index: int) -> str:
    """Return what the rule says of the feature."""
    change = rule.changes.get(index, "unchanged")
    after = rule.after.get(index)
    return change if after is None else f"{change}, {'above 0' if after else '0'} afterwards"


def _open_rules(sketch: Sketch, values: Values, memory: str) -> str:
    result = [rule.label for rule in sketch.rules if rule.memory in (None, memory) and is_open(rule, values)]
    return f" (open: {', '.join(result)})" if result else " (no rule is open)"


def _run_to(
    parents: Mapping[Place, tuple[Place, str] | None], place: Place
) -> tuple[tuple[Place, ...], tuple[str, ...]]:
    places, actions = [place], []
    while (step := parents[places[-1]]) is not None:
        places.append(step[0])
        actions.append(step[1])
    return tuple(reversed(places)), tuple(reversed(actions))


def _ranks(steps: Mapping[Place, tuple[Place, ...]]) -> dict[Place, int]:
    """Return for each place the length of the longest run from it; places from which a run may go on for ever have none."""
    before: dict[Place, list[Place]] = {place: [] for place in steps}
    waiting = {place: len(following) for place, following in steps.items()}
    for place, following in steps.items():
        for one in following:
            before[one].append(place)
    ranks = {place: 0 for place, count in waiting.items() if count == 0}
    agenda = list(ranks)
    for place in agenda:
        for one in before[place]:
            waiting[one] -= 1
            if waiting[one] == 0:
                ranks[one] = 1 + max(ranks[following] for following in steps[one])
                agenda.append(one)
    return ranks


def _cycle(
    sketch: Sketch,
    instance: Instance,
    values: Valuations,
    steps: Mapping[Place, tuple[Place, ...]],
    ranks: Mapping[Place, int],
    parents: Mapping[Place, tuple[Place, str] | None],
) -> Failure:
    """Return a run into a cycle, from places without a rank: each of them has a step to another."""
    place = next(place for place in steps if place not in ranks)
    walk = [place]
    while (place := next(one for one in steps[place] if one not in ranks)) not in walk:
        walk.append(place)
    cycle = walk[walk.index(place) :]
    cycle = min(
        (cycle[i:] + cycle[:i] for i in range(len(cycle))), key=lambda turned: len(_run_to(parents, turned[0])[1])
    )
    places, actions = _run_to(parents, cycle[0])
    back_to = len(places) - 1
    run, done = list(places), list(actions)
    for one, other in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
        choices = _choices(sketch, instance, values, one)
        done.append(next(choice.action for choice in choices if other in choice.outcomes))
        run.append(other)
    return Failure("cycle", "these steps can be repeated for ever", tuple(run), tuple(done), back_to)


def _valued(values: Valuations, failure: Failure) -> dict[State, Values]:
    return {state: values(state) for _, state in failure.places}
