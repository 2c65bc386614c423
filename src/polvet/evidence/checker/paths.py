"""Evidence that is a run, made by the world and by the policy where the text has one; and what a repaired policy chooses."""

from __future__ import annotations

from .listed import Choices, Evidence, List, choices_of, label_or_none, labels
from .policies import Chooser
from .text import Rejected, Unreadable
from .world import ModelFault, State, World

ENDS = {
    "fail": "reaches fail",
    "stuck": "comes to where the policy is stuck",
    "deadlock": "comes to a deadlock",
    "loop": "comes to where it goes on for ever",
}


def check_run(world: World, evidence: Evidence, kind: str) -> tuple[str, dict[str, int]]:
    """Return the claim that the run shows; a `livelock` also lists the states in which it then stays."""
    items, actions, end = evidence.get("states"), evidence.get("actions"), evidence.get("end")
    if not isinstance(items, list) or not isinstance(actions, list) or len(items) != len(actions) + 1:
        raise Unreadable("'states' is not a list with one state more than 'actions'")
    if end not in ENDS or (end == "loop") != (kind == "livelock"):
        raise Unreadable(f"a {kind} does not end in {end}")
    states = [world.checked(item) for item in items]
    chooser = Chooser(world) if world.policy is not None else None
    if not world.is_start(states[0]):
        raise Rejected(f"starts: {world.show(states[0])} is not a start state")
    for k, action in enumerate(actions):
        choices, chosen = _step(world, chooser, states[k], k)
        if chosen is not None and (not chosen or action not in (None, *chosen)):
            raise Rejected(f"choices: the policy chooses {chosen or 'nothing'}, not {action}, in states[{k}]")
        if not any(
            after == states[k + 1]
            for label, outcomes in world.moves(states[k])
            if label == action
            for _, after in outcomes
        ):
            raise Rejected(f"steps: {action or 'a silent operator'} does not lead from states[{k}] to states[{k + 1}]")
    last = states[-1]
    if end == "fail":
        if not world.is_fail(last):
            raise Rejected(f"ends of runs: the last state {world.show(last)} is not a fail state")
    elif end == "loop":
        return _check_loop(world, evidence, last, len(actions), chooser)
    else:
        choices, chosen = _step(world, chooser, last, len(actions))
        if choices if end == "deadlock" else not choices or chosen is None or chosen:
            raise Rejected(f"ends of runs: the last state {world.show(last)} is not a {end}")
    who = "the policy" if chooser else "the world"
    return f"a run of {who} {ENDS[end]} after {len(actions)} steps", {
        "starts": 1,
        "steps": len(actions),
        "ends of runs": 1,
    }


def _step(world: World, chooser: Chooser | None, state: State, k: int) -> tuple[Choices, list[str | None] | None]:
    """Return what may be chosen, and what the policy chooses of it (None: anything, `[]`: it is stuck); runs go on in the state."""
    try:
        if world.is_fail(state) or world.is_goal(state):
            raise Rejected(f"ends of runs: runs end in states[{k}] ({world.show(state)})")
        choices = choices_of(world, state)
        if chooser is None or not choices or None in choices:
            return choices, None
        return choices, chooser.executed(state, choices.keys())
    except ModelFault as fault:
        raise Rejected(f"model errors: {fault}") from None


def _check_loop(
    world: World, evidence: Evidence, last: State, steps: int, chooser: Chooser | None
) -> tuple[str, dict[str, int]]:
    """Return the claim, once the listed states are found to be left by no run of the policy and to end none."""
    the = List.of(world, evidence, chooser, "set")
    if last not in the.place:
        raise Rejected("ends of runs: the last state of the run is not in the set")
    for k, state in enumerate(the.states):
        choices, _ = _step(world, None, state, k)
        chosen, stuck = (
            ([*choices], False) if chooser is None or None in choices else chooser.choose(state, choices.keys())
        )
        if not choices or stuck or len(chosen) != 1:
            raise the.reject("ends of runs", k, "may end a run, or is where the choice is not certain")
        for outcomes in choices[chosen[0]]:
            for _, after in outcomes:
                if after not in the.place:
                    raise the.reject("outcomes", k, f"may lead to {world.show(after)}, which is not in the set")
    done = {"starts": 1, "steps": steps, "states": len(the.states)}
    return f"a run of the policy {ENDS['loop']}, without the goal, after {steps} steps", done


def check_repair(world: World, evidence: Evidence, kind: str) -> tuple[str, dict[str, int]]:
    """Return the claim that in each listed fault the policy takes another action: with the mode "safe" one of the safe ones."""
    faults, chooser, mode = evidence.get("faults"), Chooser(world), evidence.get("mode")
    if not isinstance(faults, list) or mode not in ("safe", "avoid"):
        raise Unreadable("'faults' is not a list, or 'mode' neither safe nor avoid")
    if not faults:
        raise Rejected("faults: there is none, so that nothing is claimed")
    for k, fault in enumerate(faults):
        state, action, safe = (
            world.checked(fault["state"]),
            label_or_none(fault["action"]),
            labels(fault["safe_actions"]),
        )
        choices = choices_of(world, state)
        chosen, stuck = chooser.choose(state, choices.keys())
        if stuck or action in chosen or action in safe or (mode == "safe" and not set(chosen) <= set(safe)):
            raise Rejected(
                f"choices: faults[{k}] ({world.show(state)}): the policy takes {chosen or 'nothing'}{' or is stuck' * stuck}"
            )
    what = "takes a listed safe action" if mode == "safe" else "does not take the faulty action"
    return f"the policy {what} in each of {len(faults)} faults", {"choices": len(faults)}
