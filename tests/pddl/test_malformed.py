"""Bad domains and problems: each is refused with file, line, column, what is wrong and what to do."""

import json

import pytest

from polvet.errors import InputError, Where
from polvet.pddl import load_pddl, read_pddl
from tests.pddl.conftest import FOND, needs_benchmarks

DOMAIN = """(define (domain lamp)
  (:requirements :strips :typing)
  (:types room - object)
  (:constants hall - room)
  (:predicates (on) (at ?r - room) (door ?r ?s - room))
  (:action go
    :parameters (?r ?s - room)
    :precondition (and (at ?r) (door ?r ?s))
    :effect (and (not (at ?r)) (at ?s)))
  (:action press
    :precondition (at hall)
    :effect (oneof (on) (and))))
"""
PROBLEM = """(define (problem one)
  (:domain lamp)
  (:objects den - room)
  (:init (at den) (door den hall))
  (:goal (on)))
"""

DOMAINS = [
    # what is changed, into what, the place, what is wrong, the hint
    ("(define (domain lamp)", "(define", "2:3", "(define is not followed by (domain NAME)", "Write (define (domain NAME)"),
    ("(define (domain lamp)", "(defin (domain lamp)", "1:1", "PDDL starts with (define", "Write (define"),
    ("(define (domain lamp)", "(define (problem lamp)", "1:9", "this is a problem, not a domain", "Give the domain"),
    ("(define (domain lamp)", "(define (domain la,mp)", "1:17", "'la,mp' stands where the domain's name", "letters"),
    (":strips :typing", ":strips :types", "2:26", "no requirement ':types'", "Did you mean ':typing'?"),
    (":strips :typing", ":durative-actions", "2:18", "the requirement ':durative-actions' is not read", "Model it with predicates"),
    ("(:types room - object)", "(:types room - )", "3:16", "'-' has no type behind it", "Write the type"),
    ("(:types room - object)", "(:types - object)", "3:11", "'-' has no names before it", "Write them"),
    ("(:types room - object)", "(:types room - cell cell - room)", "3:11", "the type 'room' lies below itself", "Break"),
    ("(:types room - object)", "(:types room room)", "3:16", "the type 'room' is declared twice", "once"),
    ("(:types room - object)", "(:types room - (or a b))", "3:18", "this is no type", "(either t1 t2)"),
    ("(:constants hall - room)", "(:constants hall - rom)", "4:22", "no type 'rom'", "Did you mean 'room'?"),
    ("(:constants hall - room)", "(:functions (cost) - room)", "4:24", "only functions with numbers as values are read", "Write - number"),
    ("(:constants hall - room)", "(:functions (cost) (cost))", "4:23", "the function 'cost' is declared twice", "once"),
    ("(:predicates (on)", "(:functions (on)) (:predicates (on)", "5:16", "'on' is no name for a function", "Rename it"),
    ("(:constants hall - room)", "(:derived (on) (at hall))", "4:3", "derived predicates are not read", "Remove"),
    ("(:constants hall - room)", "(:const hall - room)", "4:3", "':const' is no section of a domain", "':constants'"),
    ("(:constants hall - room)", "(:types lift)", "4:3", "':types' stands twice", "Write one section"),
    ("(:predicates (on)", "(:predicates on", "5:16", "'on' stands in no brackets", "Write (on)"),
    ("(:predicates (on)", "(:predicates (on) (on ?x)", "5:22", "the predicate 'on' is declared twice", "once"),
    ("(:predicates (on)", "(:predicates (and)", "5:17", "'and' is a word of PDDL", "Rename"),
    ("(:predicates (on)", "(:predicates (on ?x ?x)", "5:23", "the variable '?x' stands twice", "Rename"),
    ("(at ?r - room)", "(at r - room)", "5:25", "'r' stands where a variable should be", "question mark"),
    (":parameters (?r ?s - room)", ":parameters ?r", "7:17", "':parameters' needs brackets", ":parameters (?x - t)"),
    (":parameters (?r ?s - room)", ":parametres (?r)", "7:5", "':parametres' stands where", "Did you mean ':parameters'?"),
    (":parameters (?r ?s - room)", ":parameters (?r ?r)", "7:21", "the variable '?r' stands twice", "Rename"),
    ("(and (at ?r) (door ?r ?s))", "(and (at ?r) (door ?r ?s)", "9:5", "stands inside '(and' of line 8", "Write a ')' before"),
    ("(and (at ?r) (door ?r ?s))", "(and (at ?r) (dor ?r ?s))", "8:33", "no predicate 'dor'", "Did you mean 'door'?"),
    ("(and (at ?r) (door ?r ?s))", "(and (at ?r) (door ?r))", "8:32", "'door' has 1 argument here, but takes 2", "Give 2"),
    ("(and (at ?r) (door ?r ?s))", "(and (at ?r) (door ?r ?t))", "8:41", "no variable '?t'", "?r, ?s"),
    ("(and (at ?r) (door ?r ?s))", "(and (at ?r) (door ?r hal))", "8:41", "no object 'hal'", "Did you mean 'hall'?"),
    ("(and (at ?r) (door ?r ?s))", "(and (at ?r) on)", "8:32", "'on' stands where a condition should be", "Write (p ?x)"),
    ("(and (at ?r) (door ?r ?s))", "(oneof (at ?r) (on))", "8:19", "'oneof' stands in a condition", ":effect"),
    ("(and (at ?r) (door ?r ?s))", "(not (on) (on))", "8:19", "'not' has 2 parts here", "(not CONDITION)"),
    ("(and (at ?r) (door ?r ?s))", "(exists ?x (at ?x))", "8:27", "the variables stand in no brackets", "(exists (?x - t)"),
    ("(and (at ?r) (door ?r ?s))", "(> (cost) 3)", "8:23", "no function 'cost'", ""),
    ("(and (at ?r) (door ?r ?s))", "((at ?r))", "8:20", "'(' stands where a predicate should be", "Write a name"),
    ("(and (not (at ?r)) (at ?s))", "(not (and (at ?r)))", "9:13", "an effect negates atoms alone", "(not (p ?x))"),
    ("(and (not (at ?r)) (at ?s))", "(increase (cost) 1)", "9:24", "no function 'cost'", ""),
    ("(and (not (at ?r)) (at ?s))", "(or (at ?r) (on))", "9:13", "'or' stands in an effect", "condition"),
    ("(and (not (at ?r)) (at ?s))", "(when (on))", "9:13", "'when' has 1 parts here", "(when CONDITION EFFECT)"),
    ("(and (not (at ?r)) (at ?s))", "(probabilistic 0.5)", "9:13", "needs a probability before each", "0.5 EFFECT"),
    ("(and (not (at ?r)) (at ?s))", "(probabilistic x (on))", "9:28", "'x' is no probability", "Write 0.25"),
    ("(and (not (at ?r)) (at ?s))", "(probabilistic 0.7 (on) 1/2 (on))", "9:37", "sum to more than 1", "smaller"),
    ("(oneof (on) (and))", "(oneof)", "12:13", "'oneof' has no outcome", "Write (oneof"),
    ("(:action press", "(:action go :parameters (?a ?b)", "10:3", "the action 'go' with 2 parameters stands twice", "Rename"),
    ("(:action press", "(:action (press)", "10:12", "'(' stands where the action's name should be", "Write a name"),
    (":precondition (at hall)\n    :effect (oneof (on) (and))", ":effect", "11:5", "':effect' has nothing behind it", "Write its"),
    (":precondition (at hall)", ":precondition (at hall) :precondition (on)", "11:29", "':precondition' stands twice", "once"),
    (":effect (oneof (on) (and))))", ":effect (oneof (on) (and)))", "1:1", "'(define' of line 1 is never closed", "')'"),
    (":effect (oneof (on) (and))))", ":effect (oneof (on) (and)))))", "12:33", "')' closes nothing", "Remove it"),
    (":effect (oneof (on) (and))))", ":effect)) (more)", "12:15", "'(' stands behind the end", "Remove it"),
]  # fmt: skip
PROBLEMS = [
    ("(:domain lamp)", "(:domain lump)", "2:12", "this is a problem of the domain 'lump'", "--domain"),
    ("(:domain lamp)", "(:domain)", "2:3", "':domain' needs one name", "(:domain NAME)"),
    ("(:objects den - room)", "(:objects den - rom)", "3:19", "no type 'rom'", "Did you mean 'room'?"),
    ("(:objects den - room)", "(:objects den - room den)", "3:24", "the object 'den' is declared twice", "once"),
    ("(:objects den - room)", "(:objects den - room x)", None, None, None),
    ("(:objects den - room)", "(:objects (den) - room)", "3:13", "'(' stands where an object should be", "names"),
    ("(at den)", "(at dne)", "4:14", "no object 'dne'", "Did you mean 'den'?"),
    ("(at den)", "(at den) (not (at den))", "4:19", "'at(den)' is both true and false", "Remove one"),
    ("(at den)", "(oneof (at den) (on))", "4:10", "'oneof' stands in :init", "list of atoms"),
    ("(at den)", "(= (cost) 3)", "4:14", "no function 'cost'", ""),
    ("(at den)", "(= den 3)", "4:13", "'den' stands where a number should be", "Write 3 or (f ?x)"),
    ("(at den)", "(=)", "4:10", "'=' gives no number here", "Write (= (f a) 3)"),
    ("(at den)", "at", "4:10", "'at' stands in no brackets", "Write atoms"),
    ("(:init (at den) (door den hall))", "", "1", "the problem has no :init", "Write (:init"),
    ("(:goal (on))", "(:goal (on) (on))", "5:3", "':goal' needs one condition", "Write (:goal"),
    ("(:goal (on))", "(:goal (exists (?x - rom) (at ?x)))", "5:24", "no type 'rom'", "Did you mean 'room'?"),
    ("(:goal (on))", "(:goal (on)) (:metric minimize (cost))", "5:35", "no function 'cost'", ""),
    ("(:goal (on))", "(:goal (on)) (:metric (cost))", "5:16", "':metric' needs a direction and a number", "Write (:metric"),
    ("(:goal (on))", "(:goal (off))", "5:11", "no predicate 'off'", "on"),
    ("(:goal (on))", "(:goal (at on))", "5:14", "no object 'on'", "hall"),
]  # fmt: skip


