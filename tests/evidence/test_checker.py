"""The reference checker against brute force over tables: what it accepts is true, and honest evidence is accepted."""

from __future__ import annotations

import ast
import hashlib
import json
import random
import shutil
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

import polvet.evidence.checker as package
from polvet.evidence.checker.check import CHECKERS, Rejected, Unreadable, check
from tests.evidence.games import LABELS, Game, random_game

FOLDER = Path(package.__file__).parent
DOCS = Path(__file__).parents[2] / "docs"


def judged(text, evidence):
    """Return the claim that the evidence shows, or None."""
    made = {"format": "evidence/2", "flat_sha256": hashlib.sha256(text.encode()).hexdigest(), **evidence}
    try:
        return check(text, json.dumps(made)).claim
    except Rejected:
        return None


def state(s):
    return [s, s % 2]


# -- honest evidence, made of what brute force knows


def safe_policy(game):
    safe = game.safe_states()
    action = {}
    for s in safe:
        moves = {} if s in game.goal else game.moves(s)
        good = [label for label, its in moves.items() if all(t in safe for move in its for _, t in move)]
        action[s] = good[0] if good else None
    listed = sorted(safe)
    return {"kind": "safe-policy", "states": [*map(state, listed)], "action": [action[s] for s in listed], "start": [0]}


def unsafe_rank(game):
    safe, rank = game.safe_states(), {}
    while True:
        more = {}
        for s in set(range(game.size)) - safe - rank.keys():
            moves = {} if s in game.fail else game.moves(s)
            if moves is None:
                continue
            if not moves or all(any(t in rank for move in its for _, t in move) for its in moves.values()):
                more[s] = len(rank)
        if not more:
            break
        rank |= more
    listed = sorted(rank)
    return {"kind": "unsafe-rank", "states": [*map(state, listed)], "rank": [rank[s] for s in listed], "start": [0]}


def reachable_set(game):
    return {"kind": "reachable-set", "states": [*map(state, sorted(game.reached(game.starts)))]}


def policy_choices(game):
    return lambda s: [] if game.is_over(s) or not game.policy_moves(s)[0] else [game.policy_moves(s)[0]]


def risk_bound(game):
    listed = sorted(game.reached(game.starts))
    value = [game.risk_of_policy(s) for s in listed]
    bound = max((value[listed.index(s)] for s in game.starts), default=Fraction(0))
    return {"kind": "risk-bound", "states": [*map(state, listed)], "value": [*map(str, value)], "bound": str(bound)}


def distances(targets, near_of, inside):
    """Return how far each state is from the targets, where `near_of(s, near)` says that it is one step further."""
    rank = dict.fromkeys(targets, 0)
    while True:
        more = {s: len(rank) for s in inside - rank.keys() if near_of(s, rank)}
        if not more:
            return rank
        rank |= more


def sure_end(game):
    inside = game.reached(game.starts)
    moves = {s: [] if game.is_over(s) else game.policy_moves(s)[0] or [] for s in inside}
    enough = any if game.fair else all

    def near(s, rank):
        return bool(moves[s]) and enough(any(t in rank for _, t in move) for move in moves[s])

    rank = distances([s for s in inside if not moves[s]], near, inside)
    listed = sorted(inside)
    return {"kind": "sure-end", "states": [*map(state, listed)], "rank": [rank.get(s, 0) for s in listed]}


def strong_cyclic(game):
    inside = {s for s in range(game.size) if not game.fails(s)}

    def options(s):
        return [] if game.is_over(s) else list((game.moves(s) or {}).values())

    won = game.surely_reaches(options, game.goal - game.fail, inside)
    enough, rank, action = any if game.fair else all, dict.fromkeys(won & game.goal, 0), {}
    while more := {
        s: (label, len(rank))
        for s in won - rank.keys()
        for label, its in game.moves(s).items()
        if all(t in won for move in its for _, t in move) and enough(any(t in rank for _, t in move) for move in its)
    }:
        rank |= {s: number for s, (_, number) in more.items()}
        action |= {s: label for s, (label, _) in more.items()}
    listed = sorted(won)
    said = {"action": [action.get(s) for s in listed], "rank": [rank[s] for s in listed]}
    return {"kind": "strong-cyclic", "states": [*map(state, listed)], "start": [0], **said}


def ranks(game, value, choices):
    """Return the ranks of states in which every choice has a move that keeps the value and may come nearer to an end."""

    def keeps(s, move, rank):
        mean = Fraction(sum(w * value[t] for w, t in move)) / sum(w for w, _ in move)
        return mean >= value[s] and any(t in rank or not value[t] for _, t in move)

    ended = [s for s in value if not value[s] or not choices(s)]

    def near(s, rank):
        return all(any(keeps(s, move, rank) for move in moves) for moves in choices(s))

    return distances(ended, near, set(value))


