"""Six planning domains written for the tests, instances of any size, general policies, and the mistakes planted in them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class World:
    """A domain, a maker of instances by seed, a policy that is right, and wrong ones by name: (old, new, kind of failure)."""

    domain: str
    instance: Callable[[int], str]
    policy: str
    mistakes: dict[str, tuple[str, str, str]]


def _problem(domain: str, seed: int, objects: str, init: list[str], goal: list[str]) -> str:
    return (
        f"(define (problem {domain}-{seed}) (:domain {domain})\n (:objects {objects})\n"
        f" (:init {' '.join(init)})\n (:goal (and {' '.join(goal)})))\n"
    )


GRIPPER = """(define (domain gripper) (:requirements :typing) (:types room ball gripper)
 (:predicates (at-robby ?r - room) (at ?b - ball ?r - room) (free ?g - gripper) (carry ?b - ball ?g - gripper))
 (:action move :parameters (?from ?to - room) :precondition (and (at-robby ?from) (not (= ?from ?to)))
   :effect (and (at-robby ?to) (not (at-robby ?from))))
 (:action pick :parameters (?b - ball ?r - room ?g - gripper) :precondition (and (at ?b ?r) (at-robby ?r) (free ?g))
   :effect (and (carry ?b ?g) (not (at ?b ?r)) (not (free ?g))))
 (:action drop :parameters (?b - ball ?r - room ?g - gripper) :precondition (and (carry ?b ?g) (at-robby ?r))
   :effect (and (at ?b ?r) (free ?g) (not (carry ?b ?g)))))
"""


def _gripper(seed: int) -> str:
    draw = random.Random(seed)
    balls = [f"ball{i}" for i in range(1 + seed % 5)]
    init = [f"(at {ball} {draw.choice(['rooma', 'rooma', 'roomb'])})" for ball in balls]
    init += [f"(at-robby {draw.choice(['rooma', 'roomb'])})", "(free left)", "(free right)"]
    goal = [f"(at {ball} roomb)" for ball in balls]
    return _problem("gripper", seed, f"rooma roomb - room left right - gripper {' '.join(balls)} - ball", init, goal)


GRIPPER_POLICY = """# A: the robot is away from the target; c: balls carried; b: balls that are not where they belong
boolean A "b_empty(c_and(c_primitive(at-robby,0),c_primitive(at_g,1)))"
numeric c "n_count(c_primitive(carry,0))"
numeric b "n_count(c_not(c_equal(r_primitive(at,0,1),r_primitive(at_g,0,1))))"
A, c = 0, b > 0 -> c-up
!A, c = 0, b > 0 -> A
A, c > 0, b > 0 -> !A
!A, c > 0, b > 0 -> c-down, b-down
"""

BLOCKS = """(define (domain blocks) (:predicates (on ?x ?y) (ontable ?x) (clear ?x) (handempty) (holding ?x))
 (:action pick-up :parameters (?x) :precondition (and (clear ?x) (ontable ?x) (handempty))
   :effect (and (holding ?x) (not (ontable ?x)) (not (clear ?x)) (not (handempty))))
 (:action put-down :parameters (?x) :precondition (holding ?x)
   :effect (and (clear ?x) (handempty) (ontable ?x) (not (holding ?x))))
 (:action stack :parameters (?x ?y) :precondition (and (holding ?x) (clear ?y))
   :effect (and (clear ?x) (handempty) (on ?x ?y) (not (holding ?x)) (not (clear ?y))))
 (:action unstack :parameters (?x ?y) :precondition (and (on ?x ?y) (clear ?x) (handempty))
   :effect (and (holding ?x) (clear ?y) (not (on ?x ?y)) (not (clear ?x)) (not (handempty)))))