def _refusal(problem, domain):
    with pytest.raises(InputError) as caught:
        load_pddl(problem, domain, Where("one.pddl"), Where("lamp.pddl"))
    return caught.value


def test_the_files_that_are_changed_below_are_right():
    assert load_pddl(PROBLEM, DOMAIN).model.actions == ("go(den,hall)", "press")


@pytest.mark.parametrize(("old", "new", "place", "what", "hint"), DOMAINS)
def test_a_bad_domain_is_refused_at_its_place(old, new, place, what, hint):
    assert DOMAIN.count(old) == 1
    error = _refusal(PROBLEM, DOMAIN.replace(old, new))
    assert str(error.where) == f"lamp.pddl:{place}"
    assert what in error.what
    assert hint in (error.hint or "")


@pytest.mark.parametrize(("old", "new", "place", "what", "hint"), PROBLEMS)
def test_a_bad_problem_is_refused_at_its_place(old, new, place, what, hint):
    assert PROBLEM.count(old) == 1
    if place is None:
        load_pddl(PROBLEM.replace(old, new), DOMAIN)
        return
    error = _refusal(PROBLEM.replace(old, new), DOMAIN)
    assert str(error.where) == f"one.pddl:{place}"
    assert what in error.what
    assert hint in (error.hint or "")