def with_ranks(game, kind, value, choices, bound, start):
    rank, listed = ranks(game, value, choices), sorted(value)
    said = {"value": [str(value[s]) for s in listed], "rank": [rank.get(s, 0) for s in listed]}
    return {"kind": kind, "states": [*map(state, listed)], "start": start, "bound": str(bound), **said}


def risk_exceeds(game):
    game.avoid = ()
    value = {s: game.risk_of_policy(s) for s in game.reached(game.starts)}
    start = max(game.starts, key=value.get, default=0)
    return with_ranks(
        game,
        "risk-exceeds",
        value,
        policy_choices(game),
        value.get(start, 0) / 2,
        sorted(value).index(start) if value else 0,
    )


def all_choices(game):
    return lambda s: [] if game.is_over(s) else list((game.moves(s) or {}).values())


def conflict(game):
    game.avoid, game.faulty = (), set()
    value = {s: game.least_risk(s) for s in range(game.size) if s not in game.faulty}
    start = max(set(game.starts) & value.keys(), key=value.get, default=None)
    if start is None:
        return {"states": []}
    return with_ranks(game, "conflict", value, all_choices(game), value[start] / 2, sorted(value).index(start))


def permissive(game):
    game.faulty, listed = set(), [*range(game.size)]

    def moves_of(s):
        return [move for moves in all_choices(game)(s) for move in moves]

    value = {s: game.worst_risk(s, moves_of) for s in listed}
    allowed = [[] if game.is_over(s) else list(game.moves(s)) for s in listed]
    bound = max((value[s] for s in game.starts if s in value), default=0)
    said = {"value": [str(value[s]) for s in listed], "allowed": allowed, "bound": str(bound)}
    return {"kind": "permissive", "states": [*map(state, listed)], **said}


def no_strong_cyclic(game):
    """Round after round, what is not won any more: by an outcome lost before, or since the choice never comes nearer to the goal."""
    game.fair, game.faulty = True, set()
    inside = {s for s in range(game.size) if not game.fails(s)}
    won = game.surely_reaches(all_choices(game), game.goal - game.fail, inside)
    rank, left = dict.fromkeys(game.fail, 0), set(range(game.size)) - game.fail
    number = 0
    while left - won:
        number += 1
        near = {s for s in left if s in game.goal}
        while more := {
            s
            for s in left - near
            if any(
                not any(t in rank for m in its for _, t in m) and any(t in near for m in its for _, t in m)
                for its in all_choices(game)(s)
            )
        }:
            near |= more
        lost = left - near
        if not lost:
            break
        rank |= dict.fromkeys(lost, number)
        left -= lost
    listed = sorted(s for s in rank if s not in game.faulty)
    return {
        "kind": "no-strong-cyclic",
        "states": [*map(state, listed)],
        "rank": [rank[s] for s in listed],
        "start": [0],
    }


def run(game):
    """A run of the policy to wherever it fails, or ends."""
    paths, pending = {s: ([s], []) for s in game.starts}, list(game.starts)
    for s in pending:
        _moves, end = ((), "fail" if s in game.fail else "goal") if game.is_over(s) else game.policy_moves(s)
        states, actions = paths[s]
        if end in ("fail", "stuck", "deadlock"):
            return {"kind": "run", "states": [*map(state, states)], "actions": actions, "end": end}
        for _, outcomes in () if end else [(label, out) for label, out in labelled(game, s)]:
            for _, t in outcomes:
                if t not in paths:
                    paths[t] = [*states, t], [*actions, _label_of(game, s, t)]
                    pending.append(t)
    return {"kind": "run", "states": []}


def labelled(game, s):
    moves, _ = game.policy_moves(s)
    return [(label, out) for label, its in game.moves(s).items() for out in its if out in moves]


def _label_of(game, s, t):
    """Return a label under which the policy may come from s to t: a silent operator's, or its own."""
    return next(
        label
        for source, label, out in game.operators
        if source == s and (label is None or label == chosen_label(game, s)) and any(w and x == t for w, x in out)
    )


def chosen_label(game, s):
    moves = game.moves(s)
    return (
        game.choices[s] if game.raw or game.choices[s] in moves else next(label for label in LABELS if label in moves)
    )


POLICY = (reachable_set, risk_bound, sure_end, risk_exceeds, run)
MAKERS = (safe_policy, unsafe_rank, reachable_set, risk_bound, sure_end, strong_cyclic, no_strong_cyclic)
MAKERS += (permissive, risk_exceeds, conflict, run)


