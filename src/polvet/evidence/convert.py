"""Certificates of the first format as evidence about a flat text, kind by kind, where that says the same.

A certificate names states by variables or packs them; evidence lists their values. Ranks go by one name, and what says which outcome is
meant is left out: the checker finds it. The claim stays what the kind says.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from polvet.errors import Where
from polvet.evidence.flatten import flatten
from polvet.files import Json
from polvet.model.network import Variable
from polvet.model.task import Task, state_from_names
from polvet.policy.binding import Fitted
from polvet.records.packed import unpack_columns


class CannotConvert(Exception):
    """The certificate does not say what evidence of its kind needs."""


LISTED = (
    "safe-policy", "reachable-set", "unsafe-rank", "strong-cyclic", "no-strong-cyclic", "sure-end", "permissive", "action-risk",
    "risk-bound", "risk-exceeds", "conflict",
)  # fmt: skip
KINDS = (*LISTED, "run", "livelock", "repair")
"""The kinds that can be converted."""
FAIR = ("strong-cyclic", "no-strong-cyclic", "sure-end", "livelock")
"""The kinds that count on a fair environment."""
KEPT = ("bound", "start", "rule", "horizon", "region", "actions", "end", "mode")
COLUMNS = {"distance": "rank", "round": "rank", "distances": "rank", "ranks": "rank", "values": "value"}
"""What is said of states under another name."""
SAID = ("action", "allowed", "least", "mixed", "rank", "risks", "taken", "value", *COLUMNS)


def evidence_of(certificate: Mapping[str, Any], task: Task, fitted: Fitted | None = None) -> tuple[str, Json]:
    """Return the flat text that the certificate is about, and what it says as evidence."""
    kind = certificate["kind"]
    if kind == "conflict" or (kind == "action-risk" and certificate.get("horizon") is None):
        raise CannotConvert(f"a certificate of kind {kind} has no ranks; make it again")
    if "states" not in certificate and kind != "repair":
        raise CannotConvert("it does not list its states; make it again")
    about = task if fitted is None else fitted.task
    variables: Sequence[Variable] = about.network.variables
    kept = certificate.get("kept")
    aside = [v.name for v in (*variables, *about.network.scratch) if kept is not None and v.name not in kept]
    variables = [variable for variable in variables if variable.name not in aside]
    flat = flatten(task, fitted, aside=aside)
    if certificate["kind"] in FAIR and "delay" not in certificate.get("avoids", ()):
        flat = flat.replace("(environment adversarial)", "(environment fair)")

    def values(state: Mapping[str, Any]) -> list[Any]:
        return list(map(_plain, state_from_names(about.network, state, Where("certificate"))))

    evidence: Json = {
        "format": "evidence/2",
        "kind": certificate["kind"],
        "flat_sha256": hashlib.sha256(flat.encode()).hexdigest(),
        **{key: certificate[key] for key in ("task_sha256", "policy_sha256", *KEPT) if key in certificate},
    }
    for key in ("states", "set"):
        items = certificate.get(key)
        if isinstance(items, dict):
            rows = unpack_columns(variables, items, certificate["count"])
            evidence[key] = [list(map(_plain, row)) for row in rows]
        elif isinstance(items, list) and certificate["kind"] in LISTED:
            evidence[key] = [values(item["state"]) for item in items]
            for name in {name for item in items for name in item if name in SAID}:
                evidence[COLUMNS.get(name, name)] = [item.get(name) for item in items]
        elif isinstance(items, list):
            evidence[key] = [values(item) for item in items]
    for name in COLUMNS:
        if isinstance(certificate.get(name), list):
            evidence[COLUMNS[name]] = certificate[name]
    if "faults" in certificate:
        evidence["faults"] = [{**fault, "state": values(fault["state"])} for fault in certificate["faults"]]
    if certificate["kind"] == "conflict":
        evidence["start"] = evidence["states"].index(values(certificate["start"]))
    return flat, evidence


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, bool) else value
