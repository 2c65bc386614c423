"""A ground problem as a `Model`: one automaton with one location, and variables that tell which atoms are true (`encoding`).

action `(move a b)`     an edge with the label `move(a,b)`, or `move` where policies choose schemas; its outcomes are the edge's
                        destinations
goal                    the goal of the property `goal`; conditions given besides are read by `World.condition`
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from polvet.errors import InputError, Where, suggest
from polvet.model.atoms import METADATA
from polvet.model.automata import (
    Assignment,
    Automaton,
    Composition,
    Destination,
    Edge,
    Instance,
    Location,
    Model,
    ModelType,
)
from polvet.model.expressions import (
    TRUE,
    Binary,
    Call,
    Conditional,
    Expression,
    IntLiteral,
    Name,
    RealLiteral,
    rebuild,
)
from polvet.model.infix import parse_expression
from polvet.model.properties import Objective, PolicyTask, Property, StateCondition
from polvet.model.world import AS_WRITTEN, Reading
from polvet.pddl.bounds import find_bounds
from polvet.pddl.encoding import Encoding
from polvet.pddl.ground import GroundAction, Grounding, Outcome, folded, ground, instances, outcomes_of
from polvet.pddl.groups import find_groups
from polvet.pddl.numeric import Undefined, fluents_in, folded_number, ground_number
from polvet.pddl.parse import parse_condition, parse_count, parse_number
from polvet.pddl.syntax import FALSE as NEVER
from polvet.pddl.syntax import TRUE as ALWAYS
from polvet.pddl.syntax import Condition, Domain, Number, Problem, Vocabulary

LOCATION = "l"
GOAL = "goal"
PDDL_TEXT = re.compile(
    r"\s*\(\s*(?:\)|[=<>]|(?:and|or|not|imply|exists|forall)\b|[\w.@+-]+\s*(?:\)\s*$|\s[?\w]))", re.I
)
COUNT_TEXT = re.compile(r"\s*\(\s*count\b", re.I)
"""How a condition starts that is written in PDDL, and not infix: `(and (p a))`, `(at r1 a)`, `()`."""
HEAD = re.compile(r"\s*\(\s*([^\s()]+)")


@dataclass(frozen=True, slots=True)
class World:
    """A problem of PDDL as a model, and the words in which conditions on its states are given."""

    model: Model
    words: Vocabulary = field(repr=False)
    encoding: Encoding = field(repr=False)

    @property
    def grounding(self) -> Grounding:
        """Return the ground problem."""
        return self.encoding.grounding

    def condition(self, text: str, where: Where) -> Expression:
        """Return the condition over the model's variables: PDDL, or infix with atoms such as `at(r1,a)`."""
        if PDDL_TEXT.match(text):
            return self._expression(parse_condition(text, self.words, where), where)
        return self._with_atoms(parse_expression(text, where), where)

    def number(self, text: str, where: Where) -> Expression:
        """Return what a policy may read: a condition, a number, infix, or how many objects satisfy one: `(count (?x - t) (p ?x))`."""
        if (head := HEAD.match(text)) is not None and (head[1].lower() in self.words.functions or head[1] in "+-*"):
            return self._number(text, where)
        if not COUNT_TEXT.match(text):
            return self.condition(text, where)
        variables, body = parse_count(text, self.words, where)
        cases = [folded(one, self.grounding.truth) for one in instances(variables, body, self.grounding.reach)]
        total: Expression = IntLiteral(cases.count(ALWAYS))
        for case in cases:
            if case not in (ALWAYS, NEVER):
                total = Binary("+", total, Conditional(self.encoding.expression(case), IntLiteral(1), IntLiteral(0)))
        return total

    def _with_atoms(self, expression: Expression, where: Where) -> Expression:
        match expression:
            case Call(function, arguments) if all(isinstance(one, Name) for one in arguments):
                return self._named((function, *(one.name for one in arguments if isinstance(one, Name))), where)
            case Name(name) if name not in self._variables():
                applied = re.fullmatch(r"([^()]+)\(([^()]*)\)", name)
                words = (applied[1], *applied[2].split(",")) if applied else (name,)
                if words[0].lower() not in {**self.words.predicates, **self.words.functions}:
                    raise InputError(f"no atom '{name}'.", where, suggest(words[0].lower(), self.words.predicates))
                return self._named(words, where)
            case _:
                return rebuild(expression, lambda part: self._with_atoms(part, where))

    def _named(self, words: tuple[str, ...], where: Where) -> Expression:
        """The atom or the fluent of that name, with its objects."""
        text, place = f"({' '.join(words)})", Where(where.file, where.path)
        if words[0].lower() in self.words.functions:
            return self._number(text, place)
        return self._expression(parse_condition(text, self.words, place), place)

    def _number(self, text: str, where: Where) -> Expression:
        try:
            number = folded_number(ground_number(parse_number(text, self.words, where), {}), self.grounding.number)
        except Undefined as undefined:
            raise InputError(f"'{undefined}' has no value in :init.", where, "Give it one, or leave it out.") from None
        self._refuse_costs(number, where)
        return self.encoding.number(number)

    def _expression(self, condition: Condition, where: Where) -> Expression:
        grounded = self.grounding.condition(condition)
        self._refuse_costs(grounded, where)
        return self.encoding.expression(grounded)

    def _refuse_costs(self, part: Number | Condition, where: Where) -> None:
        for fluent in fluents_in(part):
            if fluent in self.encoding.bounds.costs:
                what = f"'{fluent}' is what steps cost, and no part of a state: no bounds follow for it."
                raise InputError(what, where, f"Declare them in a task.toml: [bounds] {fluent.function} = [0, 100].")

    def _variables(self) -> set[str]:
        costs = {str(fluent) for fluent in self.encoding.bounds.costs}
        return {variable.name for variable in self.model.variables} - costs


