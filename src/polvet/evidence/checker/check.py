"""Judge evidence about a flat text: `python -I -S check.py WORLD.flat EVIDENCE`.

Prints the claim with its assumptions and exits with 0 where the evidence shows it; prints the obligation and the place and exits
with 10 where it does not; exits with 30 where a text is not what its format says. Nothing but Python's standard library is used.
"""

from __future__ import annotations

import hashlib
import json
import sys
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

if not __package__:  # run as a program: the folder is a package of its own
    sys.path.append(str(Path(__file__).resolve().parent.parent))
    __package__ = Path(__file__).resolve().parent.name

from .text import Rejected as Rejected
from .text import Unreadable as Unreadable
from .world import ModelFault, World

Checker = Callable[[World, Mapping[str, Any], str], tuple[str, dict[str, int]]]
CHECKERS: dict[str, str] = {
    **dict.fromkeys(
        (
            "safe-policy",
            "reachable-set",
            "unsafe-rank",
            "strong-cyclic",
            "no-strong-cyclic",
            "sure-end",
            "risk-bound",
            "risk-exceeds",
            "conflict",
        ),
        "listed:check_listed",
    ),
    **dict.fromkeys(("permissive", "action-risk"), "shields:check_shield"),
    **dict.fromkeys(("run", "livelock"), "paths:check_run"),
    "repair": "paths:check_repair",
}
"""By kind the module and the function that judge it."""


@dataclass(frozen=True)
class Verdict:
    """What the evidence shows: the claim with its assumptions, and how often each obligation was discharged."""

    claim: str
    assumptions: tuple[str, ...]
    obligations: Mapping[str, int] = field(default_factory=dict)


def check(
    flat: str | bytes,
    evidence: str | bytes,
    *,
    only: list[int] | None = None,
    watch: Callable[[], None] | None = None,
) -> Verdict:
    """Return what the evidence shows of the flat text; raise Rejected or Unreadable.

    `only`: the listed states that another checker has left to this one; `watch` is called with every state that is looked at.
    """
    flat = flat.encode() if isinstance(flat, str) else flat
    given = read_evidence(evidence)
    digest = hashlib.sha256(flat).hexdigest()
    if given.get("flat_sha256") != digest:
        raise Rejected(f"subject: it is about the flat text {given.get('flat_sha256')}, not about {digest}")
    kind = given.get("kind")
    if kind not in CHECKERS:
        raise Unreadable(f"there is no kind {kind!r}; known are {', '.join(sorted(CHECKERS))}")
    sys.setrecursionlimit(1_000_000)  # expressions may nest deeply; Python's own frames are not on the machine's stack
    module, function = CHECKERS[kind].split(":")
    checker: Checker = getattr(import_module(f".{module}", __package__), function)
    world = World(flat.decode())
    world.only, world.watch = only, watch
    try:
        claim, obligations = checker(world, given, kind)
    except ModelFault as fault:
        raise Rejected(f"model errors: {fault}") from None
    return Verdict(claim, assumptions_of(world), obligations)


def assumptions_of(world: World) -> tuple[str, ...]:
    """Return in words what the meaning of the text assumes."""
    said, words = world.meaning, []
    if avoid := said.get("avoid"):
        words.append(f"failing includes {' and '.join(avoid)}")
    if said.get("environment") == ["fair"]:
        words.append("the environment is fair: what is possible again and again comes in the end")
    if world.is_chance:
        words.append("all enabled operators are equally likely")
    if world.policy is not None:
        words.append(f"the policy's choice is {'sampled' if said.get('choose') == ['sampled'] else 'the best label'}")
        words += ["by execution: the answers of a function are as listed"] if world.policy[0] == "answers" else []
    if said.get("errors", ["all"])[0] == "aside":
        words.append(f"errors in computing {', '.join(said['errors'][1:])} aside")
    return tuple(words)


def read_evidence(data: str | bytes) -> dict[str, Any]:
    """Return the object of an evidence file, which may be compressed with gzip."""
    if isinstance(data, bytes):
        data = (zlib.decompress(data, 47) if data[:2] == b"\x1f\x8b" else data).decode()

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(made := dict(pairs)) < len(pairs):
            raise Unreadable("a key stands twice")
        return made

    def refuse(word: str) -> Any:
        raise Unreadable(f"{word} is not a number of JSON")

    found = json.loads(data, object_pairs_hook=once, parse_constant=refuse)
    if not isinstance(found, dict) or found.get("format") not in ("evidence/2", "shield/1"):
        raise Unreadable("the evidence does not say that its format is evidence/2")
    return found


def main(arguments: list[str]) -> int:
    """Judge the files that are named."""
    if len(arguments) != 2:
        print("usage: python -I -S check.py WORLD.flat EVIDENCE", file=sys.stderr)
        return 30
    try:
        verdict = check(*(Path(path).read_bytes() for path in arguments))
    except Rejected as reason:
        print(f"rejected: {reason}")
        return 10
    except (Unreadable, OSError, ValueError, zlib.error, KeyError, TypeError, IndexError) as error:
        print(f"unreadable: {error}", file=sys.stderr)
        return 30
    done = ", ".join(f"{name} {times}" for name, times in verdict.obligations.items())
    print(
        "\n".join([f"accepted: {verdict.claim}", *(f"  assuming: {one}" for one in verdict.assumptions), f"  ({done})"])
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
