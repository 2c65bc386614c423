"""Domains and problems: text to `Domain` and `Problem`. What is PDDL but not read is refused by name, at its place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import count

from polvet.errors import InputError, Where, suggest
from polvet.pddl.formulas import (
    COMPARISONS,
    SHIFTS,
    Scope,
    check_types,
    read_atom,
    read_condition,
    read_count,
    read_effect,
    read_number,
    refuse_foreign,
)
from polvet.pddl.lexer import Group, Tree, Word, read_tree
from polvet.pddl.syntax import (
    NOTHING,
    OBJECT,
    TRUE,
    Action,
    Atom,
    Condition,
    Domain,
    Fluent,
    Number,
    Predicate,
    Problem,
    Variable,
    Vocabulary,
)
from polvet.pddl.typed_lists import name_of, read_typed_list, type_names

KNOWN_REQUIREMENTS = {
    ":strips", ":typing", ":equality", ":negative-preconditions", ":disjunctive-preconditions",
    ":existential-preconditions", ":universal-preconditions", ":quantified-preconditions", ":conditional-effects",
    ":adl", ":non-deterministic", ":probabilistic-effects", ":fluents", ":numeric-fluents", ":action-costs",
}  # fmt: skip
FOREIGN_REQUIREMENTS = {
    ":object-fluents", ":durative-actions", ":derived-predicates", ":axioms",
    ":timed-initial-literals", ":preferences", ":constraints", ":goal-utilities", ":rewards", ":mdp",
    ":duration-inequalities", ":continuous-effects", ":partial-observability",
}  # fmt: skip
DOMAIN_SECTIONS = (":requirements", ":types", ":constants", ":predicates", ":functions", ":action")
PROBLEM_SECTIONS = (":domain", ":requirements", ":objects", ":init", ":goal", ":metric")
FOREIGN_SECTIONS = {
    ":derived": "derived predicates",
    ":durative-action": "durative actions", ":constraints": "constraints", ":axiom": "axioms", ":length": "lengths",
    ":goal-reward": "rewards", ":observe": "observations", ":sensor": "sensors",
}  # fmt: skip


def parse_domain(text: str, where: Where) -> Domain:
    """Return the domain that the text is."""
    name, sections = _definition(text, where, "domain", DOMAIN_SECTIONS)
    parents = _read_types(_only(sections, ":types"))
    empty = Vocabulary(parents, {}, {})
    constants = _read_objects(_only(sections, ":constants"), empty)
    predicates = _read_predicates(_only(sections, ":predicates"), empty)
    functions = _read_functions(_only(sections, ":functions"), empty, predicates)
    words = Vocabulary(parents, constants, predicates, functions)
    actions: dict[tuple[str, int], Action] = {}
    for section in sections:
        if section.head == ":action":
            action = _read_action(section, words)
            key = action.name, len(action.parameters)
            if key in actions:
                what = f"the action '{action.name}' with {key[1]} parameters stands twice."
                raise InputError(what, section.where, "Rename one: its ground actions could not be told apart.")
            actions[key] = action
    return Domain(name, words, tuple(actions.values()), Where(where.file))


def parse_problem(text: str, where: Where, domain: Domain) -> Problem:
    """Return the problem of the domain that the text is."""
    name, sections = _definition(text, where, "problem", PROBLEM_SECTIONS)
    named = _only(sections, ":domain")
    if named is not None:
        if len(named.items) != 2:
            raise InputError("':domain' needs one name.", named.where, "Write (:domain NAME).")
        word = name_of(named.items[1], "the domain's name")
        if word.text != domain.name:
            what = f"this is a problem of the domain '{word.shown}', but {domain.where} defines '{domain.name}'."
            raise InputError(what, word.where, "Give the right file with --domain.")
    objects = _read_objects(_only(sections, ":objects"), domain.words)
    words = replace(domain.words, objects=objects)
    scope = Scope(words, {}, count())
    init, goal = (_needed(sections, key, where) for key in (":init", ":goal"))
    if len(goal.items) != 2:
        raise InputError("':goal' needs one condition.", goal.where, "Write (:goal (and ...)).")
    _check_metric(_only(sections, ":metric"), scope)
    true, numbers = _read_init(init, scope)
    return Problem(name, words, true, read_condition(goal.items[1], scope), Where(where.file), numbers)


def parse_condition(text: str, words: Vocabulary, where: Where) -> Condition:
    """Return the condition that the text is, over the objects of a problem."""
    return read_condition(read_tree(text, where), Scope(words, {}, count()))


def parse_number(text: str, words: Vocabulary, where: Where) -> Number:
    """Return the number that the text is, over the objects of a problem: `(fuel truck1)`."""
    return read_number(read_tree(text, where), Scope(words, {}, count()))


def parse_count(text: str, words: Vocabulary, where: Where) -> tuple[tuple[Variable, ...], Condition]:
    """Return the variables and the condition of `(count (?x - t) CONDITION)`."""
    return read_count(read_tree(text, where), Scope(words, {}, count()))


def _definition(text: str, where: Where, kind: str, known: tuple[str, ...]) -> tuple[str, list[Group]]:
    """Return the name and the sections of `(define (kind name) section ...)`; each but `:action` may stand once."""
    tree = read_tree(text, where)
    if tree.head != "define":
        raise InputError("PDDL starts with (define.", tree.where, f"Write (define ({kind} NAME) ...).")
    head = tree.items[1] if len(tree.items) > 1 else tree
    if not isinstance(head, Group) or head.head != kind or len(head.items) != 2:
        other = head.head if isinstance(head, Group) else ""
        if other in ("domain", "problem") and other != kind:
            raise InputError(f"this is a {other}, not a {kind}.", head.where, f"Give the {kind} there.")
        raise InputError(f"(define is not followed by ({kind} NAME).", head.where, f"Write (define ({kind} NAME) ...).")
    name = name_of(head.items[1], f"the {kind}'s name").text
    sections: list[Group] = []
    seen: set[str] = set()
    for item in tree.items[2:]:
        if isinstance(item, Word):
            raise InputError(f"'{item.shown[:30]}' stands outside brackets.", item.where, "Put it into its section.")
        if item.head in FOREIGN_SECTIONS:
            what = f"'{item.head}': {FOREIGN_SECTIONS[item.head]} are not read."
            raise InputError(what, item.where, "Remove the section, or model it with predicates.")
        if item.head not in known:
            shown = item.items[0].shown if item.items and isinstance(item.items[0], Word) else "("
            raise InputError(f"'{shown[:30]}' is no section of a {kind}.", item.where, suggest(item.head, known))
        if item.head in seen and item.head != ":action":
            raise InputError(f"'{item.head}' stands twice.", item.where, "Write one section.")
        seen.add(item.head)
        if item.head == ":requirements":
            _check_requirements(item)
        sections.append(item)
    return name, sections


def _only(sections: Iterable[Group], head: str) -> Group | None:
    return next((section for section in sections if section.head == head), None)


def _needed(sections: Iterable[Group], head: str, where: Where) -> Group:
    section = _only(sections, head)
    if section is None:
        raise InputError(f"the problem has no {head}.", Where(where.file, line=1), f"Write ({head} ...).")
    return section


def _check_requirements(section: Group) -> None:
    for item in section.items[1:]:
        shown = item.shown if isinstance(item, Word) else "("
        if not isinstance(item, Word) or item.text not in KNOWN_REQUIREMENTS | FOREIGN_REQUIREMENTS:
            hint = suggest(shown.lower(), sorted(KNOWN_REQUIREMENTS))
            raise InputError(f"no requirement '{shown[:40]}'.", item.where, hint)
        if item.text in FOREIGN_REQUIREMENTS:
            raise InputError(f"the requirement '{shown}' is not read.", item.where, "Model it with predicates.")


def _read_types(section: Group | None) -> dict[str, tuple[str, ...]]:
    parents: dict[str, tuple[str, ...]] = {OBJECT: ()}
    if section is None:
        return parents
    places: dict[str, Word] = {}
    for word, above in read_typed_list(section.items[1:], "a type"):
        if word.text == OBJECT:
            continue
        if word.text in parents:
            raise InputError(f"the type '{word.shown}' is declared twice.", word.where, "Declare it once.")
        parents[word.text], places[word.text] = type_names(above), word
        for parent in above:
            places.setdefault(parent.text, parent)
    for name, word in places.items():  # a type that stands behind a dash alone is declared by that
        parents.setdefault(name, (OBJECT,))
        pending, seen = list(parents[name]), set()
        while pending:
            above_it = pending.pop()
            if above_it == name:
                raise InputError(f"the type '{word.shown}' lies below itself.", word.where, "Break the circle.")
            if above_it not in seen:
                seen.add(above_it)
                pending += parents.get(above_it, ())
    return parents


def _read_objects(section: Group | None, words: Vocabulary) -> dict[str, tuple[str, ...]]:
    objects = dict(words.objects)
    for word, types in read_typed_list(section.items[1:], "an object") if section is not None else []:
        check_types(types, words)
        if word.text in objects:
            if objects[word.text] == type_names(types):
                continue  # some problems repeat the constants
            raise InputError(f"the object '{word.shown}' is declared twice.", word.where, "Declare it once.")
        objects[word.text] = type_names(types)
    return objects


def _read_predicates(section: Group | None, words: Vocabulary, kind: str = "predicate") -> dict[str, Predicate]:
    predicates: dict[str, Predicate] = {}
    for item in section.items[1:] if section is not None else ():
        if isinstance(item, Word):
            raise InputError(f"'{item.shown[:30]}' stands in no brackets.", item.where, f"Write ({item.shown[:30]}).")
        if not item.items:
            raise InputError(f"'()' declares no {kind}.", item.where, "Write (p ?x - t).")
        name = name_of(item.items[0], f"a {kind}'s name")
        if name.text in predicates:
            raise InputError(f"the {kind} '{name.shown}' is declared twice.", name.where, "Declare it once.")
        if name.text in ("and", "or", "not", "imply", "exists", "forall", "when", "oneof", "probabilistic"):
            raise InputError(f"'{name.shown}' is a word of PDDL.", name.where, f"Rename the {kind}.")
        predicates[name.text] = Predicate(name.text, _parameters(item.items[1:], words), name.where)
    return predicates


def _read_functions(
    section: Group | None, words: Vocabulary, predicates: Mapping[str, Predicate]
) -> dict[str, Predicate]:
    """The numeric functions; `- number` may stand behind them."""
    if section is None:
        return {}
    items = list(section.items)
    for place, item in enumerate(items[:-1]):
        if isinstance(item, Word) and item.text == "-":
            kind = items[place + 1]
            if not isinstance(kind, Word) or kind.text != "number":
                raise InputError("only functions with numbers as values are read.", kind.where, "Write - number.")
    plain = [one for one in items if not (isinstance(one, Word) and one.text in ("-", "number"))]
    functions = _read_predicates(replace(section, items=tuple(plain)), words, "function")
    for name, function in functions.items():
        if name in predicates or name in (*COMPARISONS, *SHIFTS, "+", "*"):
            raise InputError(f"'{name}' is no name for a function: it has a meaning.", function.where, "Rename it.")
    return functions


def _check_metric(section: Group | None, scope: Scope) -> None:
    """Refuse a metric that says nothing; what it says is not used: no plan is sought that costs least."""
    if section is None:
        return
    direction = section.items[1] if len(section.items) == 3 else None
    if not isinstance(direction, Word) or direction.text not in ("minimize", "maximize"):
        raise InputError("':metric' needs a direction and a number.", section.where, "Write (:metric minimize (f)).")
    read_number(section.items[2], scope)


def _parameters(items: tuple[Tree, ...], words: Vocabulary) -> tuple[Variable, ...]:
    parameters: dict[str, Variable] = {}
    for word, types in read_typed_list(items, "a variable", variables=True):
        check_types(types, words)
        if word.text in parameters:
            raise InputError(f"the variable '{word.shown}' stands twice.", word.where, "Rename one.")
        parameters[word.text] = Variable(word.text, type_names(types))
    return tuple(parameters.values())


def _read_action(section: Group, words: Vocabulary) -> Action:
    if len(section.items) < 2:
        raise InputError("the action has no name.", section.where, "Write (:action NAME ...).")
    name = name_of(section.items[1], "the action's name")
    fields: dict[str, Tree] = {}
    items = section.items[2:]
    for place in range(0, len(items), 2):
        key = items[place]
        known = (":parameters", ":precondition", ":effect")
        if not isinstance(key, Word) or key.text not in known:
            shown = key.shown if isinstance(key, Word) else "("
            hint = suggest(shown.lower(), known)
            raise InputError(
                f"'{shown[:30]}' stands where :parameters, :precondition or :effect should be.", key.where, hint
            )
        if key.text in fields:
            raise InputError(f"'{key.text}' stands twice in the action '{name.shown}'.", key.where, "Write it once.")
        if place + 1 == len(items):
            raise InputError(f"'{key.text}' has nothing behind it.", key.where, "Write its content in brackets.")
        fields[key.text] = items[place + 1]
    listed = fields.get(":parameters")
    if isinstance(listed, Word):
        raise InputError("':parameters' needs brackets.", listed.where, "Write :parameters (?x - t).")
    parameters = _parameters(listed.items, words) if listed is not None else ()
    scope = Scope(words, {one.name: one for one in parameters}, count())
    precondition = read_condition(fields[":precondition"], scope) if ":precondition" in fields else TRUE
    effect = read_effect(fields[":effect"], scope) if ":effect" in fields else NOTHING
    return Action(name.text, parameters, precondition, effect, section.where)


def _read_init(section: Group, scope: Scope) -> tuple[frozenset[Atom], dict[Fluent, int]]:
    true: set[Atom] = set()
    numbers: dict[Fluent, int] = {}
    false: dict[Atom, Tree] = {}
    for item in section.items[1:]:
        if isinstance(item, Word):
            raise InputError(f"'{item.shown[:30]}' stands in no brackets.", item.where, "Write atoms: (p a).")
        if item.head in ("oneof", "or", "unknown", "probabilistic", "and"):
            raise InputError(f"'{item.head}' stands in :init.", item.where, "The initial state is a list of atoms.")
        if item.head == "=":
            fluent, value = (read_number(part, scope) for part in item.items[1:]) if len(item.items) == 3 else (0, 0)
            if not isinstance(fluent, Fluent) or not isinstance(value, int):
                raise InputError("'=' gives no number here.", item.where, "Write (= (f a) 3).")
            if numbers.setdefault(fluent, value) != value:
                raise InputError(f"'{fluent}' has two values in :init.", item.where, "Give one.")
            continue
        refuse_foreign(item.head, item.where)
        if item.head == "not":
            inner = item.items[1] if len(item.items) == 2 else None
            if not isinstance(inner, Group):
                raise InputError("'not' needs one atom.", item.where, "Write (not (p a)).")
            false[read_atom(inner, scope)] = item
        else:
            true.add(read_atom(item, scope))
    for atom, place in false.items():
        if atom in true:
            raise InputError(f"'{atom}' is both true and false in :init.", place.where, "Remove one of the two.")
    return frozenset(true), numbers
