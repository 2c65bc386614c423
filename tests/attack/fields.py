"""Every field of a document left out, emptied, doubled, shrunk, and blown up: what a checker must survive, and see through.

A field is a path such as `states[].state.x`: all items of a list count as one field, of which some are changed. Text that holds packed
bytes is changed as numbers, too.
"""

from __future__ import annotations

import base64
import binascii
import math
import zlib

HUGE = [sign * (2**power + by) for power in (31, 53, 63) for by in (-1, 0, 1) for sign in (1, -1)]
ODD = [math.nan, math.inf, -math.inf, -0.0, 0.5, 1e308]
CLAIMED = ("kind", "task_sha256", "policy_sha256", "model_sha256", "old_policy_sha256", "format")
"""What says which files a claim is about is left alone: nothing else is told by it."""


def mutants(document, *, most=3, rng=None):
    """Yield (field, how, document with that field changed); of the items of a list the first, the last, and some between."""
    for field, places in _places(document).items():
        if field.split(".")[0] in CLAIMED:
            continue
        kept = [*places[:1], *places[-1:]] if len(places) > 1 else places
        if rng is not None and len(places) > 2:
            kept += rng.sample(places[1:-1], min(most - 2, len(places) - 2))
        for place in kept[:most]:
            yield field, "left out", _without(document, place)
            here = _at(document, place)
            for how, value in _changes(here):
                if repr(value) != repr(here):
                    yield field, how, _with(document, place, value)


def _places(document):
    """Paths to every part of the document, by the name of the field."""
    found = {}
    pending = [((), "", document)]
    while pending:
        place, name, part = pending.pop(0)
        if place:
            found.setdefault(name, []).append(place)
        if isinstance(part, dict):
            pending += [((*place, key), f"{name}.{key}".lstrip("."), value) for key, value in part.items()]
        elif isinstance(part, list):
            pending += [((*place, k), f"{name}[]", value) for k, value in enumerate(part)]
    return found


def _at(document, place):
    for key in place:
        document = document[key]
    return document


def _with(document, place, value):
    """The document with another value at that place; parts that stay as they are are shared."""
    changed = document.copy()
    changed[place[0]] = _with(document[place[0]], place[1:], value) if len(place) > 1 else value
    return changed


def _without(document, place):
    changed = document.copy()
    if len(place) == 1:
        del changed[place[0]]
    else:
        changed[place[0]] = _without(document[place[0]], place[1:])
    return changed


def _changes(value):
    """Yield (how, another value) for a part of a document."""
    if isinstance(value, bool):
        yield "shrunk", not value
        yield "emptied", None
        yield "blown up", 2**63
    elif isinstance(value, int | float):
        yield "emptied", 0
        yield "doubled", 2 * value
        yield from (("shrunk", other) for other in (value - 1, value + 1, -value, value // 2 if value == value else 0))
        yield from (("blown up", other) for other in (*HUGE, *ODD, str(HUGE[6]), str(value), None))
    elif isinstance(value, str):
        yield "emptied", ""
        yield "doubled", value + value
        yield "shrunk", value[:-1]
        yield "blown up", 2**63
        yield from _other_text(value)
    elif isinstance(value, list):
        yield "emptied", []
        yield "doubled", value + value
        if value:
            yield "doubled", [*value, value[0]]
            yield "shrunk", value[1:]
            yield "shrunk", value[:-1]
            yield "shrunk", value[::-1]
        yield "blown up", None
    elif isinstance(value, dict):
        yield "emptied", {}
        yield "blown up", []
        yield "blown up", None
    else:
        yield "blown up", 2**63
        yield "emptied", ""
        yield "doubled", "a"


def _other_text(value):
    """Yield other numbers where text is one, and other bytes where it is packed."""
    try:
        number = int(value)
    except ValueError:
        pass
    else:
        yield from (("blown up", str(other)) for other in HUGE)
        yield "shrunk", str(number - 1)
        yield "doubled", str(number + 1)
        return
    if "/" in value and all(part.isdigit() for part in value.split("/")):
        above, below = value.split("/")
        yield "shrunk", f"{max(0, int(above) - 1)}/{below}"
        yield "doubled", f"{int(above) + 1}/{below}"
        yield "blown up", f"{above}/0"
        yield "blown up", f"{above}/{2**63}"
        return
    try:
        raw = zlib.decompress(base64.b64decode(value, validate=True))
    except (binascii.Error, ValueError, zlib.error):
        return
    for how, other in _other_bytes(raw):
        yield how, base64.b64encode(zlib.compress(other)).decode("ascii")


def _other_bytes(raw):
    yield "emptied", b""
    yield "emptied", bytes(len(raw))
    yield "doubled", raw + raw
    yield "shrunk", raw[:-1]
    yield "shrunk", raw[1:]
    yield "shrunk", raw[8:] + raw[:8]
    yield "blown up", b"\xff" * len(raw)
    for k in {0, len(raw) // 2, len(raw) - 1} if raw else ():
        for by in (1, 255):
            yield "shrunk" if by > 1 else "doubled", raw[:k] + bytes([(raw[k] + by) % 256]) + raw[k + 1 :]
    if len(raw) >= 8:
        for huge in (2**31, 2**53 + 1, 2**63 - 1, -(2**63)):
            yield "blown up", huge.to_bytes(8, "little", signed=True) + raw[8:]
            yield "blown up", raw[:-8] + huge.to_bytes(8, "little", signed=True)
