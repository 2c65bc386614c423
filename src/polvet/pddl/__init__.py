"""FOND-PDDL, a domain and a problem, read into the same `Model` as JANI; runs and checks nothing.

Read `lexer` (brackets and places), `parse` with `formulas` (names, arities, types), `reachable` with `facts` (which
ground actions can matter), `ground` with `numeric` (what they mean), `groups` and `bounds` (which variables tell it),
`encoding` and `translate` (the model). docs/pddl.md tells the semantics.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from polvet.errors import InputError, Where
from polvet.files import read_text
from polvet.model.signatures import is_pddl
from polvet.model.world import AS_WRITTEN, Reading, WorldFile, WorldFormat
from polvet.model.world import World as AnyWorld

if TYPE_CHECKING:
    from polvet.pddl.translate import World

SUFFIX = ".pddl"


def domain_beside(problem: str | Path) -> Path:
    """Return the domain's file where none is named: `domain.pddl` beside the problem."""
    beside = Path(problem).parent / f"domain{SUFFIX}"
    if not beside.is_file():
        what = "no domain is given, and there is no domain.pddl beside the problem."
        raise InputError(what, Where(str(problem)), 'Give it with --domain FILE, or as domain = "FILE" in a task.toml.')
    return beside


def read_pddl(problem: str | Path, domain: str | Path | None = None, reading: Reading = AS_WRITTEN) -> World:
    """Return the world of the problem in a file; the domain is by default in `domain.pddl` beside it."""
    path = domain_beside(problem) if domain is None else domain
    return load_pddl(read_text(problem), read_text(path), Where(str(problem)), Where(str(path)), reading)


def load_pddl(
    problem: str,
    domain: str,
    where: Where = Where("problem"),
    domain_where: Where = Where("domain"),
    reading: Reading = AS_WRITTEN,
) -> World:
    """Return the world of the problem and the domain that the texts are.

    >>> domain = "(define (domain d) (:predicates (p) (q)) (:action a :precondition (p) :effect (oneof (q) (not (p)))))"
    >>> load_pddl("(define (problem x) (:domain d) (:init (p)) (:goal (q)))", domain).model.actions
    ('a',)
    """
    from polvet.model.wellformed import check_model
    from polvet.pddl.parse import parse_domain, parse_problem
    from polvet.pddl.translate import translate

    known = parse_domain(domain, domain_where)
    world = translate(known, parse_problem(problem, where, known), reading=reading)
    check_model(world.model)
    return world


def _read(file: WorldFile) -> AnyWorld:
    """Return the world; its goal is a property of its model, and a goal that is given takes its place."""
    from polvet.pddl.translate import GOAL

    world = read_pddl(file.path, file.domain, file.reading)
    return AnyWorld(world.model, {"goal": f"property:{GOAL}"}, condition=world.condition, number=world.number)


PDDL = WorldFormat(
    "pddl",
    "a PDDL problem",
    "`(define`",
    _read,
    is_pddl,
    suffixes=(SUFFIX,),
    domain=domain_beside,
)
