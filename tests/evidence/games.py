"""Tiny games as plain tables, written out as flat texts; what is true of them is found by brute force over the tables alone.

A game has states 0 .. n-1. An operator is (source, label or None, [(weight, target), ...]). Nothing here reads a flat text.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import product

LABELS = ("a", "b", "c d")


@dataclass
class Game:
    size: int
    operators: list = field(default_factory=list)
    fail: set = field(default_factory=set)
    goal: set = field(default_factory=set)
    starts: list = field(default_factory=list)
    faulty: set = field(default_factory=set)  # states in which an operator is an error of the model
    choices: dict = field(default_factory=dict)  # of the policy: the label it likes best
    raw: bool = False
    avoid: tuple = ()
    fair: bool = True

    # -- written out

    def text(self, rng, *, policy=False):
        """Return a flat text of the game: operators are guards or rows, targets are written in several ways."""
        lines = ["(flat 1)", f"(variable s 0 {self.size - 1})", "(variable odd 0 1)"]
        as_rows = rng.random() < 0.5
        if as_rows:
            lines.append(f"(feature odd s {' '.join(str(s % 2) for s in range(self.size))})")
        for source, label, outcomes in self.operators:
            name = "-" if label is None else f'"{label}"' if " " in label else label
            if as_rows and source not in self.faulty:
                lines.append(f"(rows s ({source} {name}) {' '.join(f'({w} {t})' for w, t in outcomes)})")
                continue
            weight = rng.choice(["{}", "(/ {} 7)", "(* {} (+ 1 (- odd odd)))"])
            written = " ".join(self._branch(rng, source, weight.format(w), t) for w, t in outcomes)
            lines.append(f"(operator {name} (and (= s {source}) (<= odd 1)) {written})")
        for source in self.faulty:
            lines.append(f"(operator a (= s {source}) {rng.choice(FAULTS)})")
        for word, states in (("fail", self.fail), ("goal", self.goal)):
            lines.append(f"({word} (or 0 {' '.join(f'(= s {s})' for s in sorted(states))}))")
        if rng.random() < 0.5:
            lines.append(f"(starts {' '.join(f'({s} {s % 2})' for s in self.starts)})")
        else:
            inside = " ".join(f"(= s {s})" for s in self.starts)
            lines.append(f"(start (s 0 {self.size - 1} (or 0 {inside})) (odd 0 1 (= odd (% s 2))))")
        lines.append(
            f"(meaning (choice policy) (choose arg-max) (applicable {'raw' if self.raw else 'filtered'})"
            f" (avoid {' '.join(self.avoid)}) (environment {'fair' if self.fair else 'adversarial'}) (bounds error) (errors all))"
        )
        if policy:
            labels = " ".join(f'"{label}"' for label in LABELS)
            rows = " ".join(f'(row ({s}) "{label}")' for s, label in self.choices.items())
            lines.append(f"(policy table (inputs s) (labels {labels}) {rows})")
        return "\n".join(lines) + "\n"

    def _branch(self, rng, source, weight, target):
        value = rng.choice([str(target), f"(+ s {target - source})", f"(at s {' '.join([str(target)] * self.size)})"])
        return f"(branch {weight} (then (s {value})) (then (odd (% s 2))))"

    # -- what is true

    def moves(self, s):
        """The choices of a state where runs go on: label -> moves; None: an error of the model."""
        if s in self.faulty:
            return None
        own = [(label, outcomes) for source, label, outcomes in self.operators if source == s]
        own = [(label, [(w, t) for w, t in outcomes if w]) for label, outcomes in own]
        silent = [outcomes for label, outcomes in own if label is None]
        labels = {label for label, _ in own if label is not None}
        if not labels:
            return {None: silent} if silent else {}
        return {label: [*silent, *(o for its, o in own if its == label)] for label in labels}

    def policy_moves(self, s):
        """What the policy's choice may lead to: its moves, and how the run ends where there is none."""
        moves = self.moves(s)
        if moves is None or not moves:
            return moves, "deadlock"
        if None in moves:
            return moves[None], None
        liked = self.choices[s]
        if not self.raw and liked not in moves:
            liked = next(label for label in LABELS if label in moves)
        return (moves[liked], None) if liked in moves else ([], "stuck")

    def is_over(self, s):
        return s in self.fail or s in self.goal

    def fails(self, s):
        """Whether being in the state counts as failing for tasks: a fail state, or an avoided deadlock, or an error."""
        if s in self.fail:
            return True
        if s in self.goal:
            return False
        moves = self.moves(s)
        return moves is None or (not moves and "deadlock" in self.avoid)

    def safe_states(self):
        """From where some policy never fails, whatever happens."""
        safe = {s for s in range(self.size) if not self.fails(s)}
        while True:
            kept = {
                s
                for s in safe
                if s in self.goal
                or not self.moves(s)
                or any(all(t in safe for move in moves for _, t in move) for moves in self.moves(s).values())
            }
            if kept == safe:
                return safe
            safe = kept

    def policy_is_safe(self, starts):
        """Whether no run of the policy from these states fails, or comes to what is avoided."""
        seen, pending = set(starts), list(starts)
        while pending:
            s = pending.pop()
            if s in self.fail:
                return False
            if s in self.goal:
                continue
            moves, end = self.policy_moves(s)
            if moves is None or end in self.avoid:
                return False
            for move in [] if end else moves:
                for _, t in move:
                    if t not in seen:
                        seen.add(t)
                        pending.append(t)
        return bool(starts)

    def reached(self, starts):
        """Every state that the policy may come to."""
        seen, pending = set(starts), list(starts)
        while pending:
            s = pending.pop()
            moves, end = ((), "over") if self.is_over(s) else self.policy_moves(s)
            for move in () if end or moves is None else moves:
                for _, t in move:
                    if t not in seen:
                        seen.add(t)
                        pending.append(t)
        return seen

    def worst_risk(self, s, moves_of, *, least=False):
        """The greatest (least) probability of failing where somebody picks a move in every state: all positional ways are tried."""
        going = [x for x in range(self.size) if not self.is_over(x) and moves_of(x)]
        best = None
        for picks in product(*(range(len(moves_of(x))) for x in going)):
            chain = {x: moves_of(x)[k] for x, k in zip(going, picks, strict=True)}
            value = self._solve(chain)[s]
            best = value if best is None else (min if least else max)(best, value)
        return best

    def risk_of_policy(self, s):
        """The greatest probability that a run of the policy fails, or ends as it is to avoid."""
        ended = {x for x in range(self.size) if not self.is_over(x) and self.policy_moves(x)[1] in self.avoid}
        other = replace(self, fail=self.fail | ended)
        return other.worst_risk(s, lambda x: [] if other.is_over(x) else other.policy_moves(x)[0] or [])

    def least_risk(self, s):
        """The least probability of failing that a policy attains, whatever the environment picks: all positional policies are tried."""
        going = [x for x in range(self.size) if not self.is_over(x) and self.moves(x)]
        best = Fraction(1)
        for labels in product(*(self.moves(x) for x in going)):
            chosen = dict(zip(going, labels, strict=True))
            best = min(best, self.worst_risk(s, lambda x: self.moves(x)[chosen[x]] if x in chosen else []))  # noqa: B023
        return best

    def _solve(self, chain):
        """The probability of failing in a Markov chain, exactly: states that cannot fail are 0, the rest is linear."""
        value = {s: Fraction(s in self.fail or (s not in self.goal and self.fails(s))) for s in range(self.size)}
        possible = {s for s in value if value[s]}
        while True:
            more = {s for s, move in chain.items() if any(t in possible for _, t in move)} - possible
            if not more:
                break
            possible |= more
        unknown = [s for s in chain if s in possible and not value[s]]
        rows = []
        for s in unknown:
            total = sum(w for w, _ in chain[s])
            row = [Fraction(int(s == t)) for t in unknown] + [Fraction(0)]
            for w, t in chain[s]:
                if t in unknown:
                    row[unknown.index(t)] -= Fraction(w, total)
                else:
                    row[-1] += Fraction(w, total) * value[t]
            rows.append(row)
        for k in range(len(rows)):
            pivot = next(i for i in range(k, len(rows)) if rows[i][k])
            rows[k], rows[pivot] = rows[pivot], rows[k]
            rows[k] = [x / rows[k][k] for x in rows[k]]
            for i, row in enumerate(rows):
                if i != k and row[k]:
                    rows[i] = [x - row[k] * y for x, y in zip(row, rows[k], strict=True)]
        return value | {s: row[-1] for s, row in zip(unknown, rows, strict=True)}

    def surely_reaches(self, moves_of, targets, closed_over):
        """From where, whatever fair or adversarial environment, `targets` are reached with probability 1 by some choice.

        `moves_of(s)` lists the choices of a state, each a list of moves.
        """
        won = set(closed_over)
        while True:
            near = won & targets
            while True:
                more = {
                    s
                    for s in won - near
                    if any(
                        all(t in won for move in moves for _, t in move)
                        and (any if self.fair else all)(any(t in near for _, t in move) for move in moves)
                        for moves in moves_of(s)
                    )
                }
                if not more:
                    break
                near |= more
            if near == won:
                return won
            won = near


