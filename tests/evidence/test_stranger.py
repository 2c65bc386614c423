"""A checker that a stranger wrote in JavaScript from docs/flat.md and docs/evidence.md alone, on worlds written by hand.

Every expected answer is reasoned from the two pages; the reason is the comment or the name of the case.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest

STRANGER = Path(__file__).with_name("stranger.js")
YES, NO, REFUSED = 0, 10, 30

MEANING = {
    "choice": "policy", "choose": "arg-max", "applicable": "filtered", "avoid": "",
    "environment": "adversarial", "bounds": "error", "errors": "all",
}  # fmt: skip


def flat(*items: str, **meaning: str) -> str:
    parts = " ".join(f"({part} {said})".replace(" )", ")") for part, said in (MEANING | meaning).items())
    policies = [item for item in items if item.startswith("(policy")]
    return "\n".join(["(flat 1)", *(i for i in items if i not in policies), f"(meaning {parts})", *policies]) + "\n"


def run(states: list[Any], actions: list[Any], end: str = "fail", **more: Any) -> dict[str, Any]:
    return {"kind": "run", "states": states, "actions": actions, "end": end} | more


def safe(states: list[Any], action: list[Any], start: list[int], **more: Any) -> dict[str, Any]:
    return {"kind": "safe-policy", "states": states, "action": action, "start": start} | more


class Case(NamedTuple):
    name: str
    world: str
    evidence: dict[str, Any]
    code: int


# In 1, 2 and 3 `left` goes to x - 1 (1/4) or x + 1 (3/4), `right` to x + 1; 0 fails, 4 is the goal; 1, 2 and 3 are start states.
WALK = (
    "(variable x 0 4)",
    "(operator left (and (< 0 x) (< x 4)) (branch 1 (then (x (- x 1)))) (branch 3 (then (x (+ x 1)))))",
    "(operator right (and (< 0 x) (< x 4)) (branch 1 (then (x (+ x 1)))))",
    "(fail (= x 0))", "(goal (= x 4))", "(start (x 1 3))",
)  # fmt: skip
RULES = "(policy rules (labels right left) (rule (<= x 1) right) (rule 1 left))"
WALKED = flat(*WALK)

ROWS = flat(
    "(variable s 0 4)", "(variable odd 0 1)", "(variable failed 0 1)", "(variable reached 0 1)",
    "(feature odd s 0 1 0 1 0)", "(event s failed reached)",
    "(rows s (1 left) (1 0 failed) (3 2))", "(rows s (1 right) (1 2))", "(rows s (2 left) (1 1) (3 3))",
    "(rows s (2 right) (1 3))", "(rows s (3 left) (1 2) (3 4 reached))", "(rows s (3 right) (1 4 reached))",
    "(fail failed)", "(goal reached)", "(starts (1 1 0 0) (2 0 0 0) (3 1 0 0) (1 0 0 0))",
)  # fmt: skip

# In n = 3: `draw` to (0 2 0.5) or, by two stages, to (3 3 0.25); the silent operator to (0 3 0.75).
TOUR = (
    "(variable place 0 3)", "(integer n * *)", "(real v 0.0 1.0)", "(scratch (real cost * *) 0.0)", "(define _1 (at place 1.0 2.0))",
    "(operator draw (< place 3) (branch (/ 1 _1) (then (n (- n 1)))) (branch 2 (then (cost (/ v _1))) (then (place 3) (v (/ cost 2.0)))))",
    '(operator "at(home)" (and (= place 3) (< n 0)) (branch 1))',
    "(operator - (< v 0.75) (branch 1 (then (v (+ v 0.25)))))",
    "(fail 0)", "(goal 0)", "(start (place 0 0) (v 0.5 0.5) (n 1 3 (not (= n 2))))",
)  # fmt: skip
FOREST = (
    '(policy forest (inputs n v) (labels draw "at(home)") (arithmetic float32 <) (base 0.0 0.25)'
    " (tree 0 (0 2.0 0.0 (1 0.75 0.5 1.0))))"
)
TOURED = flat(*TOUR, FOREST, avoid="deadlock")
TOUR_RUN = ([[0, 3, 0.5], [3, 3, 0.25], [3, 3, 0.5], [3, 3, 0.75]], ["draw", None, None], "deadlock")


def one(
    operators: str,
    *,
    start: str = "(start (x 1 1))",
    policy: str = "",
    variables: str = "(variable x 0 3)",
    **meaning: str,
) -> str:
    """A world of x from 0 to 3 in which 0 fails and nothing is a goal."""
    return flat(variables, operators, "(fail (= x 0))", "(goal 0)", start, *([policy] if policy else []), **meaning)


def step(effect: str, guard: str = "(= x 1)", weight: str = "1", **meaning: str) -> str:
    """`go` fails in one step from 1; beside it, `also` does what is given."""
    also = f"(operator also {guard} (branch {weight} {effect}) (branch 1))"
    return one(f"(operator go (= x 1) (branch 1 (then (x 0))))\n{also}", **meaning)


GO = run([[1], [0]], ["go"])
TWO = "(operator a (= x 1) (branch 1 (then (x 2))))\n(operator b (= x 1) (branch 1 (then (x 0))))\n"


def forest(arithmetic: str, rest: str, labels: str = "a b") -> str:
    return one(TWO, policy=f"(policy forest (inputs x) (labels {labels}) (arithmetic {arithmetic}) {rest})")


def table(rest: str, labels: str = "a b", inputs: str = "x", **meaning: str) -> str:
    return one(TWO, policy=f"(policy table (inputs {inputs}) (labels {labels}) {rest})", **meaning)


# What `b` in x = 1 shows: the policy chooses `b`, and x = 0 fails. What `a` shows: a deadlock in x = 2.
B = run([[1], [0]], ["b"])
A = run([[1], [2]], ["a"], "deadlock")

CASES = [
    Case("run: left from 1 may fail", WALKED, run([[1], [0]], ["left"]), YES),
    Case("run: right from 1 does not lead to 0", WALKED, run([[1], [0]], ["right"]), NO),
    Case("run: 0 is no start state", WALKED, run([[0]], []), NO),
    Case("run: 4 is a goal state, not a fail state", WALKED, run([[3], [4]], ["right"]), NO),
    Case("run: the same state twice", WALKED, run([[1], [2], [1], [0]], ["left", "left", "left"]), YES),
    Case("run: it goes on after the goal", WALKED, run([[3], [4], [3], [2], [1], [0]], ["left"] * 5), NO),
    Case("run: states as objects by names", WALKED, run([{"x": 1}, {"x": 0}], ["left"]), YES),
    Case("run: an integer as a text", WALKED, run([["1"], [0]], ["left"]), YES),
    Case("run: a label that is null", WALKED, run([[1], [0]], [None]), NO),
    Case("run: an action is missing", WALKED, run([[1], [0]], []), REFUSED),
    Case("run: an end that the page does not know", WALKED, run([[1], [0]], ["left"], "goal"), REFUSED),
    Case(
        "rules: left in 2 and right in 1: 0 is not reached",
        flat(*WALK, RULES),
        run([[2], [1], [0]], ["left", "left"]),
        NO,
    ),
    Case(
        "rules: the first that holds",
        flat(*WALK, RULES.replace("<= x 1", "= x 3")),
        run([[2], [1], [0]], ["left", "left"]),
        YES,
    ),
    Case("safe: right everywhere", WALKED, safe([[1], [2], [3], [4]], ["right", "right", "right", None], [0]), YES),
    Case(
        "safe: left in 2 leads to 1, which is not listed",
        WALKED,
        safe([[2], [3], [4]], ["left", "right", None], [0]),
        NO,
    ),
    Case(
        "safe: a fail state is listed",
        WALKED,
        safe([[0], [1], [2], [3], [4]], [None, "right", "right", "right", None], [1]),
        NO,
    ),
    Case("safe: an unknown label", WALKED, safe([[3], [4]], ["up", None], [0]), NO),
    Case("safe: no label", WALKED, safe([[3], [4]], [None, None], [0]), NO),
    Case("safe: no start", WALKED, safe([[3], [4]], ["right", None], []), REFUSED),
    Case("safe: a state twice", WALKED, safe([[3], [4], [3]], ["right", None, "right"], [0]), REFUSED),
    Case(
        "safe: what is said stands beside the state",
        WALKED,
        {
            "kind": "safe-policy",
            "start": [0],
            "states": [{"state": [3], "action": "right"}, {"state": [4], "action": None}],
        },
        YES,
    ),
    # Rows: the events stop the rows; `odd` becomes odd of the new number, and stays where the old number has the same.
    Case("rows: to 0 with `failed`", ROWS, run([[2, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0]], ["left", "left"]), YES),
    Case("rows: `odd` follows s", ROWS, run([[2, 0, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0]], ["left", "left"]), NO),
    Case("rows: the event is set", ROWS, run([[1, 1, 0, 0], [0, 0, 0, 0]], ["left"]), NO),
    Case(
        "rows: closed",
        ROWS,
        safe([[1, 1, 0, 0], [2, 0, 0, 0], [3, 1, 0, 0], [4, 0, 0, 1]], ["right", "right", "right", None], [0, 1]),
        YES,
    ),
    Case(
        "rows: `reached` is not set in the listed state",
        ROWS,
        safe([[3, 1, 0, 0], [4, 0, 0, 0]], ["right", None], [0]),
        NO,
    ),
    Case(
        "rows: a set event leaves a deadlock",
        ROWS.replace("(goal reached)", "(goal 0)"),
        run([[3, 1, 0, 0], [4, 0, 0, 1]], ["right"], "deadlock"),
        YES,
    ),
    Case(
        "rows: odd(3) = odd(1), so a wrong `odd` stays",
        flat(
            "(variable s 0 3)",
            "(variable odd 0 1)",
            "(feature odd s 0 1 0 1)",
            "(rows s (3 -) (1 1))",
            "(fail (= s 1))",
            "(goal 0)",
            "(starts (3 0))",
        ),
        run([[3, 0], [1, 0]], [None]),
        YES,
    ),
    Case(
        "rows: none of s = 1 is enabled where an event is set",
        ROWS.replace("(fail failed)", "(fail 0)").replace("(starts ", "(starts (1 1 1 0) "),
        run([[1, 1, 1, 0]], [], "deadlock"),
        YES,
    ),
    # Stages, scratch, abbreviations, silent operators.
    Case("tour: a run to the deadlock", TOURED, run(*TOUR_RUN), YES),
    Case(
        "tour: stages are in order: cost is 0.5, v 0.25",
        TOURED,
        run([[0, 3, 0.5], [3, 3, 0.0], [3, 3, 0.25]], ["draw", None], "deadlock"),
        NO,
    ),
    Case("tour: 3 3 0.5 is no deadlock", TOURED, run(TOUR_RUN[0][:3], TOUR_RUN[1][:2], "deadlock"), NO),
    Case(
        "tour: n = 2 is no start state",
        TOURED,
        run([[0, 2, 0.5], [3, 2, 0.25], [3, 2, 0.5], [3, 2, 0.75]], ["draw", None, None], "deadlock"),
        NO,
    ),
    Case(
        "tour: the silent operator moves beside the choice",
        TOURED,
        run(
            [[0, 3, 0.5], [0, 3, 0.75], [3, 3, 0.375], [3, 3, 0.625], [3, 3, 0.875]],
            [None, "draw", None, None],
            "deadlock",
        ),
        YES,
    ),
    Case(
        "tour: in place 2 the abbreviation is outside of its list",
        TOURED.replace("(place 0 0)", "(place 2 2)"),
        run([[2, 3, 0.5], [2, 3, 0.75]], [None], "deadlock"),
        NO,
    ),
    Case(
        "a scratch starts each step anew",
        flat(
            "(variable x 0 3)",
            "(scratch (integer t * *) 1)",
            "(operator a (< x 3) (branch 1 (then (t (+ t 1))) (then (x (+ x (- t 1))))))",
            "(fail (= x 2))",
            "(goal 0)",
            "(start (x 0 0))",
        ),
        run([[0], [1], [2]], ["a", "a"]),
        YES,
    ),
    Case(
        "one stage reads the values from before it",
        flat(
            "(variable x 0 3)",
            "(variable y 0 3)",
            "(operator swap 1 (branch 1 (then (x y) (y x))))",
            "(fail (= x 2))",
            "(goal 0)",
            "(start (x 1 1) (y 2 2))",
        ),
        run([[1, 2], [2, 1]], ["swap"]),
        YES,
    ),
    Case(
        "safe: a silent operator moves beside the label",
        one("(operator a (= x 1) (branch 1 (then (x 2))))\n(operator - (= x 1) (branch 1 (then (x 3))))"),
        safe([[1], [2]], ["a", None], [0]),
        NO,
    ),
    Case(
        "safe: null where nothing but silent operators is enabled",
        one("(operator - (= x 1) (branch 1 (then (x 3))))"),
        safe([[1], [3]], [None, None], [0]),
        YES,
    ),
    Case(
        "safe: null is no choice beside a label",
        one("(operator - (= x 1) (branch 1 (then (x 3))))\n(operator a (= x 1) (branch 1))"),
        safe([[1], [3]], [None, None], [0]),
        NO,
    ),
    Case(
        "safe: a deadlock is an end",
        one("(operator a (= x 1) (branch 1 (then (x 2))))"),
        safe([[1], [2]], ["a", None], [0]),
        YES,
    ),
    Case(
        "safe: a deadlock is avoided",
        one("(operator a (= x 1) (branch 1 (then (x 2))))", avoid="deadlock"),
        safe([[1], [2]], ["a", None], [0]),
        NO,
    ),
    Case(
        "safe: two operators of one label: any moves",
        one("(operator a (= x 1) (branch 1 (then (x 2))))\n(operator a (= x 1) (branch 1 (then (x 0))))"),
        safe([[1], [2]], ["a", None], [0]),
        NO,
    ),
    # Errors of the model count in any enabled operator of a state where runs go on.
    Case("error: none", step("(then (x 3))"), GO, YES),
    Case("error: outside of the bounds", step("(then (x 4))"), GO, NO),
    Case("error: in a stage that a later stage mends", step("(then (x 4)) (then (x 3))"), GO, NO),
    Case("error: of a branch of weight 0 is not run", step("(then (x 4))", weight="(- x 1)"), GO, YES),
    Case("error: of an operator that is not enabled", step("(then (x 4))", guard="(= x 2)"), GO, YES),
    Case("error: a guard divides by 0", step("", guard="(and (= x 2) (= (/ 1 0) 1))"), GO, YES),
    Case("error: a guard divides by 0, computed", step("", guard="(and (= x 1) (= (/ 1 0) 1))"), GO, NO),
    Case("error: a weight below 0", step("", weight="(- x 2)"), GO, NO),
    Case(
        "error: all weights are 0",
        one("(operator go (= x 1) (branch 1 (then (x 0))))\n(operator also 1 (branch 0))"),
        GO,
        NO,
    ),
    Case("error: assigned twice", step("(then (x 3) (x 3))"), GO, NO),
    Case("error: assigned in two stages is none", step("(then (x 2)) (then (x 3))"), GO, YES),
    Case("error: the keyword", step("(then (x (ite (= x 1) error 2)))"), GO, NO),
    Case("error: the branch that is not computed", step("(then (x (ite (= x 1) 2 error)))"), GO, YES),
    Case("error: a double overflows", step("(then (x (ite (< 1.0 (* 1e308 10.0)) 2 3)))"), GO, NO),
    Case(
        "error: an integer that is no double",
        step("(then (x (ite (< 1.0 (* 0.5 (pow 1000 52) (pow 1000 52))) 2 3)))"),
        GO,
        NO,
    ),
    Case(
        "error: an integer of any size is compared exactly",
        step("(then (x (ite (< 1.0 (* (pow 1000 52) (pow 1000 52))) 2 3)))"),
        GO,
        YES,
    ),
    Case("error: a pow of integers outside of its range", step("(then (x (ite (= (pow 2 64) 0) 2 3)))"), GO, NO),
    Case("error: a pow of integers below 0", step("(then (x (pow 1 -1)))"), GO, NO),
    Case("error: pow of 1 has no limit", step("(then (x (pow 1 64)))"), GO, YES),
    Case("error: a remainder by 0", step("(then (x (% x 0)))"), GO, NO),
    Case(
        "a remainder is never negative: -1 % -3 is 2",
        one("(operator go (= x 1) (branch 1 (then (x (- (% -1 -3) 2)))))"),
        GO,
        YES,
    ),
    Case(
        "exact weights: 0.1 + 0.2 - 0.3 of doubles is above 0",
        step("(then (x 4))", weight="(- (+ 0.1 0.2) 0.3)"),
        GO,
        NO,
    ),
    Case(
        "exact weights: 1/3 + 1/3 + 1/3 - 1 is 0",
        step("(then (x 4))", weight="(- (+ (/ 1 3) (/ 1 3) (/ 1 3)) 1)"),
        GO,
        YES,
    ),
    Case("exact weights: 1/10 less the double 0.1 is below 0", step("", weight="(- (/ 1 10) 0.1)"), GO, NO),
    Case("exact weights: the double 1e16 + 1 is not 1e16", step("(then (x 4))", weight="(- (+ 1e16 1) 1e16)"), GO, NO),
    Case("doubles: 1e16 + 1 is 1e16", step("(then (x (ite (= (+ 1e16 1.0) 1e16) 2 4)))"), GO, YES),
    Case(
        "an integer and a double are compared exactly",
        step("(then (x (ite (= 9007199254740993 9007199254740992.0) 4 2)))"),
        GO,
        YES,
    ),
    Case("bounds disable: the operator is not enabled", step("(then (x 4))", bounds="disable"), GO, YES),
    Case(
        "bounds disable: it cannot move",
        step("(then (x 4))", bounds="disable"),
        run([[1], [1], [0]], ["also", "go"]),
        NO,
    ),
    Case(
        "bounds disable: another error comes first", step("(then (x (/ 1 0))) (then (x 4))", bounds="disable"), GO, NO
    ),
    Case("bounds disable: the bounds come first", step("(then (x 4)) (then (x (/ 1 0)))", bounds="disable"), GO, YES),
    Case("bounds disable: weights come first", step("(then (x 4))", weight="(/ 1 0)", bounds="disable"), GO, NO),
    Case(
        "error in the last state, a fail state, does not matter",
        one("(operator go (= x 1) (branch 1 (then (x 0))))\n(operator also (= x 0) (branch 1 (then (x 4))))"),
        GO,
        YES,
    ),
    Case(
        "safe: an error of another operator than the listed one",
        step("(then (x 4))").replace("(fail (= x 0))", "(fail 0)"),
        safe([[1], [0]], ["go", None], [0]),
        NO,
    ),
    Case(
        "safe: the same without the error",
        step("(then (x 3))").replace("(fail (= x 0))", "(fail 0)"),
        safe([[1], [0]], ["go", None], [0]),
        YES,
    ),
    # Starts.
    Case("start: a condition holds", one(TWO, start="(start (x 0 3 (= x 1)))"), B, YES),
    Case("start: a condition is 0", one(TWO, start="(start (x 0 3 (= x 2)))"), B, NO),
    Case("start: a condition is an error: false for one state", one(TWO, start="(start (x 0 3 (= 1 (/ 1 0))))"), B, NO),
    Case(
        "start: in any order, a condition reads what stands before it",
        flat(
            "(variable x 0 3)",
            "(variable y 0 3)",
            "(operator a 1 (branch 1 (then (x 0))))",
            "(fail (= x 0))",
            "(goal 0)",
            "(start (y 0 3) (x 1 3 (<= x y)))",
        ),
        run([[1, 2], [0, 2]], ["a"]),
        YES,
    ),
    Case(
        "start: the same, not a start state",
        flat(
            "(variable x 0 3)",
            "(variable y 0 3)",
            "(operator a 1 (branch 1 (then (x 0))))",
            "(fail (= x 0))",
            "(goal 0)",
            "(start (y 0 3) (x 1 3 (<= x y)))",
        ),
        run([[3, 2], [0, 2]], ["a"]),
        NO,
    ),
    Case("start: no ends", one(TWO, start="(start (x * *))"), B, YES),
    Case("starts: a list", one(TWO, start="(starts (2) (1))"), B, YES),
    Case("starts: not in the list", one(TWO, start="(starts (2) (3))"), B, NO),
    Case("runs end in a goal state", one(TWO).replace("(goal 0)", "(goal (= x 1))"), B, NO),
    Case("fail beats goal", one(TWO).replace("(goal 0)", "(goal (= x 0))"), B, YES),
    # Policies.
    Case("without a policy any label runs", one(TWO), B, YES),
    Case("table: the label of the row", table("(row (1) b)"), B, YES),
    Case("table: not the other", table("(row (1) b)"), A, NO),
    Case("table: the default", table("(row (2) a) (default b)"), B, YES),
    Case("table: no row, no default", table("(row (2) b)"), B, NO),
    Case("table: scores", table("(row (1) (scores 0.25 0.75))"), B, YES),
    Case("table: a tie goes to the first output", table("(row (1) (scores 0.5 0.5))"), B, NO),
    Case("table: a tie goes to the first output, a", table("(row (1) (scores 0.5 0.5))"), A, YES),
    Case("table: inputs are float32", table("(row (16777216) b) (default a)", inputs="(+ 16777216 x)"), B, YES),
    Case("table: - is never applicable, then the first applicable", table("(row (1) -)", labels="- b a"), B, YES),
    Case(
        "table: raw and not applicable: stuck",
        table("(row (1) -)", labels="- b a", applicable="raw"),
        run([[1]], [], "stuck"),
        YES,
    ),
    Case("table: filtered it is not stuck", table("(row (1) -)", labels="- b a"), run([[1]], [], "stuck"), NO),
    Case(
        "table: filtered, none of its labels is applicable: not asked, stuck",
        table("(row (2) c)", labels="c d"),
        run([[1]], [], "stuck"),
        YES,
    ),
    Case(
        "rules: variables are float32: 16777217 is 16777216",
        one(
            "(operator a (< 3 x) (branch 1 (then (x 0))))",
            variables="(integer x 0 *)",
            start="(start (x 0 *))",
            policy="(policy rules (labels b a) (rule (= x 16777216) a))",
        ),
        run([[16777217], [0]], ["a"]),
        YES,
    ),
    Case("rules: none holds", one(TWO, policy="(policy rules (labels b) (rule (= x 2) b))"), B, NO),
    Case(
        "forest: float32 goes right where it is equal",
        forest("float32 <", "(base 0.0 0.0) (tree 1 (0 1.0 0.0 1.0))"),
        B,
        YES,
    ),
    Case(
        "forest: float64 goes left where it is equal",
        forest("float64 <=", "(base 0.0 0.0) (tree 1 (0 1.0 0.0 1.0))"),
        B,
        NO,
    ),
    Case(
        "forest: one tree for all outputs",
        forest("float64 <=", "(base 0.0 0.0) (tree * (0 1.0 (0.25 0.5) (1.0 0.0)))"),
        B,
        YES,
    ),
    # In a tree for all outputs a leaf is a list of numbers and so are a node's branches: a leaf of four is no node.
    Case(
        "forest: a leaf of four outputs is no node",
        forest("float64 <=", "(base 0.0 0.0 0.0 0.0) (tree * (0 0.5 0.75 1.0))", labels="c a d b"),
        B,
        YES,
    ),
    # 1 + 2^-24 is 1 in float32, twice; so b has no more than a and the tie goes to a. In float64 b has more.
    Case(
        "forest: sums are rounded after each addition",
        forest("float32 <", "(base 1.0 1.0) (tree 1 5.960464477539063e-08) (tree 1 5.960464477539063e-08)"),
        B,
        NO,
    ),
    Case(
        "forest: sums in float64",
        forest("float64 <=", "(base 1.0 1.0) (tree 1 5.960464477539063e-08) (tree 1 5.960464477539063e-08)"),
        B,
        YES,
    ),
    Case("forest: divided", forest("float32 <", "(base 0.0 0.0) (divide 3) (tree 1 1.0) (tree 0 0.5)"), B, YES),
    Case(
        "forest: an input near 0 goes where the node says",
        one(
            TWO,
            policy="(policy forest (inputs (- x 1)) (labels a b) (arithmetic float64 <=) (base 0.0 0.0) (tree 1 (0 1.0 0.0 1.0 right)))",
        ),
        B,
        YES,
    ),
    Case("chance: null moves any operator", one(TWO, choice="chance"), run([[1], [0]], [None]), YES),
    Case("chance: no label is chosen", one(TWO, choice="chance"), run([[1], [0]], ["b"]), NO),
    Case("chance, safe: all operators are drawn", one(TWO, choice="chance"), safe([[1], [2]], [None, None], [0]), NO),
    # Texts that are not what their format says.
    Case("an unknown item", WALKED.replace("(goal ", "(gaol "), GO, REFUSED),
    Case("an unknown name", WALKED.replace("(< x 4)", "(< y 4)"), GO, REFUSED),
    Case("a bracket is not closed", WALKED[:-2], GO, REFUSED),
    Case("another version", WALKED.replace("(flat 1)", "(flat 2)"), GO, REFUSED),
    Case("another format of evidence", WALKED, run([[1], [0]], ["left"], format="evidence/1"), REFUSED),
    Case(
        "an item twice",
        WALKED.replace("(goal (= x 4))", "(goal (= x 4))\n(goal 0)"),
        run([[1], [0]], ["left"]),
        REFUSED,
    ),
    Case("an unknown meaning", WALKED.replace("(bounds error)", "(bounds eror)"), run([[1], [0]], ["left"]), REFUSED),
    Case("a state outside of the bounds", WALKED, run([[9], [0]], ["left"]), REFUSED),
    Case("a state without a value", WALKED, run([[1], []], ["left"]), REFUSED),
    Case("a value that is a truth value of JSON", WALKED, run([[True], [0]], ["left"]), REFUSED),
    Case("evidence about another text", WALKED, run([[1], [0]], ["left"], flat_sha256="0" * 64), NO),
]


def answer(folder: Path, world: str, evidence: bytes) -> tuple[int, str]:
    if shutil.which("node") is None:
        pytest.skip("node is needed")
    (folder / "world.flat").write_text(world, encoding="utf-8")
    (folder / "evidence.json").write_bytes(evidence)
    command = ["node", str(STRANGER), str(folder / "world.flat"), str(folder / "evidence.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout


def written(case: Case) -> str:
    sha256 = hashlib.sha256(case.world.encode()).hexdigest()
    return json.dumps({"format": "evidence/2", "flat_sha256": sha256} | case.evidence)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_stranger_says_what_the_pages_say(case: Case, tmp_path: Path) -> None:
    code, said = answer(tmp_path, case.world, written(case).encode())
    assert code == case.code, said
    assert said.startswith({YES: "accepted: ", NO: "rejected: ", REFUSED: "refused: "}[code])


def test_evidence_may_be_compressed_and_a_key_stands_once(tmp_path: Path) -> None:
    evidence = written(CASES[0])
    assert answer(tmp_path, CASES[0].world, gzip.compress(evidence.encode()))[0] == YES
    assert (
        answer(tmp_path, CASES[0].world, evidence.replace('"end": "fail"', '"end": "stuck", "end": "fail"').encode())[0]
        == REFUSED
    )