def translate(domain: Domain, problem: Problem, *, grouped: bool = True, reading: Reading = AS_WRITTEN) -> World:
    """Return the problem as a model; `grouped`: with mutex groups as variables, else every atom is one."""
    grounding = ground(domain, problem)
    for name in reading.bounds:
        if name not in domain.words.functions and name not in map(str, grounding.fluents):
            known = (*domain.words.functions, *map(str, grounding.fluents))
            raise InputError(f"no number '{name}' that changes.", Where("bounds"), suggest(name, known))
    outcomes = [outcomes_of(action) for action in grounding.actions]
    groups = find_groups(grounding, outcomes) if grouped else ()
    encoding = Encoding(grounding, groups, find_bounds(grounding, outcomes, reading.bounds))
    edges = tuple(
        edge
        for action, mine in zip(grounding.actions, outcomes, strict=True)
        if (edge := _edge(action, mine, encoding, reading.schemas)) is not None
    )
    names, values = encoding.definitions(problem.where)
    location = Location(LOCATION, values)
    automaton = Automaton(domain.name, (location,), (LOCATION,), edges, where=domain.where)
    goal = StateCondition(encoding.expression(grounding.condition(problem.goal)))
    model = Model(
        problem.name,
        ModelType.MDP,
        (automaton,),
        Composition((Instance(domain.name),)),
        actions=tuple(dict.fromkeys(edge.action for edge in edges if edge.action is not None)),
        variables=(*encoding.variables(problem.where), *names),
        properties=(Property(GOAL, PolicyTask(objective=Objective(goal)), where=problem.where),),
        metadata=(METADATA,),
        where=problem.where,
    )
    return World(model, problem.words, encoding)


def _edge(action: GroundAction, outcomes: Sequence[Outcome], encoding: Encoding, schemas: bool) -> Edge | None:
    """Return the action as an edge with its own label, or its schema's; None where groups show that it is never applicable."""
    condition, known = encoding.guard(action.guard)
    if condition == NEVER:
        return None
    destinations = tuple(
        Destination(
            LOCATION,
            None if probability == 1 else RealLiteral(probability),
            tuple(Assignment(Name(name), value, where=action.where) for name, value in assignments),
            action.where,
        )
        for probability, assignments in encoding.outcomes(outcomes, known)
    )
    guard = encoding.expression(condition)
    label = action.label.partition("(")[0] if schemas else action.label
    return Edge(LOCATION, label, None if guard == TRUE else guard, destinations, where=action.where)
