"""Checking `general` and `general-refuted`: what the rules of a sketch do in problems of PDDL.

Both hold copies of the domain and of problems; the sketch is the file that is given. A *place* is a memory state and a state of the
problem, `[memory, bits]`: the bits, in hexadecimal, are the atoms that may change, in the order of grounding.

`general` is a ranking of the rules, as in `lex-rank`, and for each problem `places` with a `rank`. The initial place is listed. A listed
place is in the goal, or the rules offer a step there, no step does otherwise than its rule claims, and all outcomes of all steps are
listed with a smaller rank. SOUND: so every run of the rules ends, in the goal.

`general-refuted` is a run of the rules in a problem, from its initial state, with what is wrong at its end: `claim`, the last
action follows a rule and does otherwise than it says; `stuck`, no rule offers a step outside the goal; `cycle`, the run is back where it
was. Features that are Python functions have no certificate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polvet.check.counters import Malformed, find_subject, integer, mapping, sequence
from polvet.check.lex_rank import check_ranking
from polvet.check.subjects import Accepted, CheckResult, Rejected, Subjects, find_other_file
from polvet.errors import InputError, Where
from polvet.features.instances import Instance, State, read_instance
from polvet.files import read_text
from polvet.pddl.parse import parse_domain
from polvet.policy.finite_memory.sketch import Sketch, is_sketch, read_sketch
from polvet.policy.finite_memory.valuations import Valuations, broken_claim, is_open, meanings_of

Place = tuple[str, State]
MODELLED = ("rule", "action")


def check_general(certificate: Mapping[str, Any], subjects: Subjects) -> CheckResult:
    """Return whether the certificate proves that every run of the rules ends in the goal in each of its problems."""
    found = _sketch(certificate, subjects)
    if isinstance(found, Rejected):
        return found
    if "start" in certificate:  # SOUND: the claim is about every valuation
        return Rejected("its ranking speaks of some starts only")
    plan = find_subject(certificate, subjects, about_every_run=True)
    if isinstance(plan, Rejected):
        return plan
    if (wrong := check_ranking(plan, certificate, subjects.budget)) is not None:
        return Rejected(f"the ranking of the rules: {wrong}")
    try:
        problems = sequence(certificate.get("problems"), "problems")
        names = [
            _check_problem(found, certificate, item, f"problems[{k}]", subjects) for k, item in enumerate(problems)
        ]
    except Malformed as error:
        return Rejected(str(error))
    if not names:
        return Rejected("it names no problem")
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return Accepted(
        f"every run of {subjects.task} in {shown} (the copies in the certificate) ends in the goal, and its rules end from every valuation"
    )


def check_general_refuted(certificate: Mapping[str, Any], subjects: Subjects) -> CheckResult:
    """Return whether the certificate shows a run of the rules that goes wrong."""
    found = _sketch(certificate, subjects)
    if isinstance(found, Rejected):
        return found
    try:
        item = mapping(certificate.get("problem"), "problem")
        rules = _Rules(found, certificate, item, "problem")
        words = _check_run(rules, certificate)
    except Malformed as error:
        return Rejected(str(error))
    return Accepted(f"a run of {subjects.task} in {rules.instance.name} (the copy in the certificate) {words}")


def _sketch(certificate: Mapping[str, Any], subjects: Subjects) -> Sketch | Rejected:
    if subjects.task is None:
        raise InputError("the certificate speaks of a sketch.", hint="Give its file with --task.")
    if (other := find_other_file(certificate, subjects)) is not None:
        return other
    text = read_text(subjects.task)
    if not is_sketch(text):
        return Rejected(f"{subjects.task} is no sketch")
    sketch = read_sketch(text, Where(str(subjects.task)))
    if any(rule.kind not in MODELLED for rule in sketch.rules):
        return Rejected("it has rules that are not one step of the world")
    return sketch


class _Rules:
    """The rules of a sketch in one problem: what they offer in a place."""

    def __init__(self, sketch: Sketch, certificate: Mapping[str, Any], item: Mapping[str, Any], place: str) -> None:
        texts = [certificate.get("domain"), item.get("name"), item.get("text")]
        if not all(isinstance(text, str) for text in texts):
            raise Malformed(f"{place}: 'domain', 'name' and 'text' are no texts")
        domain, name, text = (str(one) for one in texts)
        try:
            self.instance: Instance = read_instance(text, Where(name), parse_domain(domain, Where("domain")))
            self.values = Valuations(sketch, meanings_of(sketch, {}), self.instance)
        except InputError as error:
            raise Malformed(f"{place}: {error}") from None
        self.sketch = sketch
        self.start: Place = (sketch.memory[0], self.instance.initial)

    def read(self, item: Any, place: str) -> Place:
        """Return the place, or complain that it is none."""
        match item:
            case [str(memory), str(bits)] if memory in self.sketch.memory and len(bits) <= 4096:
                try:
                    state = int(bits, 16)
                except ValueError:
                    state = -1
                if 0 <= state < 1 << len(self.instance.atoms):
                    return memory, state
        raise Malformed(f"{place}: {str(item)[:60]} is no place")

    def steps(self, place: Place) -> tuple[list[tuple[str, Place]], list[tuple[str, Place]]]:
        """Return the steps that the rules offer, and those that do otherwise than a rule which names their action claims."""
        memory, state = place
        before = self.values(state)
        rules = [rule for rule in self.sketch.rules if rule.memory in (None, memory) and is_open(rule, before)]
        offered, broken = [], []
        for action, outcomes in self.instance.moves(state):
            schema = action.partition("(")[0]
            mine = [rule for rule in rules if not rule.actions or schema in rule.actions]
            fitting = [r for r in mine if all(broken_claim(r, before, self.values(one)) is None for one in outcomes)]
            offered += [(action, (rule.following or memory, one)) for rule in fitting for one in outcomes]
            if not fitting and any(rule.actions for rule in mine):
                broken += [(action, (memory, one)) for one in outcomes]
        return offered, broken


def _check_problem(sketch: Sketch, certificate: Mapping[str, Any], item: Any, place: str, subjects: Subjects) -> str:
    """Return the problem's name once its places are found to be in order."""
    entry = mapping(item, place)
    rules = _Rules(sketch, certificate, entry, place)
    ranks: dict[Place, int] = {}
    for k, one in enumerate(sequence(entry.get("places"), f"{place}.places")):
        if not isinstance(one, list) or len(one) != 3:
            raise Malformed(f"{place}.places[{k}] is not a memory state, bits and a rank")
        ranks[rules.read(one[:2], f"{place}.places[{k}]")] = integer(one[2], f"{place}.places[{k}]")
    if rules.start not in ranks:
        raise Malformed(f"{place}: the initial place is not listed")
    for here, rank in ranks.items():
        subjects.budget.check()
        if rules.instance.is_goal(here[1]):
            continue
        offered, broken = rules.steps(here)
        if broken:
            raise Malformed(f"{place}: {broken[0][0]} does otherwise than its rule says")
        if not offered:
            raise Malformed(f"{place}: no rule offers a step in {rules.instance.show(here[1])}, outside the goal")
        for action, after in offered:
            if after not in ranks or ranks[after] >= rank or ranks[after] < 0:
                raise Malformed(f"{place}: {action} leads to a place that is not listed with a smaller rank")
    return rules.instance.name


