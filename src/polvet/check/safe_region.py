"""Checking `safe-region`: from every start state of a region, runs of the policy avoid `fail`; of other starts nothing is said.

The certificate gives `region` (see `check.start_region`) and `proof`, the body of a certificate of another kind, which must prove its
claim with the start states of the region in the place of all: `reachable-set`, `invariant` or `grid` of a policy; or, where no policy is
named, `safe-policy`: some policy avoids `fail` from there. The region must have a start state: the proof may name a `witness`. The kind
is one of its own, so that whoever asks for a claim about all starts does not take one about some of them for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from polvet.check.all_starts import check_some_start
from polvet.check.arena import Arena, find_arena_with_deadlocks
from polvet.check.followed import Followed, find_policy_arena
from polvet.check.grid import check_cells
from polvet.check.invariant import check_claim
from polvet.check.reachable_set import check_closed_set
from polvet.check.safe_policy import check_safe_states
from polvet.check.start_region import read_region
from polvet.check.subjects import Accepted, CheckResult, Rejected, Subjects
from polvet.files import Json

HEAD = ("task_sha256", "policy_sha256", "options", "kept", "region")
"""What the certificate says itself: its proof must not say it once more, and perhaps otherwise."""


def check_safe_region(certificate: Mapping[str, Any], subjects: Subjects) -> CheckResult:
    """Return whether the proof shows that runs from the start states of the region avoid `fail`."""
    proof, region = certificate.get("proof"), certificate.get("region")
    if not isinstance(proof, dict) or any(key in proof for key in HEAD):
        return Rejected(f"'proof' is not the body of a certificate, without {', '.join(HEAD)}")
    if proof.get("kind") == "safe-policy":
        return _about_states(certificate, proof, region, subjects)
    return _about_policy(certificate, proof, region, subjects)


def _about_policy(certificate: Mapping[str, Any], proof: Json, region: Any, subjects: Subjects) -> CheckResult:
    whole = None if "kept" in certificate else proof.get("witness")  # it names the variables that are kept
    followed = find_policy_arena({**certificate, "avoids": proof.get("avoids", []), "witness": whole}, subjects)
    arena = _narrowed(followed.arena, region, proof.get("witness"))
    who = f"{subjects.policy} in {arena.about}"
    match proof.get("kind"):
        case "reachable-set":
            result = check_closed_set(Followed(arena, followed.fitted), proof, who)
        case "invariant":
            result = check_claim(arena, followed.fitted, proof, who)
        case "grid":
            result = check_cells(Followed(arena, followed.fitted), proof, who)
        case other:
            return Rejected(f"a proof of kind {other!r} does not show that a policy is safe from a region")
    return _about_the_region(result, region, f"no run of {who}")


def _about_states(certificate: Mapping[str, Any], proof: Json, region: Any, subjects: Subjects) -> CheckResult:
    if "policy_sha256" in certificate or "kept" in certificate:
        return Rejected("a proof of kind 'safe-policy' is about no policy in particular")
    arena = find_arena_with_deadlocks({**certificate, "avoids": proof.get("avoids", [])}, subjects, safe=True)
    narrowed = _narrowed(arena, region, proof.get("witness"))
    return _about_the_region(check_safe_states(narrowed, proof), region, f"in {arena.about}, no run of some policy")


def _narrowed(arena: Arena, region: Any, witness: Any) -> Arena:
    """Return the arena with the start states of the region alone, of which there is one: the witness, or one that is found."""
    narrowed = replace(arena, region=read_region(region, arena.task.network.variables, arena.is_fail))
    check_some_start(narrowed, witness)
    return narrowed


def _about_the_region(result: CheckResult, region: Any, who: str) -> CheckResult:
    """Return the answer, with a claim that says what it is about."""
    if isinstance(result, Rejected):
        return result
    ((side, boxes),) = region.items()
    where = f"in one of {len(boxes)} boxes" if side == "in" else f"outside fail and {len(boxes)} boxes"
    return Accepted(f"{who} that begins in a start state {where} reaches fail; nothing is said of other starts")
