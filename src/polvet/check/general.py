"""Checking `general-policy` and `general-counterexample`: what the rules of a sketch do in problems of PDDL.

Both hold copies of the sketch, the domain and the problems. What a policy's steps are is said in `polvet/general/follow.py`, and
written here once more: a rule without actions is followed by every action all of whose outcomes change the features as it says,
one with actions by every applicable action of these names, which then must do what it claims.

`general-policy` lists for each problem `states`: [{"true": ["(at a b)"], "memory": "", "rank": 2}]. The initial state is among
them. A state outside the goal offers a step, every step does what its rule claims, and each of its outcomes is listed with a
smaller rank: so every run ends, and it ends in the goal. With `ends`, a ranking as in `lex-rank`, the sketch also ends from
every valuation of its features. `general-counterexample` gives a run from the initial state: `states`, `actions`, and a `failure`.
`stuck`: the last state, outside the goal, offers no step. `claim`: the last action follows a rule by its name, and no rule says
what it changes. `cycle`: the last state is the one numbered `back_to`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from polvet.check.checker import Accepted, CheckResult, Rejected, Subjects, find_other_file
from polvet.check.counters import Malformed, integer, mapping, sequence
from polvet.check.lex_rank import check_ranking
from polvet.errors import InputError, Where
from polvet.features.denote import View
from polvet.features.structure import Structure, structure_of
from polvet.features.terms import Term, check_words, parse_term
from polvet.files import read_text
from polvet.model.instantiate import instantiate
from polvet.model.semantics import Semantics
from polvet.pddl import load_pddl
from polvet.pddl.parse import parse_domain, parse_problem
from polvet.pddl.syntax import Atom
from polvet.policy.finite_memory.features import ANY, DOWN, FALSE, NOT_DOWN, NOT_UP, TRUE, UP, Rule
from polvet.policy.finite_memory.sketch import Sketch, expand, read_sketch

True_ = frozenset[str]
"""The atoms, of those that may change, that hold: as the model names them."""
Place = tuple[str, True_]


def check_general_policy(certificate: Mapping[str, Any], subjects: Subjects) -> CheckResult:
    """Return whether the certificate proves that every run of the policy ends in the goal, on each of its problems."""
    try:
        sketch, domain = _subject(certificate, subjects)
        instances = sequence(certificate.get("instances"), "instances")
        names = []
        for number, entry in enumerate(instances):
            here = f"instances[{number}]"
            world = _World(sketch, domain, _text(mapping(entry, here), "problem", here), here)
            _check_holds(world, entry, subjects, here)
            names.append(str(entry.get("name", number)))
        if not names:
            raise Malformed("there are no instances")
        claim = f"every run of {sketch.name} ends in the goal, on {len(names)} instances: {', '.join(names)}"
        if certificate.get("ends") is not None:
            wrong = check_ranking(expand(sketch, subjects.budget), mapping(certificate["ends"], "ends"), subjects.budget)
            if wrong is not None:
                return Rejected(f"ends: {wrong}")
            claim += "; and its rules end from every valuation of their features"
    except _Other as other:
        return other.rejected
    except (Malformed, InputError) as error:
        return Rejected(str(error))
    return Accepted(claim)


def check_general_counterexample(certificate: Mapping[str, Any], subjects: Subjects) -> CheckResult:
    """Return whether the certificate proves that the policy fails on its problem."""
    try:
        sketch, domain = _subject(certificate, subjects)
        world = _World(sketch, domain, _text(certificate, "problem", "certificate"), "problem")
        places = [world.place(one, f"states[{k}]") for k, one in enumerate(sequence(certificate.get("states"), "states"))]
        actions = sequence(certificate.get("actions"), "actions")
        failure = certificate.get("failure")
        if not places or len(places) != len(actions) + 1:
            raise Malformed("a run has one state more than actions")
        if places[0] != world.initial:
            raise Malformed("the run does not begin in the initial state")
        last = len(actions) - (failure == "claim")
        for k in range(last):
            subjects.budget.check()
            if world.is_goal(places[k]) or (actions[k], places[k + 1]) not in set(world.steps(places[k])):
                raise Malformed(f"actions[{k}]: the policy does not take {actions[k]} there, or it leads elsewhere")
        _check_failure(world, failure, places, actions, certificate)
    except _Other as other:
        return other.rejected
    except (Malformed, InputError) as error:
        return Rejected(str(error))
    ends = {"stuck": "gets stuck", "claim": "does not do what a rule claims", "cycle": "runs for ever"}[str(failure)]
    return Accepted(f"{sketch.name} {ends} on {certificate.get('name', 'its problem')}, after {len(actions)} steps")


def _check_failure(world: _World, failure: Any, places: list[Place], actions: list[Any], certificate: Mapping[str, Any]) -> None:
    match failure:
        case "stuck":
            if world.is_goal(places[-1]) or any(True for _ in world.steps(places[-1])):
                raise Malformed("the last state is a goal state, or offers a step")
        case "claim":
            if not actions or world.is_goal(places[-2]) or actions[-1] not in world.broken(places[-2]):
                raise Malformed("the last action follows no rule by its name, or does what a rule says")
            if places[-1][1] not in world.outcomes(places[-2][1], actions[-1]):
                raise Malformed("the last action leads elsewhere")
        case "cycle":
            back_to = integer(certificate.get("back_to"), "back_to")
            if not 0 <= back_to < len(places) - 1 or places[back_to] != places[-1]:
                raise Malformed("the run does not come back to where 'back_to' says")
        case _:
            raise Malformed("'failure' is none of stuck, claim, cycle")


def _check_holds(world: _World, entry: Mapping[str, Any], subjects: Subjects, here: str) -> None:
    ranks: dict[Place, int] = {}
    for k, one in enumerate(sequence(entry.get("states"), f"{here}.states")):
        place = world.place(one, f"{here}.states[{k}]")
        ranks[place] = integer(one.get("rank"), f"{here}.states[{k}].rank")
        if ranks[place] < 0:
            raise Malformed(f"{here}.states[{k}].rank is below 0")
    if world.initial not in ranks:
        raise Malformed(f"{here}: the initial state is not listed")
    for place, rank in ranks.items():
        subjects.budget.check()
        if world.is_goal(place):
            continue
        if (broken := next(iter(world.broken(place)), None)) is not None:
            raise Malformed(f"{here}: {broken} does not do what its rule claims in {_shown(place)}")
        steps = list(world.steps(place))
        if not steps:
            raise Malformed(f"{here}: no step is offered in {_shown(place)}, outside the goal")
        for action, outcome in steps:
            if outcome not in ranks or ranks[outcome] >= rank:
                raise Malformed(f"{here}: {action} in {_shown(place)} leads to a state that is not listed with a smaller rank")


class _Other(Exception):
    """The files are not those of the certificate."""

    def __init__(self, rejected: Rejected) -> None:
        self.rejected = rejected


def _subject(certificate: Mapping[str, Any], subjects: Subjects) -> tuple[Sketch, str]:
    """Return the sketch and the domain's text: the copies, which must be what the given files hold."""
    sketch, domain = _text(certificate, "sketch", "certificate"), _text(certificate, "domain", "certificate")
    name = "the sketch in the certificate"
    if subjects.task is not None:
        if (other := find_other_file(certificate, subjects)) is not None:
            raise _Other(other)
        name = str(subjects.task)
        if read_text(subjects.task) != sketch:
            raise Malformed(f"the sketch is not the one in {subjects.task}")
    if subjects.domain is not None and read_text(subjects.domain) != domain:
        raise Malformed(f"the domain is not the one in {subjects.domain}")
    return read_sketch(sketch, Where(name)), domain