def _check_run(rules: _Rules, certificate: Mapping[str, Any]) -> str:
    """Return in words what is wrong at the end of the run, once it was made."""
    items = sequence(certificate.get("places"), "places")
    actions = sequence(certificate.get("actions"), "actions")
    places = [rules.read(item, f"places[{k}]") for k, item in enumerate(items)]
    if len(places) != len(actions) + 1 or places[0] != rules.start:
        raise Malformed("the run does not lead from the initial place through one place more than actions")
    failure = certificate.get("failure")
    for k, (here, action, after) in enumerate(zip(places, actions, places[1:], strict=False)):
        if rules.instance.is_goal(here[1]):
            raise Malformed(f"the run goes on in the goal, at step {k}")
        offered, broken = rules.steps(here)
        last = failure == "claim" and k == len(actions) - 1
        if (action, after) not in (broken if last else offered):
            raise Malformed(f"step {k} is none that the rules {'break' if last else 'offer'}")
    if failure == "claim" and actions:
        return f"ends with {actions[-1]}, which does otherwise than its rule says"
    if failure == "stuck":
        offered, broken = rules.steps(places[-1])
        if offered or broken or rules.instance.is_goal(places[-1][1]):
            raise Malformed("the last place is in the goal, or the rules offer a step there")
        return f"stops outside the goal after {len(actions)} steps"
    back = certificate.get("back_to")
    if failure == "cycle" and isinstance(back, int) and 0 <= back < len(actions) and places[back] == places[-1]:
        return f"comes back to where it was {len(actions) - back} steps before, outside the goal"
    raise Malformed("'failure' is not what the run shows")
