"""Programs as models: judged by a naive interpreter of the process algebra on random programs, and by hand."""

import random
from collections import Counter
from fractions import Fraction

import pytest

from polvet.errors import InputError
from polvet.model.automata import ModelType
from polvet.model.constants import evaluate_constants
from polvet.model.expressions import Binary, IntLiteral, Name
from polvet.model.types import IntType
from polvet.prism import load_prism, vocabulary_of_program
from polvet.prism.translate import translate
from tests.prism import oracle
from tests.prism.conftest import Explored, explored, program

ACTIONS = ["a", "b", "c"]


def _random_process(rng: random.Random, names: list[str]) -> str:
    if len(names) == 1:
        text = names[0]
    else:
        cut = rng.randint(1, len(names) - 1)
        left, right = _random_process(rng, names[:cut]), _random_process(rng, names[cut:])
        over = ",".join(rng.sample(ACTIONS, rng.randint(0, 2)))
        text = f"({left}) {rng.choice(['||', '|||', f'|[{over}]|'])} ({right})"
        if rng.random() < 0.5:
            text = f"({text})"
            if rng.random() < 0.4:
                text += f" / {{{rng.choice(ACTIONS)}}}"
            if rng.random() < 0.4:
                text += f" {{{rng.choice(ACTIONS)}<-{rng.choice([*ACTIONS, 'd'])}}}"
    return text


def _random_program(rng: random.Random) -> str:
    count = rng.randint(1, 3)
    lines = ["mdp", "global g : [0..1];"]
    for number in range(count):
        lines += [f"module m{number}", f"x{number} : [0..2];"]
        for _ in range(rng.randint(1, 4)):
            action = rng.choice([*ACTIONS, *ACTIONS, ""])
            guard = f"x{number}{rng.choice(['=', '!='])}{rng.randint(0, 2)}"
            guard += rng.choice(["", f" & x{rng.randrange(count)}=1", " | g=1"])
            updates = [f"(x{number}'={rng.choice(['0', '1', '2', f'2-x{number}'])})" for _ in range(rng.randint(1, 2))]
            if not action and rng.random() < 0.5:
                updates[0] += " & (g'=1-g)"
            if rng.random() < 0.2:
                updates[-1] = "true"
            shares = ["1"] if len(updates) == 1 else rng.choice([["1/2", "0.5"], ["0.25", "3/4"]])
            text = " + ".join(f"{share}:{update}" for share, update in zip(shares, updates, strict=True))
            lines.append(f"[{action}] {guard} -> {text};")
        lines.append("endmodule")
    if rng.random() < 0.6:
        lines.append(f"system {_random_process(rng, [f'm{i}' for i in range(count)])} endsystem")
    lines += ['rewards "r"', "x0=1 : 3;", "g=1 : x0+0.5;", "[a] true : 1+x0;", "[a] g=1 : 10;", "[] x0=0 : 7;",
              "[d] true : 100;", "endrewards"]  # fmt: skip
    return "\n".join(lines)


@pytest.mark.parametrize("seed", range(250))
def test_random_programs_do_what_the_rules_of_the_process_algebra_say(seed: int) -> None:
    text = _random_program(random.Random(seed))
    written = program(text)
    reward = vocabulary_of_program(written).rewards["r"].variable
    ours = explored(translate(written))
    names = [variable.name for variable in ours.network.variables]
    for state, made in ours.moves.items():
        before = dict(zip(names, state, strict=True))

        def outcome(changes: tuple[tuple[str, int], ...], before: dict[str, int] = before) -> tuple[int, ...]:
            return tuple({**before, **dict(changes)}[name] for name in names)

        expected: Counter[object] = Counter()
        for move in oracle.moves(written, before):
            shares: Counter[object] = Counter()
            for share, changes in move.outcomes:
                shares[outcome(changes)] += share
            earned = oracle.reward(written, 0, move.label, before)
            expected[move.label, earned, frozenset(shares.items())] += 1
        found: Counter[object] = Counter()
        for move in made:
            shares = Counter()
            for one in move.outcomes:
                shares[one.state] += one.probability
            found[move.label, ours.earned(reward, move), frozenset(shares.items())] += 1
        assert found == expected, text
        assert ours.value(reward, state) == oracle.reward(written, 0, "state", before), text


def test_the_random_programs_synchronise_hide_rename_and_earn() -> None:
    # What the test above would not notice if it were missing from the random programs.
    texts = [_random_program(random.Random(seed)) for seed in range(250)]
    assert all(sum(sign in text for text in texts) > 10 for sign in ("|||", "|[", "/ {", "<-", "[a]"))


def _only(text: str) -> Explored:
    return explored(load_prism(text))


def test_variables_start_at_their_lower_bound_at_false_at_zero() -> None:
    found = _only("mdp module m x : [3..5]; b : bool; i : int; y : [0..9] init 4; endmodule")
    assert list(found.moves) == [(3, False, 0, 4)]


def test_an_init_condition_gives_several_initial_states() -> None:
    found = _only("mdp module m x : [0..3]; y : [0..3]; endmodule init x+y=3 endinit")
    assert set(found.moves) == {(0, 3), (1, 2), (2, 1), (3, 0)}


def test_a_formula_is_replaced_before_a_module_is_renamed() -> None:
    text = """mdp
        formula busy = x=1;
        module m x : [0..1]; [] busy -> (x'=0); [] !busy -> (x'=1); endmodule
        module n = m [ x=y ] endmodule"""
    model = load_prism(text)
    assert model.automata[1].edges[0].guard == Binary("=", Name("y"), IntLiteral(1))


