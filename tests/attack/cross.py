"""A cross-claim oracle: what polvet says of a random tiny world, in accepted certificates and in numbers, agrees with brute force.

Engines are asked everything about a world; then their certificates are handed in again with a field changed, and for a sibling of the
world that differs in one thing. What is accepted says facts (`claims.py`): none may be false (`tiny.py`), no two may contradict each
other. A claim may always be refused.
"""

from __future__ import annotations

import contextlib
import random
import tempfile
from collections import Counter
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

import numpy as np

import polvet
from polvet.check.checker import Accepted, Subjects, check
from polvet.check.packing import pack
from polvet.errors import InputError, LimitReached, Where
from polvet.model.network import Kind, Variable
from polvet.policy.identity import policy_sha256
from polvet.records.packed import pack_columns
from polvet.sources import TaskOptions, load_task
from polvet.verify.methods import METHODS
from tests.attack.claims import above, at_most, exactly, facts_of, truth
from tests.attack.fields import mutants
from tests.attack.tiny import Operator, Table, random_tiny

MUTANTS = 1
"""Of each certificate, for its own world as for the sibling; `systematic.py` tries all of them."""


@dataclass
class Found:
    """What was asked and said, and what was wrong with it."""

    tasks: int = 0
    refused: int = 0
    certificates: Counter = field(default_factory=Counter)
    numbers: int = 0
    forged: Counter = field(default_factory=Counter)
    accepted_forgeries: Counter = field(default_factory=Counter)
    facts: int = 0
    pairs: int = 0
    wrong: list = field(default_factory=list)

    def add(self, other):
        """Count what another found, too."""
        for name in (
            "tasks",
            "refused",
            "numbers",
            "facts",
            "pairs",
            "certificates",
            "forged",
            "accepted_forgeries",
            "wrong",
        ):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def row(self):
        return {
            "tasks": self.tasks, "refused": self.refused, "certificates": dict(sorted(self.certificates.items())),
            "numbers": self.numbers, "forged": dict(sorted(self.forged.items())),
            "forged_and_true": dict(sorted(self.accepted_forgeries.items())), "facts": self.facts, "pairs": self.pairs,
            "wrong": self.wrong,
        }  # fmt: skip


def cross(seeds, *, until_wrong=False):
    """Try the worlds with these seeds; everything wrong is listed in what is returned, with its seed."""
    found = Found()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):  # where bundles of bugs go
        for seed in seeds:
            _try(seed, Path(folder), found)
            if until_wrong and found.wrong:
                break
    return found


def _try(seed, folder, found):
    rng = random.Random(seed)
    tiny = random_tiny(rng)
    found.tasks += 1
    task, policy = tiny.save(folder)
    said, certificates = [], []

    def keep(how, tiny, facts):
        for fact in facts:
            found.facts += 1
            known = truth(tiny, fact.quantity)
            if known is not None and not fact.holds(*map(Fraction, known)):
                _complain(found, seed, f"{how}: {fact} but it is {known}")
            said.append((tiny, how, fact))

    try:
        for how, what in _said(rng, tiny, task, policy):
            if isinstance(what, dict):
                found.certificates[what["kind"]] += 1
                certificates.append(what)
                if accepted(what, task, policy):
                    keep(how, tiny, facts_of(tiny, {**what, "#task": task}))
                else:
                    _complain(found, seed, f"{how}: polvet's own certificate of kind {what['kind']} is rejected")
            elif isinstance(what, Exception):
                _complain(found, seed, f"{how}: {type(what).__name__}: {what}")
            else:
                found.numbers += 1
                keep(how, tiny, what)
    except _NoStart:
        found.refused += 1
        if tiny.starts:
            _complain(found, seed, "a task with start states is refused for having none")
    other = sibling(rng, tiny)
    worlds = [(tiny, (task, policy)), (other, other.save(folder, "sibling"))]
    digests = {files: digests_of(*files) for _, files in worlds}
    for world, files in worlds:
        forgeries = [("by hand", forged) for forged in by_hand(rng, world, digests[files])]
        for certificate in certificates:
            forgeries += _forgeries(rng, certificate, digests[files], world is tiny)
        for how, forged in forgeries:
            kind = forged["kind"]
            found.forged[kind] += 1
            if accepted(forged, *files):
                found.accepted_forgeries[kind] += 1
                keep(f"forged {kind}, {how}", world, facts_of(world, {**forged, "#task": files[0]}))
    for k, (world, how, fact) in enumerate(said):
        for again, other_how, other_fact in said[:k]:
            if world is again and fact.quantity == other_fact.quantity:
                found.pairs += 1
                if fact.contradicts(other_fact):
                    _complain(found, seed, f"{how}: {fact} contradicts {other_how}: {other_fact}")


def _complain(found, seed, what):
    found.wrong.append({"seed": seed, "what": what})