def test_an_object_of_the_wrong_type_is_refused():
    domain = DOMAIN.replace("room - object", "room cat").replace("hall - room", "hall - room tom - cat")
    error = _refusal(PROBLEM.replace("(at den)", "(at tom)"), domain)
    assert str(error) == (
        "one.pddl:4:14: 'tom' is of type cat, but 'at' takes room there. Give an object of that type."
    )


@pytest.mark.parametrize("text", ["", " ; nothing\n", "define", "(", ")", "()", "(define)", "((", "(define (domain))"])
def test_fragments_are_refused(text):
    for problem, domain in ((PROBLEM, text), (text, DOMAIN)):
        with pytest.raises(InputError):
            load_pddl(problem, domain)


def test_deep_brackets_and_long_names_are_refused():
    deep = DOMAIN.replace("(at hall)", "(not " * 500 + "(on)" + ")" * 500)
    assert "brackets nest deeper than 150" in _refusal(PROBLEM, deep).what
    assert "characters; at most 200" in _refusal(PROBLEM, DOMAIN.replace("press", "p" * 1000)).what


@pytest.mark.parametrize("cut", range(1, len(DOMAIN) - 2, 7))
def test_every_beginning_of_a_domain_is_refused_with_a_place(cut):
    error = _refusal(PROBLEM, DOMAIN[:cut])
    assert str(error.where).startswith("lamp.pddl")


@needs_benchmarks
def test_the_bad_files_of_the_benchmarks_are_refused_in_the_file_that_is_wrong():
    for one in json.loads((FOND / "bad" / "bad.json").read_text()):
        with pytest.raises(InputError) as caught:
            read_pddl(FOND / one["problem"], FOND / one["domain"])
        assert str(caught.value).startswith(str(FOND / one[one["wrong_file"]]))
        assert any(word in str(caught.value) for word in one["words"])


def test_a_problem_without_a_domain_says_what_to_do(tmp_path):
    (tmp_path / "one.pddl").write_text(PROBLEM)
    with pytest.raises(InputError, match=r"no domain is given, and there is no domain\.pddl beside the problem"):
        read_pddl(tmp_path / "one.pddl")
    (tmp_path / "domain.pddl").write_text(DOMAIN)
    assert read_pddl(tmp_path / "one.pddl").model.name == "one"