"""


def _blocks(seed: int) -> str:
    draw = random.Random(seed)
    blocks = [f"b{i}" for i in range(3 + seed % 4)]
    draw.shuffle(blocks)
    init, towers = ["(handempty)"], []
    for block in blocks:
        if towers and draw.random() < 0.75:
            tower = draw.choice(towers)
            init.append(f"(on {block} {tower[-1]})")
            tower.append(block)
        else:
            init.append(f"(ontable {block})")
            towers.append([block])
    init += [f"(clear {tower[-1]})" for tower in towers]
    buried = [block for tower in towers for block in tower[:-1]] or [blocks[0]]
    return _problem("blocks", seed, " ".join(blocks), init, [f"(clear {draw.choice(buried)})"])


BLOCKS_POLICY = """# E: the hand is empty; n: blocks above the one that is to be clear
boolean E "b_nullary(handempty)"
numeric n "n_count(c_some(r_transitive_closure(r_primitive(on,0,1)),c_primitive(clear_g,0)))"
E, n > 0 -> !E, n-down
!E, n > 0 -> E
"""

DELIVERY = """(define (domain delivery) (:requirements :typing) (:types cell package)
 (:predicates (adjacent ?a ?b - cell) (truck ?c - cell) (at ?p - package ?c - cell) (in ?p - package) (empty))
 (:action move :parameters (?a ?b - cell) :precondition (and (truck ?a) (adjacent ?a ?b))
   :effect (and (truck ?b) (not (truck ?a))))
 (:action load :parameters (?p - package ?c - cell) :precondition (and (truck ?c) (at ?p ?c) (empty))
   :effect (and (in ?p) (not (at ?p ?c)) (not (empty))))
 (:action unload :parameters (?p - package ?c - cell) :precondition (and (truck ?c) (in ?p))
   :effect (and (at ?p ?c) (empty) (not (in ?p)))))
"""


def _grid(width: int, height: int, relation: str) -> tuple[list[str], list[str]]:
    cells = [(x, y) for x in range(width) for y in range(height)]
    links = [
        f"({relation} c{x}-{y} c{x + a}-{y + b})" for x, y in cells for a, b in ((1, 0), (-1, 0), (0, 1), (0, -1))
        if (x + a, y + b) in cells
    ]  # fmt: skip
    return [f"c{x}-{y}" for x, y in cells], links


def _delivery(seed: int) -> str:
    draw = random.Random(seed)
    cells, init = _grid(2 + seed % 3, 2 + seed % 2, "adjacent")
    packages = [f"p{i}" for i in range(1 + seed % 3)]
    target = draw.choice(cells)
    init += [f"(at {package} {draw.choice(cells)})" for package in packages] + [
        f"(truck {draw.choice(cells)})",
        "(empty)",
    ]
    goal = [f"(at {package} {target})" for package in packages]
    return _problem("delivery", seed, f"{' '.join(cells)} - cell {' '.join(packages)} - package", init, goal)


AWAY = "c_diff(c_primitive(at,0),c_equal(r_primitive(at,0,1),r_primitive(at_g,0,1)))"
DELIVERY_POLICY = f"""# E: nothing is loaded; u: packages not delivered; p, t: distances to the nearest of them and to the target
boolean E "b_nullary(empty)"
numeric u "n_count(c_not(c_equal(r_primitive(at,0,1),r_primitive(at_g,0,1))))"
numeric p "n_concept_distance(c_primitive(truck,0),r_primitive(adjacent,0,1),c_some(r_inverse(r_primitive(at,0,1)),{AWAY}))"
numeric t "n_concept_distance(c_primitive(truck,0),r_primitive(adjacent,0,1),c_primitive(at_g,1))"
E, u > 0, p > 0 -> p-down, t?
E, u > 0, p = 0 -> !E, p?
!E, u > 0, t > 0 -> t-down, p?
!E, u > 0, t = 0 -> E, u-down, p?
"""

VISITALL = """(define (domain visitall) (:requirements :typing) (:types cell)
 (:predicates (connected ?a ?b - cell) (at-robot ?c - cell) (visited ?c - cell))
 (:action move :parameters (?a ?b - cell) :precondition (and (at-robot ?a) (connected ?a ?b))
   :effect (and (at-robot ?b) (visited ?b) (not (at-robot ?a)))))