def accepted(certificate, task, policy):
    """Whether the checker accepts it for these files; it may also refuse to read it, or need longer, but not break."""
    about_policy = certificate.get("policy_sha256") is not None
    try:
        return isinstance(
            check(certificate, Subjects(task, policy if about_policy else None), Where("claim")), Accepted
        )
    except (InputError, LimitReached):
        return False


def said_of(rng, tiny, task, policy):
    """Yield the certificates that polvet's engines make about the world, and one of a repair, had there been one."""
    with contextlib.suppress(_NoStart):
        yield from (what for _, what in _said(rng, tiny, task, policy) if isinstance(what, dict))
    if (made := repair_of(rng, tiny, task, policy)) is not None:
        yield made


def repair_of(rng, tiny, task, policy):
    """The certificate that the policy does not take an action that it does not take; None where it always has one choice."""
    for state in () if tiny.chain else rng.sample(tiny.states, len(tiny.states)):
        labels = {one.label for one in tiny.operators[state] if one.label is not None}
        taken = tiny.policy.choose(state, labels)
        if taken is not None and len(labels) > 1 and not tiny.errs(state):
            action = rng.choice(sorted(labels - {taken}))
            after = dict(zip(tiny.policy.outputs, map(float, tiny.policy.scores(state)), strict=True))
            fault = {
                "state": dict(zip("st", tiny.value(state), strict=True)),
                "action": action,
                "safe_actions": [taken],
            }
            head = {"kind": "repair", **digests_of(task, policy), "mode": rng.choice(["safe", "avoid"])}
            reading = "raw" if tiny.policy.raw else "filtered"
            before = {**dict.fromkeys(labels, 0.0), **after}
            return {**head, "reading": reading, "left": 0, "faults": [{**fault, "before": before, "after": after}]}
    return None


class _NoStart(Exception):
    """The task has no start state."""


def _said(rng, tiny, file, table):
    """Yield (how, certificate) and (how, facts) for what polvet says of the world."""
    try:
        task = polvet.load(file)
        policy = None if tiny.chain else task.policy(table)
    except InputError as error:
        if tiny.starts:
            raise
        raise _NoStart from error
    if tiny.chain:
        with contextlib.suppress(InputError):  # nobody chooses in a Markov chain
            yield "policy", AssertionError(f"a policy for a Markov chain is read as {task.policy(table)}")
    for how, ask in _questions(rng, tiny, task, policy):
        try:
            answer = ask()
        except InputError as error:
            if "no state satisfies" in str(error):
                raise _NoStart from error
            continue
        except LimitReached:
            continue
        except Exception as error:
            yield how, error
            continue
        certificate = getattr(answer, "certificate", None)
        if certificate is not None:
            yield how, dict(certificate)
        if callable(facts := NUMBERS.get(how.split()[0])):
            yield how, list(facts(tiny, how, answer))


def _questions(rng, tiny, task, policy):
    """Yield (how, call)."""
    states = [
        dict(zip("st", tiny.value(state), strict=True)) for state in rng.sample(tiny.states, min(3, len(tiny.states)))
    ]
    for state in states:
        yield "decide", lambda state=state: task.decide(state)
        if rng.random() < 0.4:
            yield "decide sharpened", lambda state=state: task.decide(state, sharpen=True)
        yield "goal-reaching", lambda state=state: task.decide(state, goal_reaching=True)
    yield "decide region", lambda: task.decide(region=True)
    yield from _questions_of_chance(rng, task)
    if policy is None:
        return
    methods = rng.sample([word for word in METHODS.words if word != "auto"], 2)
    for method in ("auto", "explicit", *methods):
        yield f"verify {method}", lambda method=method: policy.verify(method, time_limit=10)
    for avoid in ("stuck,deadlock,loop", rng.choice(["stuck", "deadlock", "loop", "stuck,loop"])):
        yield f"verify avoiding {avoid}", lambda avoid=avoid: policy.verify(avoid=avoid, time_limit=10)
    yield "verify region", lambda: policy.verify(region=True, time_limit=10)
    risks = [tiny.policy_risk(error=0)[state] for state in tiny.starts] or [Fraction(0)]
    for bound in {max(risks), max(risks) - Fraction(1, 10**17), Fraction(rng.choice(["0", "0.5", "0.9", "1e-17"]))}:
        if 0 <= bound <= 1:
            yield f"verify risk {bound}", lambda bound=bound: policy.verify(max_risk=str(bound), time_limit=10)


def _questions_of_chance(rng, task):
    bound = rng.choice(["0", "0.1", "0.5", "0.9", "1e-17"])
    yield f"permit {bound}", lambda: task.permit(bound, time_limit=10)
    if rng.random() < 0.3:
        yield f"permit-states {bound}", lambda: task.permit(bound, per_state=True, time_limit=10)
    for word in ("max", "min"):
        yield f"check P{word}", lambda word=word: task.check(f"P{word}=? [F fail]", exact=True, time_limit=10)


def _of_permit(tiny, how, answer):
    """A least risk that is said to be above the bound, and between which numbers it is."""
    minimum = getattr(answer, "minimum", None)
    if minimum is not None and len(tiny.starts) == 1:
        (state,) = tiny.starts
        yield above(how.split()[1], "least risk", state)
        yield at_most(Fraction(minimum[1]) * (1 + Fraction(1, 10**12)), "least risk", state)