def truth(game: Game, evidence) -> bool:
    """Return whether what the evidence claims is true of the table."""
    states = [s for s, _ in evidence["states"]]
    match evidence["kind"]:
        case "safe-policy":
            return bool(evidence["start"]) and all(states[k] in game.safe_states() for k in evidence["start"])
        case "unsafe-rank":
            safe = game.safe_states()
            return bool(evidence["start"]) and all(states[k] not in safe for k in evidence["start"])
        case "reachable-set":
            return game.policy_is_safe(game.starts)
        case "risk-bound":
            risks = [game.risk_of_policy(s) for s in game.starts]
            return bool(risks) and max(risks) <= Fraction(evidence["bound"])
        case "sure-end":
            inside = game.reached(game.starts)
            if not game.policy_is_safe(game.starts):
                return False
            moves = {s: [] if game.is_over(s) else game.policy_moves(s)[0] or [] for s in inside}
            won = game.surely_reaches(
                lambda s: [moves[s]] if moves[s] else [], {s for s in inside if not moves[s]}, inside
            )
            return won == inside and bool(inside)
        case "strong-cyclic":
            inside = {s for s in range(game.size) if not game.fails(s)}

            def options(s):
                return [] if game.is_over(s) else list((game.moves(s) or {}).values())

            won = game.surely_reaches(options, game.goal - game.fail, inside)
            return bool(evidence["start"]) and all(states[k] in won for k in evidence["start"])
        case "no-strong-cyclic":
            inside, fair = {s for s in range(game.size) if not game.fails(s)}, game.fair
            game.fair = True
            won = game.surely_reaches(all_choices(game), game.goal - game.fail, inside)
            game.fair = fair
            return bool(evidence["start"]) and all(states[k] not in won for k in evidence["start"])
        case "permissive":
            allowed = dict(zip(states, evidence["allowed"], strict=True))

            def moves_of(s):
                return [] if game.is_over(s) else [m for a in allowed[s] for m in (game.moves(s) or {})[a]]

            seen, pending = set(game.starts), list(game.starts)
            while pending:
                s = pending.pop()
                if s not in allowed or (not game.is_over(s) and game.moves(s) and not allowed[s]):
                    return False
                fresh = {t for move in moves_of(s) for _, t in move} - seen
                seen |= fresh
                pending += fresh
            risks = [game.worst_risk(s, lambda x: moves_of(x) if x in seen else []) for s in game.starts]
            return bool(risks) and max(risks) <= Fraction(evidence["bound"])
        case "risk-exceeds":
            start = states[evidence["start"]]
            return start in game.starts and game.risk_of_policy(start) > Fraction(evidence["bound"])
        case "conflict":
            start = states[evidence["start"]]
            return start in game.starts and game.least_risk(start) > Fraction(evidence["bound"])
        case "run":
            ends = {"fail": lambda s: s in game.fail}
            how = ends.get(
                evidence["end"], lambda s: not game.is_over(s) and game.policy_moves(s)[1] == evidence["end"]
            )
            return any(how(s) for s in game.reached(game.starts))
    raise AssertionError(evidence["kind"])


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.__name__)
def test_honest_evidence_is_accepted_and_false_evidence_is_not(maker):
    accepted = refused = 0
    for seed in range(300):
        rng = random.Random(seed)
        game = random_game(rng)
        policy = maker in POLICY
        if policy and game.faulty & game.reached(game.starts):
            continue  # nothing is claimed of a policy that comes to an error of the model
        evidence = maker(game)
        text = game.text(rng, policy=policy)
        if not evidence["states"]:
            continue
        true = truth(game, evidence)
        assert (judged(text, evidence) is not None) == true, (seed, evidence, text)
        accepted, refused = accepted + true, refused + (not true)
    assert accepted > 40


def mutated(rng, evidence):
    """Return the evidence with something changed: left out, emptied, doubled, exchanged, moved by one or blown up."""
    made = json.loads(json.dumps(evidence))
    key = rng.choice([key for key in made if key != "kind"])
    match rng.randrange(6), made[key]:
        case 0, _:
            del made[key]
        case 1, list():
            made[key] = []
        case 2, list() as items if items:
            items.append(rng.choice(items))
        case 3, list() as items if items:
            del items[rng.randrange(len(items))]
            for other in ("rank", "value", "action"):
                if key == "states" and other in made:
                    made[other] = made[other][: len(items)]
        case 4, list() as items if items:
            k = rng.randrange(len(items))
            items[k] = changed(rng, items[k])
        case _, item:
            made[key] = changed(rng, item)
    return made


def changed(rng, item):
    match item:
        case list() if item:
            return [*item[:-1], changed(rng, item[-1])]
        case int():
            return rng.choice([item - 1, item + 1, 0, 2**31, 2**53 + 1, 2**63, -1, float(item)])
        case str():
            return rng.choice(["0", "1", "a", "b", "1/2", str(item), "1e400", "-0"])
        case _:
            return rng.choice([0, "a", None, [], {}])


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.__name__)
def test_what_is_accepted_after_a_change_is_true(maker):
    tried = accepted = 0
    for seed in range(150):
        rng = random.Random(seed)
        game = random_game(rng)
        evidence = maker(game)
        text = game.text(rng, policy=maker in POLICY)
        for _ in range(6):
            if not evidence["states"]:
                break
            made = mutated(rng, evidence)
            tried += 1
            try:
                answer = judged(text, made)
            except (Unreadable, ValueError, KeyError, TypeError):
                continue
            if answer is not None:
                accepted += 1
                assert truth(game, made), (seed, made, text)
    assert tried > 300


