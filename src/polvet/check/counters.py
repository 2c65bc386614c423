"""What the two checkers for finite-memory policies share: finding the policy, and reading integers and shapes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from polvet.check.checker import Rejected, Subjects, find_other_file
from polvet.errors import InputError, Where
from polvet.files import read_text
from polvet.policy.finite_memory import FiniteMemoryPolicy, load_fmp, parse_fmp
from polvet.policy.finite_memory.load import is_its

_INTEGER = re.compile(r"-?\d{1,4000}")


class Malformed(Exception):
    """Part of a certificate does not have the shape its kind asks for; becomes a rejection."""


def find_subject(
    certificate: Mapping[str, Any], subjects: Subjects, *, about_every_run: bool
) -> FiniteMemoryPolicy | Rejected:
    """Return the policy the certificate speaks about: the given file, else the copy inside the certificate.

    A transition system is read as an abstraction that can do more than the system: claims about every run carry
    over; a run of the abstraction, or where it stops, says nothing.
    """
    if subjects.task is not None:
        # SOUND: a run of an abstraction may have no counterpart in the system.
        if not about_every_run and is_its(read_text(subjects.task)):
            return Rejected("a run of the abstraction is no run of the transition system")
        return find_other_file(certificate, subjects) or load_fmp(
            subjects.task, policy=subjects.policy, budget=subjects.budget
        )
    if "fmp" not in certificate:
        raise InputError("the certificate holds no copy of its policy.", hint="Give the file with --task.")
    try:
        return parse_fmp(certificate["fmp"], Where("certificate").at("fmp"))
    except InputError as error:
        return Rejected(str(error))


def about(fmp: FiniteMemoryPolicy, subjects: Subjects) -> str:
    """Return how to name the policy in a claim."""
    return str(subjects.task) if subjects.task is not None else f"{fmp.name} (the copy in the certificate)"


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
