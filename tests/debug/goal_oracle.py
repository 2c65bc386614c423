"""Goal faults and values by brute force: plain iteration over all 25 states with the slow interpreter, definitions word for word."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

from polvet.errors import Where
from polvet.model.infix import parse_expression
from polvet.model.task import condition
from polvet.policy.binding import fit
from tests.debug.oracle import random_case
from tests.safety.networks import TOP, all_states, unsafe_states


def goal_case(seed):
    """A random case that has a goal; None where no label is left."""
    case = random_case(seed)
    if case is None:
        return None
    rng = random.Random(seed + 10**6)
    text = rng.choice([f"y == {rng.randint(0, TOP)} && x >= 2", f"x == {rng.randint(0, TOP)}", "x + y == 5"])
    goal = condition(case.task.network, parse_expression(text), Where("goal"))
    task = replace(case.task, goal=goal)
    unsafe = frozenset(unsafe_states(task, all_states(task)))
    return replace(case, fitted=fit(task, case.fitted.policy), unsafe=unsafe)


class Brute:
    """All that the definitions say about one case."""

    def __init__(self, case):
        self.case, task = case, case.task
        semantics = case.semantics
        self.states = all_states(task)
        self.is_fail, self.is_goal = semantics.compile(task.fail), semantics.compile(task.goal)
        self.goals = {s for s in self.states if self.is_goal(s) and not self.is_fail(s)}
        self.actions, self.chances = {}, {}
        for state in self.states:
            self.actions[state], self.chances[state] = {}, {}
            if self.is_fail(state) or state in self.goals:
                continue
            moves = semantics.moves(state)
            labels = sorted({m.label for m in moves if m.label is not None}) or ([None] if moves else [])
            for label in labels:
                mine = [m for m in moves if m.label in (None, label)]
                share = {}
                for move in mine:
                    for outcome in move.outcomes:
                        part = Fraction(outcome.probability) / len(mine)
                        share[outcome.state] = share.get(outcome.state, 0) + part
                self.actions[state][label] = set(share)
                self.chances[state][label] = share

    def won(self):
        """States with a safe policy that reaches the goal with probability 1."""
        won = {s for s in self.states if not self.is_fail(s)}
        while True:
            near = self.goals & won
            while more := {
                s for s in won - near if any(o <= won and o & near for o in self.actions[s].values())
            }:  # fmt: skip
                near = near | more
            if near == won:
                return won
            won = near

    def distances(self, keeps):
        """The least number of steps to the goal by the actions (state, label) that are kept."""
        found, steps = dict.fromkeys(self.goals, 0), 0
        while True:
            steps += 1
            fresh = {s for s, a in keeps if s not in found and self.actions[s][a] & found.keys()}
            if not fresh:
                return found
            found |= dict.fromkeys(fresh, steps)

    def best(self):
        """The greatest probability of the goal among policies that never take an action with an unsafe outcome."""
        unsafe = self.case.unsafe
        value = {s: float(s in self.goals) for s in self.states}
        safe = {
            s: [c for a, c in self.chances[s].items() if not self.actions[s][a] & unsafe] if s not in unsafe else []
            for s in self.states
        }
        safe = {s: [[(t, float(p)) for t, p in c.items()] for c in mine] for s, mine in safe.items()}
        while True:
            new = {s: max((sum(p * value[t] for t, p in c) for c in safe[s]), default=value[s]) for s in self.states}
            if max(abs(new[s] - value[s]) for s in self.states) < 1e-14:
                return new
            value = new

    def chosen(self, state):
        """The label the policy takes; None: silent; False: it is stuck or the run ends."""
        if not self.actions[state]:
            return False
        if None in self.actions[state]:
            return None
        return self.case.fitted.choose(state, tuple(self.actions[state])) or False

    def follow(self, state):
        label = self.chosen(state)
        return set() if label is False else self.actions[state][label]

    def closure(self, state):
        seen, todo = {state}, [state]
        while todo:
            for one in self.follow(todo.pop()) - seen:
                seen.add(one)
                todo.append(one)
        return seen

    def goal_faults(self, least=1):
        """(state, kind): the labels that mend it. `least` None: whatever lowers the best chance of the goal is a fault."""
        if least == 1:
            able = self.won()
            keeps = {(s, a) for s in able for a, o in self.actions[s].items() if o <= able}
            worth, best = dict.fromkeys(able, 1.0), keeps
        else:
            worth = self.best()
            wanted = 1e-300 if least is None else least - 1e-9
            able = {s for s in self.states if worth[s] >= wanted}
            after = {
                (s, a): sum(float(p) * worth[t] for t, p in c.items())
                for s in self.states if s not in self.case.unsafe
                for a, c in self.chances[s].items() if not self.actions[s][a] & self.case.unsafe
            }  # fmt: skip
            keeps = {key for key, value in after.items() if value >= wanted}
            best = {key for key, value in after.items() if value >= worth[key[0]] - 1e-9 and worth[key[0]] > 0}
            keeps = best if least is None else keeps
        distance = self.distances(best)
        found = {}
        reached = set().union(*(self.closure(s) for s in self.case.starts)) if self.case.starts else set()
        for state in reached & able:
            label = self.chosen(state)
            mending = sorted(a for s, a in keeps if s == state and a is not None)
            if label is False:
                if self.actions[state] and state not in self.goals:
                    found[state] = ("stuck", tuple(mending))
            elif label is not None and (state, label) not in keeps:
                found[state] = ("dead end", tuple(mending))
        given_up = set(found)
        for state in reached:
            loop = self.closure(state)
            if any(self.chosen(one) is False or state not in self.closure(one) for one in loop):
                continue
            if loop & given_up or not loop & able:
                continue
            if any((s, self.chosen(s)) not in keeps for s in loop & able):
                continue  # only silent moves give it up
            top = [s for s in loop if worth.get(s, 0) >= max(worth.get(o, 0) for o in loop) - 1e-9]
            top = [s for s in top if s in distance]
            if state in top and distance[state] == min(distance[s] for s in top):
                nearer = sorted(
                    a for s, a in best
                    if s == state and a is not None and any(distance.get(o, 99) < distance[s] for o in self.actions[s][a])
                )  # fmt: skip
                found[state] = ("livelock", tuple(nearer))
        return found, able
