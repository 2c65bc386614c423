"""Ways of writing that published domains have: each means what a naive interpreter does, state by state."""

import pytest

from tests.pddl.test_meaning import agree

TYPES = "(:types car truck - vehicle vehicle place) (:constants depot - place)"
WORDS = "(:predicates (at ?v - vehicle ?p - place) (road ?p ?q - place) (broken ?v - (either car truck)) (wet) (done))"
PROBLEM = """(define (problem x) (:domain d) (:objects c - car t - truck b - place)
  (:init (at c depot) (at t b) (road depot b) (road b depot) (wet)) (:goal {}))"""
DOMAIN = "(define (domain d) (:requirements :adl) " + TYPES + WORDS + " {})"
ACTIONS = {
    "upper-case": "(:ACTION Drive :PARAMETERS (?V - Vehicle ?P - PLACE) :PRECONDITION (AND (AT ?v DEPOT) (NOT (Broken ?V))) :EFFECT "
    "(AND (NOT (at ?v depot)) (ONEOF (at ?V ?P) (BROKEN ?v))))",
    "empty-precondition": "(:action dry :parameters () :precondition () :effect (oneof (wet) (not (wet))))",
    "no-parameters": "(:action dry :precondition (wet) :effect (not (wet))) (:action rain :effect (wet))",
    "oneof-under-when": "(:action go :parameters (?v - vehicle) :effect (and (when (wet) (oneof (broken ?v) (and (done) (not "
    "(wet))))) (done)))",
    "oneof-under-forall": "(:action storm :effect (forall (?v - vehicle) (oneof (broken ?v) (and))))",
    "forall-when-oneof": "(:action storm :effect (forall (?v - vehicle ?p - place) (when (at ?v ?p) (oneof (broken ?v) (wet) "
    "(not (wet))))))",
    "constants": "(:action home :parameters (?v - vehicle) :precondition (not (at ?v depot)) :effect (and (at ?v depot) "
    "(forall (?p - place) "
    "(when (and (at ?v ?p) (not (= ?p depot))) (not (at ?v ?p))))))",
    "either": "(:action crash :parameters (?v - (either car truck)) :effect (oneof (broken ?v) (and)))",
    "probabilities-below-1": "(:action try :effect (and (probabilistic 0.3 (done) 1/10 (not (wet))) (probabilistic .5 (not (done)))))",
    "nested-and": "(:action go :parameters (?v - vehicle) :precondition (and (and (at ?v depot)) (and)) :effect (and (and (and (done)) "
    "(oneof (and (and (wet))) (and (not (wet)) (and)))) ()))",
    "two-arities": "(:action go :parameters (?v - car) :effect (broken ?v)) (:action go :parameters (?v - car ?p - place) "
    ":effect (at ?v ?p))",
    "unused-parameter": "(:action look :parameters (?v - vehicle ?p - place) :precondition (wet) :effect (oneof (not (wet)) (done)))",
    "add-and-delete": "(:action swap :parameters (?p ?q - place) :effect (and (forall (?v - vehicle) (when (at ?v ?p) (and "
    "(not (at ?v ?p)) "
    "(at ?v ?q))))))",
    "exists-in-when": "(:action call :effect (when (exists (?v - vehicle) (and (at ?v depot) (not (broken ?v)))) (oneof (done) (wet))))",
    "inequality": "(:action tow :parameters (?v ?w - vehicle) :precondition (not (= ?v ?w)) :effect (oneof (not (broken ?v)) (broken ?w)))",
}  # fmt: skip
GOALS = [
    "(done)",
    "(and (not (wet)) (not (broken c)))",
    "(forall (?v - vehicle) (not (at ?v depot)))",
    "(exists (?v - car) (broken ?v))",
]


@pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS)
def test_a_published_way_of_writing_means_what_the_naive_interpreter_does(action):
    for goal in GOALS:
        agree(DOMAIN.format(action), PROBLEM.format(goal), limit=30)
