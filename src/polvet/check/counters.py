"""What the two checkers for finite-memory policies share: finding the policy, and reading integers and shapes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from polvet.check.subjects import Rejected, Subjects, find_other_file
from polvet.errors import InputError, LimitReached, Where
from polvet.files import read_text
from polvet.policy.finite_memory import FiniteMemoryPolicy, load_fmp, parse_fmp
from polvet.policy.finite_memory.goal import parse_goal
from polvet.policy.finite_memory.load import is_its
from polvet.policy.finite_memory.projection import Place, part_between, project
from polvet.policy.finite_memory.sketch import Sketch, is_sketch, read_sketch
from polvet.policy.finite_memory.starts import started

SHOWN = 200
"""Letters of starts or a goal that a claim names; the certificate has all of them."""
_INTEGER = re.compile(r"-?\d{1,4000}")


class Malformed(Exception):
    """Part of a certificate does not have the shape its kind asks for; becomes a rejection."""


def find_subject(
    certificate: Mapping[str, Any], subjects: Subjects, *, about_every_run: bool, about_endless_run: bool = False
) -> FiniteMemoryPolicy | Rejected:
    """Return the policy the certificate speaks about: the given file, else the copy inside the certificate.

    A transition system is read as an abstraction that can do more than the system: claims about every run carry
    over; a run of the abstraction, or where it stops, says nothing. Of a sketch a certificate may name `features`: it then
    speaks of the projection on these, which can do more, too; or `between`, control states: it then speaks of the
    part of the sketch between them, which can do less, so that only a run that never ends carries over. With `start` it
    speaks of executions from these starts, and `about` says so.
    """
    fmp = _whole_subject(certificate, subjects, about_every_run, about_endless_run)
    if isinstance(fmp, Rejected) or "start" not in certificate:
        return fmp
    if not isinstance(certificate["start"], str) or "features" in certificate or "between" in certificate:
        return Rejected("'start' is no text, or stands beside a part of a sketch")
    try:
        return started(fmp, parse_goal(certificate["start"], fmp, "start"))
    except InputError as error:
        return Rejected(str(error))


def _whole_subject(
    certificate: Mapping[str, Any], subjects: Subjects, about_every_run: bool, about_endless_run: bool
) -> FiniteMemoryPolicy | Rejected:
    if subjects.task is not None:
        # SOUND: a run of an abstraction may have no counterpart in the system.
        if not about_every_run and is_its(read_text(subjects.task)):
            return Rejected("a run of the abstraction is no run of the transition system")
        if (other := find_other_file(certificate, subjects)) is not None:
            return other
        if "features" in certificate or "between" in certificate:
            return _part_of_sketch(certificate, subjects, about_every_run, about_endless_run)
        return load_fmp(subjects.task, policy=subjects.policy, budget=subjects.budget)
    if "fmp" not in certificate:
        raise InputError("the certificate holds no copy of its policy.", hint="Give the file with --task.")
    try:
        return parse_fmp(certificate["fmp"], Where("certificate").at("fmp"))
    except InputError as error:
        return Rejected(str(error))


def _part_of_sketch(
    certificate: Mapping[str, Any], subjects: Subjects, about_every_run: bool, about_endless_run: bool
) -> FiniteMemoryPolicy | Rejected:
    assert subjects.task is not None
    text = read_text(subjects.task)
    if not is_sketch(text):
        return Rejected(f"the certificate names features or control states of a sketch; {subjects.task} is none")
    sketch = read_sketch(text, Where(str(subjects.task)))
    try:
        if "features" not in certificate and about_endless_run:
            places = [_place(sketch, item) for item in sequence(certificate["between"], "between")]
            return part_between(sketch, places)
        if "between" not in certificate and about_every_run:
            names = sequence(certificate["features"], "features")
            if unknown := [name for name in names if name not in sketch.features.names]:
                raise Malformed(f"features: no feature {unknown[0]!r}")
            return project(sketch, names, subjects.budget)[0]
    except Malformed as error:
        return Rejected(str(error))
    except LimitReached as limit:
        if limit.kind is not None:
            raise
        return Rejected(str(limit))
    # SOUND: a projection may run where the sketch does not, a part may stop where the sketch does not.
    return Rejected("what holds of this part of the sketch says nothing of the sketch")


def _place(sketch: Sketch, item: Any) -> Place:
    """Return the control state: its memory state, and a 0 or 1 for each feature."""
    match item:
        case [str(memory), str(bits)] if memory in sketch.memory and len(bits) == len(sketch.features.names):
            if set(bits) <= {"0", "1"}:
                return memory, tuple(bit == "1" for bit in bits)
    raise Malformed(f"between: {str(item)[:60]} is no control state of the sketch")


def about(fmp: FiniteMemoryPolicy, subjects: Subjects, certificate: Mapping[str, Any]) -> str:
    """Return how to name the policy in a claim, with the starts that it speaks of."""
    name = str(subjects.task) if subjects.task is not None else f"{fmp.name} (the copy in the certificate)"
    if "start" not in certificate:
        return name
    return f"{name} from {shortened(str(certificate['start']))}"


def shortened(text: str) -> str:
    """Return the text, or its beginning."""
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def integer(item: Any, what: str) -> int:
    """Return the integer, which may stand as a string."""
    if isinstance(item, int) and not isinstance(item, bool):
        return item
    if isinstance(item, str) and _INTEGER.fullmatch(item):
        return int(item)
    raise Malformed(f"{what} is not an integer")


def mapping(item: Any, what: str) -> Mapping[str, Any]:
    """Return the object, or complain that it is none."""
    if not isinstance(item, dict):
        raise Malformed(f"{what} is not an object")
    return item


def sequence(item: Any, what: str) -> list[Any]:
    """Return the list, or complain that it is none."""
    if not isinstance(item, list):
        raise Malformed(f"{what} is not a list")
    return item
