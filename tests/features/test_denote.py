"""Features against an oracle that takes every definition word by word, over sets of objects and of pairs."""

from __future__ import annotations

import random
import re

import pytest

from polvet.errors import InputError, Where
from polvet.features.denote import View, infinity
from polvet.features.structure import structure_of
from polvet.features.terms import SIGNATURES, Term, check_words, parse_term
from polvet.pddl.parse import parse_domain, parse_problem
from polvet.pddl.syntax import Atom

DOMAIN = """(define (domain d) (:types block place) (:constants home - place)
 (:predicates (on ?x ?y) (at ?x - block ?p - place) (clear ?x) (quiet) (between ?x ?y ?z)))"""
PROBLEM = """(define (problem p) (:domain d) (:objects a b c - block shop - place)
 (:init) (:goal (and (on a b) (on b c) (clear a) (at c shop))))"""
PREDICATES = {
    "on": 2,
    "at": 2,
    "clear": 1,
    "quiet": 0,
    "between": 3,
    "on_g": 2,
    "clear_g": 1,
    "at_g": 2,
    "block": 1,
    "place": 1,
}


def oracle(term: Term, objects, relations):
    """Return the denotation as booleans, numbers (None: no path), sets of objects, sets of pairs."""

    def of(part):
        return oracle(part, objects, relations) if isinstance(part, Term) else part

    parts = [of(part) for part in term.parts]
    pairs = {(x, y) for x in objects for y in objects}

    def distance(starts, role, goals):
        at = 0
        reached = set(starts)
        while not reached & set(goals):
            grown = reached | {y for x, y in role if x in reached}
            if grown == reached:
                return None
            reached, at = grown, at + 1
        return at

    def total(found):
        return None if any(one is None for one in found) else sum(found)

    match term.operator:
        case "b_empty":
            return len(parts[0]) == 0
        case "b_inclusion":
            return parts[0] <= parts[1]
        case "b_nullary":
            return () in relations.get(parts[0], set())
        case "n_count":
            return len(parts[0])
        case "n_concept_distance":
            return distance(*parts)
        case "n_sum_concept_distance":
            return total([distance({x}, parts[1], parts[2]) for x in parts[0]])
        case "n_role_distance" | "n_sum_role_distance":
            found = [distance({y}, parts[1], {z for w, z in parts[2] if w == x}) for x, y in parts[0]]
            if term.operator == "n_sum_role_distance":
                return total(found)
            return min((one for one in found if one is not None), default=None)
        case "c_top":
            return set(objects)
        case "c_bot":
            return set()
        case "c_one_of":
            return {parts[0]}
        case "c_primitive":
            return {row[parts[1]] for row in relations.get(parts[0], set())}
        case "c_not":
            return {x for x in objects if x not in parts[0]}
        case "c_and":
            return parts[0] & parts[1]
        case "c_or":
            return parts[0] | parts[1]
        case "c_diff":
            return parts[0] - parts[1]
        case "c_some":
            return {x for x in objects if any((x, y) in parts[0] and y in parts[1] for y in objects)}
        case "c_all":
            return {x for x in objects if all((x, y) not in parts[0] or y in parts[1] for y in objects)}
        case "c_equal":
            return {x for x in objects if all(((x, y) in parts[0]) == ((x, y) in parts[1]) for y in objects)}
        case "c_subset":
            return {x for x in objects if all((x, y) not in parts[0] or (x, y) in parts[1] for y in objects)}
        case "c_projection":
            return {pair[parts[1]] for pair in parts[0]}
        case "r_top":
            return pairs
        case "r_primitive":
            return {(row[parts[1]], row[parts[2]]) for row in relations.get(parts[0], set())}
        case "r_not":
            return pairs - parts[0]
        case "r_and":
            return parts[0] & parts[1]
        case "r_or":
            return parts[0] | parts[1]
        case "r_diff":
            return parts[0] - parts[1]
        case "r_compose":
            return {(x, z) for x, y in parts[0] for w, z in parts[1] if y == w}
        case "r_inverse":
            return {(y, x) for x, y in parts[0]}
        case "r_restrict":
            return {(x, y) for x, y in parts[0] if y in parts[1]}
        case "r_identity":
            return {(x, x) for x in parts[0]}
        case _:
            closed = set(parts[0])
            for _ in objects:
                closed |= {(x, z) for x, y in closed for w, z in parts[0] if y == w}
            return closed | {(x, x) for x in objects} if "reflexive" in term.operator else closed