# -- independence


def test_the_checker_uses_the_standard_library_alone():
    for file in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names.append(node.module)
            assert all(name.split(".")[0] in sys.stdlib_module_names for name in names), (file, names)


def test_a_copy_of_the_folder_judges_alone(tmp_path):
    shutil.copytree(FOLDER, tmp_path / "copied")
    game = Game(2, [(0, "a", [(1, 1)])], goal={1}, starts=[0], choices={0: "a", 1: "a"})
    text = game.text(random.Random(1), policy=True)
    (tmp_path / "world.flat").write_text(text)
    made = {"format": "evidence/2", "flat_sha256": hashlib.sha256(text.encode()).hexdigest()}
    good, bad = {"kind": "reachable-set", "states": [[0, 0], [1, 1]]}, {"kind": "reachable-set", "states": [[0, 0]]}
    for evidence, code, word in ((good, 0, "accepted"), (bad, 10, "rejected"), ({"kind": "none"}, 30, "")):
        (tmp_path / "evidence.json").write_text(json.dumps(made | evidence))
        command = [sys.executable, "-I", "-S", "copied/check.py", "world.flat", "evidence.json"]
        ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert (ran.returncode, ran.stdout.split(":")[0]) == (code, word), ran


def test_evidence_about_another_text_is_rejected():
    game = Game(2, [(0, "a", [(1, 1)])], goal={1}, starts=[0], choices={0: "a", 1: "a"})
    text = game.text(random.Random(1), policy=True)
    evidence = {"format": "evidence/2", "kind": "reachable-set", "states": [[0, 0], [1, 1]], "flat_sha256": "0" * 64}
    with pytest.raises(Rejected, match="subject"):
        check(text, json.dumps(evidence))


def test_the_page_of_evidence_names_every_kind():
    page = (DOCS / "evidence.md").read_text()
    assert all(f"`{kind}`" in page for kind in CHECKERS)


WALK = """(flat 1)
(variable x 0 3)
(operator a (= x 1) (branch 1 (then (x {value}))))
(fail (= x 0))
(goal (= x 3))
(start (x {low} 1))
(meaning (choice policy) (choose {choose}) (applicable filtered) (avoid {avoid}) (environment adversarial) (bounds error) (errors all))
(policy {policy})
"""
TABLE = "table (inputs x) (labels a) (default a)"


def walk(kind="safe-policy", value=1, low=1, choose="arg-max", avoid="", policy=TABLE):
    text = WALK.format(value=value, low=low, choose=choose, avoid=avoid, policy=policy)
    said = {"action": ["a"], "start": [0]} if kind == "safe-policy" else {}
    evidence = {"format": "evidence/2", "kind": kind, "states": [[1]], **said}
    return text, json.dumps(evidence | {"flat_sha256": hashlib.sha256(text.encode()).hexdigest()})


@pytest.mark.parametrize("kind", ["safe-policy", "reachable-set"])
def test_a_set_that_is_only_closed_does_not_show_that_runs_end(kind):
    assert check(*walk(kind)).claim
    with pytest.raises(Rejected, match="ends of runs"):
        check(*walk(kind, avoid="loop"))


@pytest.mark.parametrize(
    "changed",
    [
        {"low": 0.5},
        {"avoid": "lop"},
        {"choose": "sampled"},
        {"policy": "forest (inputs x) (labels a) (arithmetic float32 <) (base 0.0) (tree -1 1.0)"},
        {"policy": "forest (inputs x) (labels a) (arithmetic float32 <) (base 0.0) (tree 0 (-1 9.0 1.0 0.0))"},
        {"policy": "table (inputs x) (labels a) (row (1 2) a)"},
        {"policy": "table (inputs x) (labels a) (row (1) b)"},
        {"value": "y"},
    ],
    ids=str,
)
def test_a_text_that_is_not_as_the_page_says_is_refused(changed):
    with pytest.raises((Unreadable, ValueError)):
        check(*walk("reachable-set", **changed))


@pytest.mark.parametrize("value", ["(at 1.5 1 1 1)", "(at 3 1 1 1)", "(/ 1 1)", "(% 1 0)", "4", "error"])
def test_an_error_of_the_model_is_never_accepted(value):
    with pytest.raises(Rejected, match="model errors"):
        check(*walk("reachable-set", value=value))
