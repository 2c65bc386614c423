"""Loading a finite-memory policy from a file, whatever of the known formats it is in: told by content."""

from __future__ import annotations

from pathlib import Path

from polvet.errors import InputError, Where
from polvet.files import MAX_DEPTH, depth_of, parse_json, read_text
from polvet.policy.finite_memory.edge_list import parse_edge_list
from polvet.policy.finite_memory.fmp import FiniteMemoryPolicy
from polvet.policy.finite_memory.fmp_json import parse_fmp


def load_fmp(path: str | Path, *, policy: str | Path | None = None) -> FiniteMemoryPolicy:
    """Return the finite-memory policy in the file; a `.qnp` problem needs its policy in a second file."""
    text = read_text(path)
    where = Where(str(path))
    start = text.lstrip()[:1]
    if start in ("{", "["):
        if text.count("[") + text.count("{") > MAX_DEPTH and (depth := depth_of(text)) > MAX_DEPTH:
            raise InputError(f"the document nests {depth} deep; at most {MAX_DEPTH} is read.", where)
        return parse_fmp(parse_json(text, where), where)
    return parse_edge_list(text, where)