"""


def _visitall(seed: int) -> str:
    draw = random.Random(seed)
    cells, init = _grid(2 + seed % 2, 2 + seed % 3 // 2, "connected")
    start = draw.choice(cells)
    init += [f"(at-robot {start})", f"(visited {start})"]
    return _problem("visitall", seed, f"{' '.join(cells)} - cell", init, [f"(visited {cell})" for cell in cells])


VISITALL_POLICY = """# u: cells not visited; d: the distance to the nearest of them
numeric u "n_count(c_not(c_primitive(visited,0)))"
numeric d "n_concept_distance(c_primitive(at-robot,0),r_primitive(connected,0,1),c_not(c_primitive(visited,0)))"
u > 0 -> u-down, d?
u > 0, d > 0 -> d-down
"""

SPANNER = """(define (domain spanner) (:requirements :typing) (:types location locatable - object man nut spanner - locatable)
 (:predicates (at ?x - locatable ?l - location) (carrying ?s - spanner) (usable ?s - spanner) (link ?a ?b - location)
   (loose ?n - nut) (tightened ?n - nut))
 (:action walk :parameters (?m - man ?a ?b - location) :precondition (and (at ?m ?a) (link ?a ?b))
   :effect (and (at ?m ?b) (not (at ?m ?a))))
 (:action pickup :parameters (?m - man ?s - spanner ?l - location) :precondition (and (at ?m ?l) (at ?s ?l))
   :effect (and (carrying ?s) (not (at ?s ?l))))
 (:action tighten :parameters (?m - man ?s - spanner ?n - nut ?l - location)
   :precondition (and (at ?m ?l) (at ?n ?l) (carrying ?s) (usable ?s) (loose ?n))
   :effect (and (tightened ?n) (not (loose ?n)) (not (usable ?s)))))
"""


def _spanner(seed: int) -> str:
    draw = random.Random(seed)
    nuts = [f"nut{i}" for i in range(1 + seed % 3)]
    spanners = [f"spanner{i}" for i in range(len(nuts) + seed % 2)]
    places = ["shed", *(f"loc{i}" for i in range(1 + seed % 4)), "gate"]
    init = [f"(link {a} {b})" for a, b in pairwise(places)] + ["(at bob shed)"]
    init += [f"(at {one} {draw.choice(places[1:-1])}) (usable {one})" for one in spanners]
    init += [f"(at {nut} gate) (loose {nut})" for nut in nuts]
    objects = f"bob - man {' '.join(nuts)} - nut {' '.join(spanners)} - spanner {' '.join(places)} - location"
    return _problem("spanner", seed, objects, init, [f"(tightened {nut})" for nut in nuts])


HERE = "c_some(r_inverse(r_primitive(at,0,1)),c_primitive(man,0))"
SPANNER_POLICY = f"""# h: spanners where the man is; g: his distance to the nuts; n: loose nuts
numeric h "n_count(c_and(c_primitive(spanner,0),c_some(r_primitive(at,0,1),{HERE})))"
numeric g "n_concept_distance({HERE},r_primitive(link,0,1),c_some(r_inverse(r_primitive(at,0,1)),c_primitive(nut,0)))"
numeric n "n_count(c_primitive(loose,0))"
h > 0 -> h-down
h = 0, g > 0 -> g-down, h?
h = 0, g = 0, n > 0 -> n-down
"""

MICONIC = """(define (domain miconic) (:requirements :typing) (:types passenger floor)
 (:predicates (origin ?p - passenger ?f - floor) (destin ?p - passenger ?f - floor) (boarded ?p - passenger)
   (served ?p - passenger) (lift-at ?f - floor))
 (:action go :parameters (?a ?b - floor) :precondition (and (lift-at ?a) (not (= ?a ?b)))
   :effect (and (lift-at ?b) (not (lift-at ?a))))
 (:action board :parameters (?f - floor ?p - passenger)
   :precondition (and (lift-at ?f) (origin ?p ?f) (not (boarded ?p)) (not (served ?p))) :effect (boarded ?p))
 (:action depart :parameters (?f - floor ?p - passenger) :precondition (and (lift-at ?f) (destin ?p ?f) (boarded ?p))
   :effect (and (served ?p) (not (boarded ?p)))))