oracle.__test__ = False


def draw_term(draw: random.Random, sort: str, depth: int, objects) -> str:
    simple = {
        "c": ["c_top", "c_bot", "c_one_of", "c_primitive"],
        "r": ["r_top", "r_primitive"],
        "b": ["b_empty", "b_nullary"],
        "n": ["n_count"],
    }
    operator = draw.choice(simple[sort] if depth <= 0 else [name for name in SIGNATURES if name[0] == sort])
    if operator in ("c_primitive", "r_primitive"):
        wanted = 1 if operator[0] == "c" else 2
        name = draw.choice([n for n, arity in PREDICATES.items() if arity >= wanted])
        numbers = [str(draw.randrange(PREDICATES[name])) for _ in range(wanted)]
        return f"{operator}({name},{','.join(numbers)})"
    if operator == "b_nullary":
        return "b_nullary(quiet)"
    if operator == "c_one_of":
        return f"c_one_of({draw.choice(objects)})"
    if operator == "c_projection":
        return f"c_projection({draw_term(draw, 'r', depth - 1, objects)},{draw.randrange(2)})"
    shape = draw.choice(SIGNATURES[operator])
    parts = [draw_term(draw, one, depth - 1, objects) for one in shape]
    return f"{operator}({', '.join(parts)})" if parts else operator


@pytest.mark.parametrize("seed", range(40))
def test_terms_mean_what_their_definitions_say(seed):
    draw = random.Random(seed)
    domain = parse_domain(DOMAIN, Where("d"))
    problem = parse_problem(PROBLEM, Where("p"), domain)
    structure = structure_of(problem.words, problem.goal)
    objects = list(structure.objects)
    atoms = set()
    for name, arity in (("on", 2), ("at", 2), ("clear", 1), ("quiet", 0), ("between", 3)):
        for _ in range(draw.randrange(6)):
            atoms.add(Atom(name, tuple(draw.choice(objects) for _ in range(arity))))
    relations = {"block": {("a",), ("b",), ("c",)}, "place": {("shop",), ("home",)}, "on_g": {("a", "b"), ("b", "c")},
                 "clear_g": {("a",)}, "at_g": {("c", "shop")}}  # fmt: skip
    for atom in atoms:
        relations.setdefault(atom.predicate, set()).add(atom.terms)
    view = View(structure, structure.rows(atoms))
    used = set()
    for _ in range(60):
        text = draw_term(draw, draw.choice("bn"), draw.randrange(4), objects)
        term = parse_term(text, Where("f"))
        check_words(term, problem.words)
        assert parse_term(str(term), Where("f")) == term
        expected = oracle(term, objects, relations)
        found = view.boolean(term) if term.sort == "b" else view.number(term)
        assert found == (infinity(structure) if expected is None else expected), text
        used |= {one.operator for one in term.subterms()}
    assert len(used) > 15


def test_every_operator_is_drawn_somewhere():
    draw = random.Random(1)
    texts = " ".join(draw_term(draw, draw.choice("bn"), 4, ["a"]) for _ in range(300))
    assert all(f"{name}" in texts for name in SIGNATURES)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("n_cnt(c_top)", "no operator 'n_cnt'"), ("c_top", "should be"), ("n_count(b_empty(c_top))", "should be"),
        ("n_count(c_and(c_top))", "',' is expected"), ("n_count(c_top", "')' is expected"), ("n_count(c_top))", "behind the end"),
        ("n_count()", "missing"), ("n_count(c_primitive(on,x))", "not the number"), ("n_count(c_primitive(on,2))", "count from 0"),
        ("n_count(c_primitive(om,0))", "no predicate 'om'"), ("b_nullary(on)", "2 arguments"), ("n_count(c_one_of(z))", "no object 'z'"),
        ("b_inclusion(c_top,r_top)", "should be"), ("n_count(c_top) ?", "cannot be read"), ("", "missing"),
        ("n_count(" + "c_not(" * 80 + "c_top" + ")" * 81, "nests deeper"),
    ],
)  # fmt: skip
def test_a_bad_feature_is_an_input_error(text, says):
    domain = parse_domain(DOMAIN, Where("d"))
    words = parse_problem(PROBLEM, Where("p"), domain).words
    with pytest.raises(InputError, match=re.escape(says)):
        check_words(parse_term(text, Where("f")), words)