def _text(document: Mapping[str, Any], key: str, what: str) -> str:
    if not isinstance(document.get(key), str):
        raise Malformed(f"{what} has no text '{key}'")
    return str(document[key])


def _shown(place: Place) -> str:
    return " ".join(sorted(place[1])) or "the state in which nothing holds"


@dataclass(frozen=True, slots=True)
class _Option:
    """An applicable action in a state: its outcomes, the memory after each rule that it fits, whether a rule names it."""

    action: str
    outcomes: tuple[True_, ...]
    fits: tuple[str, ...]
    is_named: bool


class _World:
    """A problem as the slow interpreter runs it, and the sketch's steps in it."""

    def __init__(self, sketch: Sketch, domain: str, problem: str, here: str) -> None:
        places = Where(here), Where("domain")
        known = parse_domain(domain, places[1])
        parsed = parse_problem(problem, places[0], known)
        world = load_pddl(problem, domain, *places)
        self._semantics = Semantics(instantiate(world.model))
        self._variables = [variable.name for variable in self._semantics.network.variables]
        self._atoms = {str(atom): atom for atom in world.grounding.atoms}
        network_goal = self._semantics.network
        self._goal = self._semantics.compile(_goal_of(network_goal))
        self._sketch = sketch
        self._structure: Structure = structure_of(parsed.words, parsed.goal)
        self._constant = [atom for atom in parsed.init if str(atom) not in self._atoms]
        self._terms = [_term(sketch, name) for name in sketch.features.names]
        for term in self._terms:
            check_words(term, parsed.words)
        (first,) = self._semantics.initial_states()
        self.initial: Place = (sketch.memory[0], self._named(first))
        self._values: dict[True_, tuple[int, ...]] = {}
        self._options: dict[Place, tuple[_Option, ...]] = {}

    def place(self, item: Any, what: str) -> Place:
        """Return the place that a certificate's entry names."""
        entry = mapping(item, what)
        names = sequence(entry.get("true"), f"{what}.true")
        memory = entry.get("memory", self._sketch.memory[0])
        for name in names:
            if name not in self._atoms:
                raise Malformed(f"{what}: '{name}' is no atom that may change")
        if memory not in self._sketch.memory:
            raise Malformed(f"{what}: no memory state '{memory}'")
        return str(memory), frozenset(names)

    def is_goal(self, place: Place) -> bool:
        """Return whether the goal holds."""
        return bool(self._goal(self._state(place[1])))

    def outcomes(self, true: True_, action: str) -> set[True_]:
        """Return where the action may lead."""
        return {self._named(state) for state in self._semantics.outcomes(self._state(true), action)}

    def steps(self, place: Place) -> Iterator[tuple[str, Place]]:
        """Yield the policy's steps: an action, and a place that it may lead to."""
        for option in self._offered(place):
            for memory in option.fits:
                for outcome in option.outcomes:
                    yield option.action, (memory, outcome)

    def broken(self, place: Place) -> list[str]:
        """Return the actions that follow an open rule by their name, and do what no open rule says."""
        return [option.action for option in self._offered(place) if option.is_named and not option.fits]

    def _offered(self, place: Place) -> tuple[_Option, ...]:
        if place not in self._options:
            self._options[place] = tuple(self._compute(place))
        return self._options[place]

    def _compute(self, place: Place) -> Iterator[_Option]:
        memory, true = place
        before = self._valued(true)
        rules = [rule for rule in self._sketch.rules if rule.memory in (None, memory) and _holds(rule, before)]
        for action in self._semantics.applicable(self._state(true)):
            schema = action.partition("(")[0]
            outcomes = tuple(self.outcomes(true, action))
            mine = [rule for rule in rules if not rule.actions or schema in rule.actions]
            fits = {
                rule.following or memory
                for rule in mine
                if all(_allows(rule, before, self._valued(outcome)) for outcome in outcomes)
            }
            yield _Option(action, outcomes, tuple(sorted(fits)), any(rule.actions for rule in mine))

    def _valued(self, true: True_) -> tuple[int, ...]:
        if true not in self._values:
            atoms: list[Atom] = [*self._constant, *(self._atoms[name] for name in true)]
            view = View(self._structure, self._structure.rows(atoms))
            self._values[true] = tuple(view.number(term) for term in self._terms)
        return self._values[true]

    def _state(self, true: True_) -> tuple[Any, ...]:
        return tuple(name in true for name in self._variables)

    def _named(self, state: tuple[Any, ...]) -> True_:
        return frozenset(name for name, value in zip(self._variables, state, strict=True) if value is True)


def _goal_of(network: Any) -> Any:
    raise NotImplementedError


def _term(sketch: Sketch, name: str) -> Term:
    text = sketch.features.meanings.get(name)
    if not text:
        raise Malformed(f"the feature '{name}' has no meaning that is written down")
    return parse_term(text, Where(sketch.name).at(name), sorts="nc" if name in sketch.features.numeric else "b")


def _holds(rule: Rule, values: tuple[int, ...]) -> bool:
    return any(all((values[index] > 0) is wanted for index, wanted in one.items()) for one in rule.conditions)


def _allows(rule: Rule, before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    for index, (old, new) in enumerate(zip(before, after, strict=True)):
        if index in rule.after and (new > 0) is not rule.after[index]:
            return False
        match rule.changes.get(index):
            case None if new != old:
                return False
            case "up" if new <= old:
                return False
            case "down" if new >= old:
                return False
            case "not up" if new > old:
                return False
            case "not down" if new < old:
                return False
            case "true" if new != 1:
                return False
            case "false" if new != 0:
                return False
    return True


assert (ANY, DOWN, FALSE, NOT_DOWN, NOT_UP, TRUE, UP) == ("any", "down", "false", "not down", "not up", "true", "up")
