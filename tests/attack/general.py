"""False claims about general policies: that planted mistakes hold in problems that refute them, that right policies are refuted.

What is true of the policies stands in `tests/general/worlds.py`; which problems refute a mistake is found out by playing it here, on
states as sets of atoms' bits, with the rules' own words for what they offer.
"""

from __future__ import annotations

from contextlib import nullcontext

from polvet.check.checker import Subjects
from polvet.errors import Where
from polvet.features.instances import read_instance
from polvet.general.follow import follow
from polvet.pddl.parse import parse_domain
from polvet.policy.finite_memory.sketch import read_sketch
from polvet.policy.finite_memory.valuations import meanings_of
from polvet.termination.sketches import sketch_terminates
from polvet.termination.verdicts import Terminating
from tests.general.worlds import WORLDS

SMALL = ("gripper", "blocks", "spanner")


def _followed(world, policy, seed):
    sketch = read_sketch(policy, Where("s"))
    text = world.instance(seed)
    instance = read_instance(text, Where("p"), parse_domain(world.domain, Where("d")))
    return sketch, text, follow(sketch, meanings_of(sketch, {}), instance)


def false_claims(rng, folder):
    """Yield claims that a policy with a planted mistake reaches the goal in a problem in which it does not."""
    world = WORLDS[rng.choice([name for name in SMALL if name in WORLDS])]
    old, new, _ = rng.choice(list(world.mistakes.values()))
    wrong = world.policy.replace(old, new)
    seed = rng.randrange(12)
    sketch, text, followed = _followed(world, wrong, seed)
    if followed.failure is None:
        return
    file = folder / "policy.txt"
    file.write_text(wrong)
    ranking, _ = sketch_terminates(sketch)
    _, _, right = _followed(world, world.policy, seed)
    proof = dict(ranking.certificate) if isinstance(ranking, Terminating) else {"components": [], "features": []}
    proof.pop("fmp", None)
    graph = _graph(sketch, followed.instance, rng)
    for places in (
        [[m, f"{s:x}", rank] for (m, s), rank in right.ranks.items()],
        [[m, f"{s:x}", rank] for (m, s), rank in graph.items()],
        [[m, f"{s:x}", rank] for (m, s), rank in graph.items() if rng.random() < 0.9],
        [[m, f"{s:x}", 1000 - k] for k, (m, s) in enumerate(graph)],
        [],
    ):
        problem = {"name": "p.pddl", "text": text, "places": places}
        yield {**proof, "kind": "general", "domain": world.domain, "problems": [problem]}, Subjects(file), nullcontext()


def _graph(sketch, instance, rng):
    """Places that steps of the world reach, ranked so that the first step found from each falls, where that can be."""
    start = (sketch.memory[0], instance.initial)
    found, agenda = {start: 0}, [start]
    for memory, state in agenda:
        for _, outcomes in instance.moves(state) if len(found) < 400 and not instance.is_goal(state) else ():
            for one in outcomes:
                if (memory, one) not in found:
                    found[memory, one] = 0
                    agenda.append((memory, one))
    return {place: len(found) - k + rng.choice((0, 0, 1)) for k, place in enumerate(agenda)}


def false_runs(rng, folder):
    """Yield runs that shall refute a right policy: of planted mistakes, or cut, or with another end."""
    world = WORLDS[rng.choice([name for name in SMALL if name in WORLDS])]
    seed = rng.randrange(12)
    file = folder / "policy.txt"
    file.write_text(world.policy)
    claims = []
    for old, new, _ in world.mistakes.values():
        _, text, followed = _followed(world, world.policy.replace(old, new), seed)
        if followed.failure is not None:
            claims.append(
                (followed.failure.places, followed.failure.actions, followed.failure.kind, followed.failure.back_to)
            )
    sketch, text, right = _followed(world, world.policy, seed)
    here, places, actions = (sketch.memory[0], right.instance.initial), [], []
    while True:
        places.append(here)
        if not right.steps[here]:
            break
        here = rng.choice(right.steps[here])
        moves = right.instance.moves(places[-1][1])
        actions.append(next(action for action, outcomes in moves if here[1] in outcomes))
    cut = rng.randrange(len(places))
    claims += [
        (places, actions, "stuck", None), (places[: cut + 1], actions[:cut], "stuck", None),
        (places[: cut + 1], actions[:cut], "claim", None), ([*places[: cut + 1], places[0]], [*actions[: cut + 1]], "cycle", 0),
        (places, actions, "cycle", 0), (places, actions, "claim", None),
    ]  # fmt: skip
    for run, done, failure, back in claims:
        certificate = {
            "kind": "general-refuted", "domain": world.domain, "problem": {"name": "p.pddl", "text": text}, "failure": failure,
            "places": [[m, f"{s:x}"] for m, s in run], "actions": list(done)[: len(run) - 1], "back_to": back,
        }  # fmt: skip
        yield certificate, Subjects(file), nullcontext()