FAULTS = (
    "(branch 1 (then (s (+ s 100))))",
    "(branch (- odd 2) (then (s 0)))",
    "(branch 0)",
    "(branch 1 (then (s 0) (s 1)))",
    "(branch 1 (then (s (% 1 (- odd odd)))))",
    "(branch 1 (then (s (at (+ s 50) 0 0))))",
    "(branch error (then (s 0)))",
)


def random_game(rng: random.Random) -> Game:
    """Return a game of a few states; some have deadlocks, silent operators, several operators per label, errors."""
    size = rng.randint(2, 5)
    states = range(size)
    game = Game(size, raw=rng.random() < 0.3, fair=rng.random() < 0.5)
    for s in states:
        for _ in range(rng.choice([0, 1, 1, 2, 3])):
            label = rng.choice([*LABELS, None]) if rng.random() < 0.9 else None
            outcomes = [(rng.choice([0, 1, 1, 3]), rng.randrange(size)) for _ in range(rng.randint(1, 3))]
            if any(w for w, _ in outcomes):
                game.operators.append((s, label, outcomes))
        game.choices[s] = rng.choice(LABELS)
    game.fail = {s for s in states if rng.random() < 0.25}
    game.goal = {s for s in states if rng.random() < 0.25}
    game.starts = [s for s in states if rng.random() < 0.5]
    game.faulty = {s for s in states if rng.random() < 0.08}
    game.avoid = tuple(word for word in ("deadlock", "stuck") if rng.random() < 0.25)
    return game
