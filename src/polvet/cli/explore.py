"""`polvet explore TASK`: every reachable state, counted."""

from __future__ import annotations

from polvet.cli.options import Answering, Followed, Output, StartedWorld, Threaded, policy_lines


def explore(
    world: StartedWorld, limits: Threaded, following: Followed, answering: Answering, output: Output = None
) -> int:
    """Count reachable states; goal and fail states are left, too. Example: `polvet explore brp.jani --constants N=16,MAX=2`."""
    task, followed = following.open(world)
    with answering.watch("explore", "exploring", limits) as within:
        exploration = task.explore(followed, **within)
    figures = exploration.figures
    seconds = figures["explore_seconds"]
    lines = [
        f"states       {exploration.states:,} ({figures['initial']:,} initial)",
        f"choices      {figures['choices']:,} (state, label) pairs; {figures['operators']:,} operators",
        f"transitions  {exploration.transitions:,}",
        f"deadlocks    {exploration.deadlocks:,}",
        f"speed        {seconds:.3f} s, {exploration.states / seconds if seconds else 0.0:,.0f} states/s, "
        f"{figures['bytes_per_state']} bytes per state",
    ]
    if followed is not None and following.policy is not None:
        lines += [
            policy_lines(followed.fitted, following.policy)[0],
            f"stuck        {figures['stuck']:,}; near ties {figures['near_ties']:,}",
        ]
    if output is not None:
        lines.append(f"written      {exploration.save(output)}")
    return answering.say(exploration, lines)