def _of_check(tiny, how, answer):
    """The value over all that may be chosen, goal or not."""
    if answer.exact is None or len(tiny.starts) != 1 or tiny.conditions.get("goal"):
        return
    (state,) = tiny.starts
    if any(tiny.errs(one) for one in tiny.reached([state], follow=False)):
        return
    yield exactly(answer.exact, how.split()[1], state)


NUMBERS = {"permit": _of_permit, "check": _of_check}


def sibling(rng, tiny):
    """Return a world that differs in one thing: an operator, a start, the end of runs, or what the policy does."""
    states = list(tiny.operators)
    operators = {state: list(mine) for state, mine in tiny.operators.items()}
    conditions = {name: list(cases) for name, cases in tiny.conditions.items()}
    policy = tiny.policy
    state = rng.choice(states)
    match rng.randint(0, 6):
        case 0 if operators[state]:
            operators[state].pop(rng.randrange(len(operators[state])))
        case 1:
            label = rng.choice([*tiny.labels, None])
            operators[state].append(Operator(label, (("1.0", Fraction(1), rng.choice(states)),)))
        case 2:
            operators[state] = [
                replace(one, branches=tuple((text, chance, rng.choice(states)) for text, chance, _ in one.branches))
                for one in operators[state]
            ]
        case 3:
            i, j = tiny.value(state)
            conditions["start"] = [*conditions.get("start", []), [(1, 0, "=", i), (0, 1, "=", j)]]
        case 4:
            i, j = tiny.value(state)
            conditions["fail"] = [*conditions["fail"], [(1, 0, "=", i), (0, 1, "=", j)]]
        case 5:  # no start state at all
            conditions["start"] = [[(1, 0, "<", tiny.least[0])]]
        case _:
            policy = replace(policy, rows={}, default=rng.choice(policy.outputs))
    return replace(tiny, operators=operators, conditions=conditions, policy=policy, memo={})


def _forgeries(rng, certificate, digests, own):
    """Yield (how, certificate) for the files with these digests: changed in a field, or for another world not at all."""
    about = {**certificate, **{key: digest for key, digest in digests.items() if certificate.get(key) is not None}}
    if not own:
        yield "for a sibling", about
    changed = list(mutants(about, rng=rng))
    for name, how, forged in rng.sample(changed, min(MUTANTS, len(changed))):
        yield f"{name} {how}", forged


def by_hand(rng, tiny, digests):
    """Yield claims as somebody would write them who leaves something out: starts, labels of a table, what else is reached."""
    head = {"task_sha256": digests["task_sha256"]}
    followed = {**head, "policy_sha256": digests["policy_sha256"]}
    some = sorted(tiny.reached(rng.sample(tiny.states, rng.randint(0, 1))))
    rows = np.array([tiny.value(state) for state in some], dtype=np.int64).reshape(-1, 2)
    listed = {"count": len(some), "states": pack_columns([Variable(name, Kind.INT) for name in "st"], rows)}
    yield {"kind": "reachable-set", **followed, **listed}
    yield {"kind": "sure-end", **followed, **listed, "distances": [0] * len(some)}
    yield {"kind": "risk-bound", **followed, **listed, "bound": "0", "values": ["0"] * len(some)}
    region = rng.choice([{"in": []}, {"out": []}, {"out": [{}]}, {"in": [{"t": [tiny.least[1]] * 2}]}])
    yield {"kind": "safe-region", **followed, "region": region, "proof": {"kind": "reachable-set", **listed}}
    outputs = rng.sample(tiny.labels, rng.randint(1, len(tiny.labels)))
    table = {"format": "table/1", "inputs": ["t"], "outputs": outputs, "rows": [], "default": rng.choice(outputs)}
    begun = rng.choice(sorted(set(tiny.states) - tiny.safe) or tiny.states)
    taken = replace(tiny, policy=Table(tuple(outputs), {}, table["default"], False, False), memo={}).reached([begun])
    tree = {"by": "states", "nodes": 0, "packed": pack(b"")}
    named = [{"state": dict(zip("st", tiny.value(begun), strict=True))}]
    proof = {"policy": table, "rows": [], "blocked": _all_but(tiny, taken), "tree": tree}
    yield {"kind": "won-projection", **head, "start": [0], "states": named, **proof}
    yield {"kind": "invariant", **followed, "rows": [], "blocked": _all_but(tiny, some), "tree": tree}


def _all_but(tiny, states):
    """Boxes around the other states, one by one."""
    return [dict(zip("st", ([x, x] for x in tiny.value(s)), strict=True)) for s in tiny.states if s not in states]


def digests_of(task, policy):
    """What certificates about these files are addressed to."""
    digest = load_task(task, TaskOptions()).sha256
    return {"task_sha256": digest, "model_sha256": digest, "policy_sha256": policy_sha256(policy)}