"""


def _miconic(seed: int) -> str:
    draw = random.Random(seed)
    floors = [f"f{i}" for i in range(2 + seed % 3)]
    people = [f"p{i}" for i in range(1 + seed % 4)]
    init = [f"(lift-at {draw.choice(floors)})"]
    for one in people:
        origin, destin = draw.sample(floors, 2)
        init.append(f"(origin {one} {origin}) (destin {one} {destin})")
    objects = f"{' '.join(people)} - passenger {' '.join(floors)} - floor"
    return _problem("miconic", seed, objects, init, [f"(served {one})" for one in people])


WAITING = "c_diff(c_primitive(passenger,0),c_or(c_primitive(boarded,0),c_primitive(served,0)))"
MICONIC_POLICY = f"""# w: passengers waiting, o: here; b: passengers boarded, t: who want to get out here
numeric w "n_count({WAITING})"
numeric o "n_count(c_and({WAITING},c_some(r_primitive(origin,0,1),c_primitive(lift-at,0))))"
numeric b "n_count(c_primitive(boarded,0))"
numeric t "n_count(c_and(c_primitive(boarded,0),c_some(r_primitive(destin,0,1),c_primitive(lift-at,0))))"
t > 0 -> t-down, b-down
t = 0, o > 0 -> o-down, w-down, b-up
t = 0, o = 0, b > 0 -> t-up, o?
t = 0, o = 0, b = 0, w > 0 -> o-up
"""

WORLDS = {
    "gripper": World(GRIPPER, _gripper, GRIPPER_POLICY, {
        "no way back": ("!A, c = 0, b > 0 -> A\n", "", "stuck"),
        "drops anywhere": ("!A, c > 0, b > 0 -> c-down, b-down", "c > 0, b > 0 -> c-down, b?", "cycle"),
        "a claim too much": ("A, c = 0, b > 0 -> c-up", "A, c = 0, b > 0 -> c-up, b-down : pick", "claim"),
    }),
    "blocks": World(BLOCKS, _blocks, BLOCKS_POLICY, {
        "stacks it back": ("!E, n > 0 -> E", "!E, n > 0 -> E, n?", "cycle"),
        "picks up anything": ("E, n > 0 -> !E, n-down", "E, n > 0 -> !E, n-down : unstack pick-up", "claim"),
        "counts the wrong way": ("r_transitive_closure(r_primitive(on,0,1))", "r_transitive_closure(r_primitive(on,1,0))", "stuck"),
    }),
    "delivery": World(DELIVERY, _delivery, DELIVERY_POLICY, {
        "unloads anywhere": ("!E, u > 0, t = 0 -> E, u-down, p?", "!E, u > 0 -> E, u?, p?", "cycle"),
        "forgets that p changes": ("E, u > 0, p = 0 -> !E, p?", "E, u > 0, p = 0 -> !E", "stuck"),
    }),
    "visitall": World(VISITALL, _visitall, VISITALL_POLICY, {
        "walks about": ("u > 0, d > 0 -> d-down", "u > 0, d > 0 -> d?", "cycle"),
        "only to the next": ("u > 0, d > 0 -> d-down\n", "", "stuck"),
    }),
    "spanner": World(SPANNER, _spanner, SPANNER_POLICY, {
        "leaves spanners": ("h = 0, g > 0 -> g-down, h?", "g > 0 -> g-down, h?", "stuck"),
        "claims on walking": ("h = 0, g > 0 -> g-down, h?", "h = 0, g > 0 -> g-down : walk", "claim"),
    }),
    "miconic": World(MICONIC, _miconic, MICONIC_POLICY, {
        "goes up and down": ("t = 0, o = 0, b > 0 -> t-up, o?", "t = 0, o = 0, b > 0 -> t?, o?", "cycle"),
        "never fetches": ("t = 0, o = 0, b = 0, w > 0 -> o-up\n", "", "stuck"),
    }),
}  # fmt: skip
