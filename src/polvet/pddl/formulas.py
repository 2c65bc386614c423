"""Conditions and effects: trees to `Condition` and `Effect`, with names, arities and types checked at their places."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import count

from polvet.errors import InputError, Where, suggest
from polvet.pddl.lexer import Group, Tree, Word
from polvet.pddl.syntax import (
    NOTHING,
    And,
    Arithmetic,
    Atom,
    Change,
    Choice,
    Compare,
    Condition,
    Effect,
    Equal,
    Every,
    Exists,
    Fluent,
    ForAll,
    Not,
    Number,
    Or,
    Predicate,
    Shift,
    Together,
    Variable,
    Vocabulary,
    When,
)
from polvet.pddl.typed_lists import Typed, name_of, read_typed_list, type_names

SHIFTS = ("increase", "decrease", "assign", "scale-up")
COMPARISONS = ("<", "<=", ">", ">=")
EFFECT_WORDS = ("when", "oneof", "probabilistic", *SHIFTS)
INTEGER = re.compile(r"([+-]?[0-9]+)(?:\.0*)?")
CONDITION_WORDS = ("or", "imply", "exists")
NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?(/[0-9]+)?|\.[0-9]+")


@dataclass(frozen=True, slots=True)
class Scope:
    """What names mean in one place: the vocabulary, and variables in sight with the name they are known by inside."""

    words: Vocabulary
    variables: Mapping[str, Variable]
    numbers: count[int]  # makes names of quantified variables unique

    def with_variables(self, typed: list[Typed]) -> tuple[Scope, tuple[Variable, ...]]:
        """Return the scope under a quantifier, and the variables it brings."""
        brought = {}
        for word, types in typed:
            if word.text in brought:
                raise InputError(f"the variable '{word.shown}' stands twice.", word.where, "Rename one.")
            check_types(types, self.words)
            brought[word.text] = Variable(f"{word.text}.{next(self.numbers)}", type_names(types))
        return replace(self, variables={**self.variables, **brought}), tuple(brought.values())


def check_types(types: tuple[Word, ...], words: Vocabulary) -> None:
    """Refuse a type that is not declared."""
    for word in types:
        if word.text not in words.parents:
            known = [name for name in words.parents if name != "object"]
            raise InputError(f"no type '{word.shown}'.", word.where, suggest(word.text, known))


def read_condition(tree: Tree, scope: Scope) -> Condition:
    """Return the condition; `()` is true."""
    if isinstance(tree, Word):
        raise InputError(f"'{tree.shown[:30]}' stands where a condition should be.", tree.where, "Write (p ?x).")
    parts = tree.items[1:]
    match tree.head:
        case "" if not tree.items:
            return And(())
        case "and":
            return And(tuple(read_condition(part, scope) for part in parts))
        case "or":
            return Or(tuple(read_condition(part, scope) for part in parts))
        case "not":
            _expect_parts(tree, 1, "(not CONDITION)")
            return Not(read_condition(parts[0], scope))
        case "imply":
            _expect_parts(tree, 2, "(imply CONDITION CONDITION)")
            return Or((Not(read_condition(parts[0], scope)), read_condition(parts[1], scope)))
        case "exists" | "forall" as quantifier:
            inner, variables = _quantified(tree, scope, f"({quantifier} (?x - t) CONDITION)")
            body = read_condition(parts[1], inner)
            return Exists(variables, body) if quantifier == "exists" else ForAll(variables, body)
        case "=":
            _expect_parts(tree, 2, "(= ?x ?y), or (= (f ?x) 3)")
            if any(_is_number(part, scope) for part in parts):
                return Compare("=", read_number(parts[0], scope), read_number(parts[1], scope))
            left, right = (_term(part, scope) for part in parts)
            return Equal(left.name, right.name)
        case operator if operator in COMPARISONS:
            _expect_parts(tree, 2, f"({operator} (f ?x) 3)")
            one, other = (read_number(part, scope) for part in parts)
            return Compare(
                operator[0].replace(">", "<") + operator[1:], *((other, one) if operator[0] == ">" else (one, other))
            )
        case word if word in EFFECT_WORDS:
            raise InputError(f"'{word}' stands in a condition.", tree.where, "It belongs into an :effect.")
        case word:
            refuse_foreign(word, tree.where)
            return read_atom(tree, scope)


def read_count(tree: Group, scope: Scope) -> tuple[tuple[Variable, ...], Condition]:
    """Return the variables whose values are counted, and the condition that they satisfy."""
    inner, variables = _quantified(tree, scope, "(count (?x - t) CONDITION)")
    return variables, read_condition(tree.items[2], inner)


def read_effect(tree: Tree, scope: Scope) -> Effect:
    """Return the effect; `()` and `(and)` change nothing."""
    if isinstance(tree, Word):
        raise InputError(f"'{tree.shown[:30]}' stands where an effect should be.", tree.where, "Write (p ?x).")
    parts = tree.items[1:]
    match tree.head:
        case "" if not tree.items:
            return NOTHING
        case "and":
            return Together(tuple(read_effect(part, scope) for part in parts))
        case "not":
            _expect_parts(tree, 1, "(not (p ?x))")
            if not isinstance(parts[0], Group) or parts[0].head in ("", "and", "not", "or", "forall", *EFFECT_WORDS):
                raise InputError("an effect negates atoms alone.", tree.where, "Write (not (p ?x)).")
            refuse_foreign(parts[0].head, parts[0].where)
            return Change(read_atom(parts[0], scope), False)
        case "when":
            _expect_parts(tree, 2, "(when CONDITION EFFECT)")
            return When(read_condition(parts[0], scope), read_effect(parts[1], scope))
        case "forall":
            inner, variables = _quantified(tree, scope, "(forall (?x - t) EFFECT)")
            return Every(variables, read_effect(parts[1], inner))
        case "oneof":
            if not parts:
                raise InputError("'oneof' has no outcome.", tree.where, "Write (oneof EFFECT EFFECT).")
            return Choice(tuple((Fraction(1, len(parts)), read_effect(part, scope)) for part in parts))
        case "probabilistic":
            return _read_probabilistic(tree, scope)
        case word if word in SHIFTS:
            return _read_shift(tree, scope)
        case word if word in (*CONDITION_WORDS, *COMPARISONS, "="):
            raise InputError(f"'{word}' stands in an effect.", tree.where, "It belongs into a condition.")
        case word:
            refuse_foreign(word, tree.where)
            return Change(read_atom(tree, scope), True)


def _read_shift(tree: Group, scope: Scope) -> Shift:
    """The change of a number: increased by an amount, or assigned one."""
    _expect_parts(tree, 2, f"({tree.head} (f ?x) 1)")
    fluent = read_number(tree.items[1], scope)
    if not isinstance(fluent, Fluent):
        raise InputError(
            f"'{tree.head}' changes no number here.", tree.items[1].where, f"Write ({tree.head} (f ?x) 1)."
        )
    amount = read_number(tree.items[2], scope)
    if tree.head == "decrease":
        amount = -amount if isinstance(amount, int) else Arithmetic("-", 0, amount)
    elif tree.head == "scale-up":
        amount = Arithmetic("*", fluent, amount)
    return Shift(fluent, amount, tree.head in ("assign", "scale-up"), tree.where)


def read_number(tree: Tree, scope: Scope) -> Number:
    """Return the integer, the fluent or what is computed of them."""
    if isinstance(tree, Word):
        if integer := INTEGER.fullmatch(tree.text):
            return int(integer[1])
        if NUMBER.fullmatch(tree.text.lstrip("+-")):
            raise InputError(f"'{tree.shown[:30]}' is no integer.", tree.where, "Numbers are integers: scale them.")
        raise InputError(f"'{tree.shown[:30]}' stands where a number should be.", tree.where, "Write 3 or (f ?x).")
    parts = tree.items[1:]
    match tree.head:
        case "+" | "*" | "-" as operator:
            least, most = (1, 2) if operator == "-" else (2, len(parts))
            if not least <= len(parts) <= most:
                raise InputError(
                    f"'{operator}' has {len(parts)} parts here.", tree.where, f"Write ({operator} 1 (f ?x))."
                )
            first, *others = (read_number(part, scope) for part in parts)
            if not others:
                return Arithmetic("-", 0, first)
            for other in others:
                first = Arithmetic(operator, first, other)
            return first
        case "/":
            raise InputError("'/' may leave the integers.", tree.where, "Multiply the other side instead.")
        case _:
            name, terms = _applied(tree, scope, scope.words.functions, "function")
            return Fluent(name, terms)


def _is_number(tree: Tree, scope: Scope) -> bool:
    if isinstance(tree, Group):
        return True
    return tree.text not in scope.words.objects and NUMBER.fullmatch(tree.text.lstrip("+-")) is not None


def _read_probabilistic(tree: Group, scope: Scope) -> Choice:
    parts = tree.items[1:]
    if not parts or len(parts) % 2:
        hint = "Write (probabilistic 0.5 EFFECT 0.2 EFFECT)."
        raise InputError("'probabilistic' needs a probability before each effect.", tree.where, hint)
    outcomes: list[tuple[Fraction, Effect]] = []
    rest = Fraction(1)
    for number, effect in zip(parts[::2], parts[1::2], strict=True):
        if not isinstance(number, Word) or not NUMBER.fullmatch(number.text) or number.text.endswith("/0"):
            shown = f"'{number.shown[:30]}'" if isinstance(number, Word) else "'('"
            raise InputError(f"{shown} is no probability.", number.where, "Write 0.25 or 1/4.")
        above, _, below = number.text.partition("/")
        probability = Fraction(above) / (Fraction(below) if below else 1)
        rest -= probability
        if rest < 0:
            raise InputError("the probabilities sum to more than 1.", number.where, "Make them smaller.")
        read = read_effect(effect, scope)
        if probability > 0:
            outcomes.append((probability, read))
    if rest > 0:
        outcomes.append((rest, NOTHING))  # PPDDL: what is left over changes nothing
    return Choice(tuple(outcomes))


def _quantified(tree: Group, scope: Scope, form: str) -> tuple[Scope, tuple[Variable, ...]]:
    _expect_parts(tree, 2, form)
    listed = tree.items[1]
    if not isinstance(listed, Group):
        raise InputError("the variables stand in no brackets.", listed.where, f"Write {form}.")
    return scope.with_variables(read_typed_list(listed.items, "a variable", variables=True))


def read_atom(tree: Group, scope: Scope) -> Atom:
    """Return the atom; its predicate must be declared, the number and the types of its arguments must fit."""
    return Atom(*_applied(tree, scope, scope.words.predicates, "predicate"))


def _applied(tree: Group, scope: Scope, known: Mapping[str, Predicate], kind: str) -> tuple[str, tuple[str, ...]]:
    """The name and the terms of a predicate or of a function."""
    if not tree.items:
        what = "an atom" if kind == "predicate" else "a number"
        raise InputError(f"'()' stands where {what} should be.", tree.where, "Write (p ?x).")
    name = name_of(tree.items[0], f"a {kind}")
    predicate = known.get(name.text)
    if predicate is None:
        other = scope.words.functions if kind == "predicate" else scope.words.predicates
        hint = suggest(name.text, known)
        if name.text in other:
            hint = "It is a number: compare it." if kind == "predicate" else "It is true or false."
        raise InputError(f"no {kind} '{name.shown}'.", name.where, hint)
    terms = [_term(item, scope) for item in tree.items[1:]]
    wanted = len(predicate.parameters)
    if len(terms) != wanted:
        arguments = f"{len(terms)} argument{'' if len(terms) == 1 else 's'}"
        raise InputError(f"'{name.shown}' has {arguments} here, but takes {wanted}.", tree.where, f"Give {wanted}.")
    for item, term, parameter in zip(tree.items[1:], terms, predicate.parameters, strict=True):
        # Published domains give variables of wider types to predicates: only objects are held to theirs.
        if term.name.startswith("?"):
            continue
        if not any(scope.words.is_below(one, parameter.types) for one in term.types):
            what = f"'{term.name}' is of type {' or '.join(term.types)}, but '{name.shown}' takes {' or '.join(parameter.types)}"
            raise InputError(f"{what} there.", item.where, "Give an object of that type.")
    return predicate.name, tuple(term.name for term in terms)


def _term(tree: Tree, scope: Scope) -> Variable:
    """The term with its types, an object as if it were a variable."""
    if isinstance(tree, Group):
        raise InputError("'(' stands where an object or a variable should be.", tree.where, "Write a name or ?x.")
    if tree.text.startswith("?"):
        if tree.text not in scope.variables:
            raise InputError(f"no variable '{tree.shown}'.", tree.where, suggest(tree.text, scope.variables))
        return scope.variables[tree.text]
    types = scope.words.objects.get(tree.text)
    if types is None:
        name_of(tree, "an object")
        raise InputError(f"no object '{tree.shown}'.", tree.where, suggest(tree.text, scope.words.objects))
    return Variable(tree.text, types)


def refuse_foreign(word: str, where: Where) -> None:
    """Refuse by name what is PDDL, but not read."""
    if word == "scale-down":
        raise InputError("'scale-down' may leave the integers.", where, "Model it with scale-up, or with predicates.")
    if word in ("at-start", "over", "preference", "always", "sometime", "unknown", "observe"):
        raise InputError(f"'{word}' is not read.", where, "Remove it.")


def _expect_parts(tree: Group, wanted: int, form: str) -> None:
    if len(tree.items) - 1 != wanted:
        raise InputError(f"'{tree.head}' has {len(tree.items) - 1} parts here.", tree.where, f"Write {form}.")
