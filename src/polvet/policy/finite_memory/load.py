"""Loading a finite-memory policy from a file, whatever of the known formats it is in: told by content."""

from __future__ import annotations

import re
from pathlib import Path

from polvet.budget import UNLIMITED, Budget
from polvet.errors import InputError, Where
from polvet.files import MAX_DEPTH, depth_of, parse_json, read_text
from polvet.policy.finite_memory.edge_list import parse_edge_list
from polvet.policy.finite_memory.fmp import FiniteMemoryPolicy
from polvet.policy.finite_memory.fmp_json import parse_fmp
from polvet.policy.finite_memory.its import abstract_its, parse_its
from polvet.policy.finite_memory.qnp import build_from_qnp, parse_qnp
from polvet.policy.finite_memory.sketch import parse_sketch

_QNP = re.compile(r"\s*\S.*\n\s*\d+(\s+\S+\s+[01])+[ \t]*\n")


def is_its(text: str) -> bool:
    """Return whether the text is an integer transition system: KoAT rules or the SMT-LIB form."""
    return text.lstrip().startswith(("(GOAL", "(declare-sort"))


def load_fmp(path: str | Path, *, policy: str | Path | None = None, budget: Budget = UNLIMITED) -> FiniteMemoryPolicy:
    """Return the finite-memory policy in the file; a `.qnp` problem needs its policy in a second file.

    An integer transition system is abstracted: its runs are runs of the policy, but not the other way round.
    """
    text = read_text(path)
    where = Where(str(path))
    if text.lstrip()[:1] in ("{", "[") and "->" not in text.lstrip().splitlines()[0]:
        if text.count("[") + text.count("{") > MAX_DEPTH and (depth := depth_of(text)) > MAX_DEPTH:
            raise InputError(
                f"the document nests {depth} deep; at most {MAX_DEPTH} is read.", where, "Flatten the document."
            )
        return parse_fmp(parse_json(text, where), where)
    if is_its(text):
        return abstract_its(parse_its(text, where), budget)
    if str(path).endswith(".qnp") or _QNP.match(text):
        if policy is None:
            raise InputError("a .qnp problem needs a policy.", where, "Give its file with --policy.")
        return build_from_qnp(parse_qnp(text, where), read_text(policy), Where(str(policy)), budget)
    if any("->" in line for line in text.splitlines()):
        return parse_sketch(text, where, budget)
    return parse_edge_list(text, where)
