"""A region of safe start states, as lines for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from polvet.front.region import Rest, SafeRegion

MOST_SHOWN = 10
WIDEST = 2_000


def region_lines(region: SafeRegion) -> list[str]:
    """Return how many start states are proved, the condition that says which, and the rest with its runs."""
    lines = [f"method       {region.method}"]
    share = "" if region.share is None else f"{100 * region.share:.4g}% of "
    about = "" if region.proved is None or region.share in (0.0, 1.0) else f" ({region.proved:,} are proved safe)"
    count = "the" if region.starts is None else f"{region.starts:,}"
    lines.append(f"safe from    {share}{count} start states{about}")
    if (volume := region.volume) is not None and region.rest:
        how = "by volume" if volume.drawn is None else f"of {volume.drawn:,} drawn start states"
        lines.append(
            f"left         {100 * volume.unsafe:.4g}% in parts with a start that fails, {100 * volume.open:.4g}% open ({how})"
        )
    if region.condition is not None and region.rest:
        text = region.condition if len(region.condition) <= WIDEST else f"{region.condition[:WIDEST]}..."
        lines.append(f"  if         {text}")
    for name, parts in (("unsafe", region.unsafe), ("open", region.open)):
        if parts:
            lines.append(f"{name:12} {len(parts):,} part{'s' if len(parts) > 1 else ''} of the rest")
            lines += [f"  {_part_line(part)}" for part in parts[:MOST_SHOWN]]
            lines += [f"  ... and {len(parts) - MOST_SHOWN:,} more"] if len(parts) > MOST_SHOWN else []
    return lines


def _part_line(part: Rest) -> str:
    count = "" if part.starts is None else f" ({part.starts:,} start{'' if part.starts == 1 else 's'})"
    if part.run is not None:
        return f"{part.condition}{count}: a run of {len(part.run):,} step{'' if len(part.run) == 1 else 's'}"
    return f"{part.condition}{count}" + (f": {part.reason}" if part.reason else "")
