"""A ground problem as a `Model`: one automaton with one location, a bool for each atom that may change.

atom `(at r1 a)`        the variable `at(r1,a)`, an atom without arguments the variable of its name
action `(move a b)`     an edge with the label `move(a,b)`; its outcomes are the edge's destinations
goal                    the goal of the property `goal`; conditions given besides are read by `World.condition`
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from polvet.errors import InputError, Where, suggest
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
    VariableDeclaration,
)
from polvet.model.expressions import (
    FALSE,
    TRUE,
    BoolLiteral,
    Call,
    Expression,
    Name,
    RealLiteral,
    negation,
    rebuild,
)
from polvet.model.infix import chained_operands, parse_expression
from polvet.model.properties import Objective, PolicyTask, Property, StateCondition
from polvet.model.types import BOOL
from polvet.pddl.ground import GroundAction, Grounding, ground, outcomes_of
from polvet.pddl.parse import parse_condition
from polvet.pddl.syntax import And, Atom, Condition, Domain, Not, Or, Problem, Vocabulary

LOCATION = "l"
GOAL = "goal"
PDDL_TEXT = re.compile(r"\s*\(\s*(?:\)|=|(?:and|or|not|imply|exists|forall)\b|[\w.@+-]+\s*(?:\)\s*$|\s[?\w]))", re.I)
"""How a condition starts that is written in PDDL, and not infix: `(and (p a))`, `(at r1 a)`, `()`."""


@dataclass(frozen=True, slots=True)
class World:
    """A problem of PDDL as a model, and the words in which conditions on its states are given."""

    model: Model
    words: Vocabulary = field(repr=False)
    grounding: Grounding = field(repr=False)

    def condition(self, text: str, where: Where) -> Expression:
        """Return the condition over the model's variables: PDDL, or infix with atoms such as `at(r1,a)`."""
        if PDDL_TEXT.match(text):
            return expression_of(self.grounding.condition(parse_condition(text, self.words, where)))
        return self._with_atoms(parse_expression(text, where), where)

    def _with_atoms(self, expression: Expression, where: Where) -> Expression:
        match expression:
            case Call(function, arguments) if all(isinstance(one, Name) for one in arguments):
                terms = tuple(one.name for one in arguments if isinstance(one, Name))
                return self._atom(f"({' '.join((function, *terms))})", where)
            case Name(name) if name not in self._variables():
                found = re.fullmatch(r"([^()]+)\(([^()]*)\)", name)
                words = (found[1], *found[2].split(",")) if found else (name,)
                if words[0].lower() not in self.words.predicates:
                    raise InputError(f"no atom '{name}'.", where, suggest(words[0].lower(), self.words.predicates))
                return self._atom(f"({' '.join(words)})", where)
            case _:
                return rebuild(expression, lambda part: self._with_atoms(part, where))

    def _atom(self, text: str, where: Where) -> Expression:
        return expression_of(self.grounding.condition(parse_condition(text, self.words, Where(where.file, where.path))))

    def _variables(self) -> set[str]:
        return {variable.name for variable in self.model.variables}


def translate(domain: Domain, problem: Problem) -> World:
    """Return the problem as a model."""
    grounding = ground(domain, problem)
    edges = tuple(_edge(action) for action in grounding.actions)
    automaton = Automaton(domain.name, (Location(LOCATION),), (LOCATION,), edges, where=domain.where)
    variables = tuple(
        VariableDeclaration(str(atom), BOOL, BoolLiteral(atom in problem.init), where=problem.where)
        for atom in grounding.atoms
    )
    goal = StateCondition(expression_of(grounding.condition(problem.goal)))
    model = Model(
        problem.name, ModelType.MDP, (automaton,), Composition((Instance(domain.name),)),
        actions=tuple(dict.fromkeys(action.label for action in grounding.actions)), variables=variables,
        properties=(Property(GOAL, PolicyTask(objective=Objective(goal)), where=problem.where),), where=problem.where,
    )  # fmt: skip
    return World(model, problem.words, grounding)


def _edge(action: GroundAction) -> Edge:
    destinations = tuple(
        Destination(
            LOCATION,
            None if outcome.probability == 1 else RealLiteral(outcome.probability),
            tuple(
                Assignment(Name(str(atom)), expression_of(value), where=action.where) for atom, value in outcome.values
            ),
            action.where,
        )
        for outcome in outcomes_of(action)
    )
    guard = expression_of(action.guard)
    return Edge(LOCATION, action.label, None if guard == TRUE else guard, destinations, where=action.where)


def expression_of(condition: Condition) -> Expression:
    """Return the ground condition over the variables of its atoms."""
    match condition:
        case Atom():
            return Name(str(condition))
        case Not(part):
            return negation(expression_of(part))
        case And(parts):
            return chained_operands("∧", [expression_of(part) for part in parts]) if parts else TRUE
        case Or(parts):
            return chained_operands("∨", [expression_of(part) for part in parts]) if parts else FALSE
        case _:
            raise AssertionError("a ground condition has no quantifier")
