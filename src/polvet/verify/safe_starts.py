"""From which start states is the policy safe? What could be proved as a region of boxes, the rest with unsafe runs or open.

`find_safe_starts` asks the methods in turn: explicit search, which tells every start state apart
(verify/safe_starts_explicit.py), then backward blocking, which needs no list of them (verify/safe_starts_backwards.py), or grids, where
values are real (verify/safe_starts_grid.py). The evidence is a `safe-region` certificate: a proof that speaks of the start states of
the region in the place of all.
"""

from __future__ import annotations

from dataclasses import replace

from polvet.budget import UNLIMITED, Budget, stopwatch
from polvet.errors import LimitReached
from polvet.kernel.starts import drawable_starts
from polvet.policy.compiled import Bound
from polvet.records.certificate_files import Certificate, certificate_head, conditions_of
from polvet.records.start_regions import Region, region_json
from polvet.verify.box_system import Parallelism
from polvet.verify.certificates import a_start
from polvet.verify.method import Request, has_reals
from polvet.verify.replay import replay
from polvet.verify.slicing import Slice, sliced
from polvet.workers.protocol import Workers

TREE_SECONDS = 10.0
"""That the search for a split tree may take besides those that finding the proof took."""


def find_safe_starts(
    bound: Bound,
    *,
    budget: Budget = UNLIMITED,
    seed: int = 0,
    threads: int = 1,
    workers: Workers | None = None,
) -> tuple[Region, Certificate | None]:
    """Return what is known of the start states, and the certificate where a part of them is proved safe."""
    from polvet.verify.safe_starts_backwards import block_all_that_fails
    from polvet.verify.safe_starts_explicit import tell_starts_apart
    from polvet.verify.safe_starts_grid import prove_start_cells

    request = Request(budget, seed, Parallelism(threads, workers))
    spent = stopwatch()
    drawable_starts(bound.task, budget=budget)  # there must be some
    part = sliced(bound)
    reals = has_reals(part.bound)
    region = tell_starts_apart(part.bound, replace(request, budget=budget.share(0.5)))
    if region.proof is None and (region.starts is None or region.starts != region.failing):
        other = (prove_start_cells if reals else block_all_that_fails)(part.bound, request)
        if other.proof is not None or not region.rest:
            region = other
        else:
            region = replace(region, reason=f"explicit: {region.reason}; {other.method}: {other.reason}")
    region = _brought_back(region, part)
    region = replace(region, figures={**region.figures, "seconds": round(spent(), 6), "left_out": list(part.left_out)})
    return region, None if region.proof is None else _certificate(region, part, budget)


def _brought_back(region: Region, part: Slice) -> Region:
    """Return the region with runs over all variables, each executed once more before it is believed."""
    rest = []
    for one in region.rest:
        if one.run is None:
            rest.append(one)
            continue
        whole = part.lift(one.run)
        replay(part.whole, whole)
        rest.append(replace(one, run=whole))
    return replace(region, rest=tuple(rest))


def _certificate(region: Region, part: Slice, budget: Budget) -> Certificate:
    """Return the certificate; one that is about all start states where nothing is left of them."""
    assert region.proof is not None
    fitted = part.whole.fitted
    head = {**certificate_head("safe-region", fitted), **conditions_of(fitted)}
    if part.kept is not None:
        head["kept"] = list(part.kept)
    proof = dict(region.proof)
    if proof["kind"] == "invariant":
        from polvet.verify.split_tree import with_tree

        try:
            within = budget.at_most(TREE_SECONDS + float(region.figures["seconds"]))
            proof = with_tree(proof, part.bound.fitted, within, None if region.is_everything else region_json(region))
        except LimitReached:
            pass  # `polvet certify` looks for it
    if region.is_everything:
        return {**head, **proof, **(a_start(part.whole, budget) if proof["kind"] == "grid" else {})}
    return {**head, "region": region_json(region), "proof": proof}