def test_formulas_may_use_formulas_declared_later() -> None:
    model = load_prism("dtmc formula f = g+1; formula g = h*2; const int h = 3; module m x : [0..f]; endmodule")
    expected = Binary("+", Binary("*", Name("h"), IntLiteral(2)), IntLiteral(1))
    assert model.variables[0].type == IntType(IntLiteral(0), expected)


def test_a_copy_of_a_copy_renames_actions_variables_and_constants() -> None:
    text = """mdp const int N = 1; const int M = 2;
        module m x : [0..N]; [a] x<N -> (x'=x+1); endmodule
        module n = m [ x=y, a=b, N=M ] endmodule
        module o = n [ y=z ] endmodule"""
    found = _only(text)
    assert found.network.labels == ("a", "b")
    assert len(found.moves) == 2 * 3  # n and o move together


def test_an_action_reward_is_earned_once_although_three_modules_join() -> None:
    text = """mdp
        module m x : [0..1]; [a] x=0 -> (x'=1); endmodule
        module n = m [ x=y ] endmodule
        module o = m [ x=z ] endmodule
        rewards "r" [a] true : 5; [a] x+y+z=0 : 2; endrewards"""
    found = _only(text)
    (move,) = found.moves[0, 0, 0]
    assert found.earned("r", move) == 7


def test_an_action_reward_reads_the_state_before_the_transition() -> None:
    text = "dtmc module m x : [0..3]; [a] x=1 -> (x'=3); [] x=0 -> (x'=1); endmodule"
    found = _only(f"{text} rewards [a] true : x; endrewards")
    assert {found.earned("reward", move) for move in found.moves[1,]} == {1}


def test_a_label_or_reward_whose_name_is_taken_gets_a_name_near_it() -> None:
    text = """mdp module m time : [0..1]; endmodule
        label "time" = time=1;
        rewards "time" true : 1; endrewards"""
    words = vocabulary_of_program(program(text))
    assert words.labels == {"time": "time_label"}
    assert words.rewards["time"].variable == "time_reward"
    assert words.rewards[None] == words.rewards["time"]


@pytest.mark.parametrize(
    ("keyword", "type_"),
    [("mdp", ModelType.MDP), ("nondeterministic", ModelType.MDP), ("dtmc", ModelType.DTMC),
     ("probabilistic", ModelType.DTMC), ("", ModelType.MDP)],
)  # fmt: skip
def test_old_and_new_words_for_the_model_type_are_read(keyword: str, type_: ModelType) -> None:
    assert load_prism(f"{keyword} module m x : [0..1]; endmodule").type is type_


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("1+2*3-4", 3), ("-2*3", -6), ("7-3-2", 2), ("12/4/3", 1), ("mod(7,3)", 1), ("mod(-7,3)", 2),
        ("pow(2,5)", 32), ("min(4,2,3)", 2),
        ("max(4,2,5)", 5), ("floor(2.7)", 2), ("ceil(2.1)", 3), ("round(2.5)", 3), ("round(2.4)", 2),
        ("round(-2.5)", -2), ("func(max,1,2)", 2), ("log(8,2)", 3), ("true ? 1 : false ? 2 : 3", 1),
        ("(false ? 1 : false ? 2 : 3)", 3),
        ("(!1=2 ? 1 : 0)", 1), ("(true|false&false ? 1 : 0)", 1), ("(false=>false=>false ? 1 : 0)", 0),
        ("(true<=>false|true ? 1 : 0)", 1), ("(1<2=true ? 1 : 0)", 1), ("(!false&false ? 1 : 0)", 0),
    ],
)  # fmt: skip
def test_an_expression_has_the_value_that_prism_gives_it(expression: str, expected: int) -> None:
    model = load_prism(f"dtmc const double c = {expression}; module m x : [0..1]; endmodule")
    assert Fraction(evaluate_constants(model, {})["c"]) == expected


def test_open_constants_stay_open() -> None:
    model = load_prism("mdp const N; const double p; const bool b; module m x : [0..N]; endmodule")
    assert [(constant.name, str(constant.type), constant.value) for constant in model.constants] == [
        ("N", "int", None), ("p", "real", None), ("b", "bool", None)]  # fmt: skip


def test_a_million_nodes_out_of_twenty_formulas_are_refused() -> None:
    doubling = " ".join(f"formula f{i} = f{i - 1}+f{i - 1};" for i in range(1, 60))
    with pytest.raises(InputError, match=r"^test\.prism:1:\d+: with its formulas replaced .* at most 1000000"):
        translate(program(f"mdp formula f0 = x; {doubling} module m x : [0..1]; endmodule"))


def test_copies_of_a_large_module_end_at_a_limit() -> None:
    formulas = " ".join(f"formula f{i} = f{i - 1}+f{i - 1};" for i in range(1, 18))
    copies = " ".join(f"module n{i} = m [ x=y{i} ] endmodule" for i in range(400))
    text = f"mdp formula f0 = x; {formulas} module m x : [0..1]; [] f17=0 -> true; endmodule {copies}"
    with pytest.raises(InputError, match="over 10000000 nodes"):
        translate(program(text))


def test_a_long_chain_of_formulas_ends_at_a_limit_not_in_the_stack() -> None:
    formulas = " ".join(f"formula f{i} = f{i + 1}+1;" for i in range(5000))
    with pytest.raises(InputError, match="depth"):
        translate(program(f"mdp {formulas} formula f5000 = 1; module m x : [0..1]; endmodule"))
