"""Broken programs and properties by the thousand: each ends in a model or in an InputError, never otherwise."""

import random
import re

import pytest

from polvet.errors import InputError, Where
from polvet.model.automata import Model
from polvet.model.instantiate import instantiate
from polvet.model.semantics import Semantics
from polvet.prism import load_prism, load_properties, vocabulary_of_program
from polvet.prism.properties import PropertyFile
from tests.prism.conftest import program, program_files

SAMPLE = """dtmc // every part of the language
const int N = 3; const double p = 1/2; const bool flag = true;
global g : [0..1] init 0;
formula full = x=N & !flag | g=1; formula twice = min(2*x, mod(x, 2), 7);
module m
  x : [0..N] init 0; b : bool; i : int init -2;
  [a] x<N -> p:(x'=x+1) & (b'=!b) + 1-p:true;
  [] full => (x>=1 <=> b) -> (g'=1-g);
  [c] (x=0 ? true : b) -> (x'=max(0, x-1)) & (i'=floor(pow(2, x)/3));
endmodule
module n = m [ x=y, b=d, i=j, a=e ] endmodule
module o z : [0..2]; [c] z<2 -> 0.25:(z'=z+1) + 0.75:(z'=0); endmodule
system (m |[c]| o) {a<-f} ||| (n / {e}) endsystem
label "done" = x=N; label "low" = twice<round(0.5);
rewards "r" x=1 : 2.5; [a] true : 1; [] g=1 : x; endrewards
rewards [c] b : 1; endrewards
"""
PROPERTIES = """const int T = 4; label "near" = x>=T; formula far = x<T;
"one": P>=0.5 [ !"done" U<=T "near" & !far ];
"two": R{"r"}=? [ C<=(T+1) ]; P=? [ G[1,T] x=1 | "init" ]; R=? [ I=T ];
filter(max, P=? [ F{"r"}<=3 g=1 ], "low"); P=? [ F^{rew{"r"}>=1, steps<=2} g=1 ]; S=? [ b ] ; A [ F "deadlock" ];
"three": "one" & E [ G !far ];
"""
WORDS = re.compile(r'"[^"\n]*"|\w+|\s+|.', re.DOTALL)
STRANGE = [
    "", "(", ")", "[", "]", "{", "}", "'", '"', "->", "..", ":", ";", ",", "|", "||", "&", "=", "!", "-", "+", "?", "<",
    "<=>", "module", "endmodule", "system", "init", "formula", "x", "N", "0", "1e400", "99999999999999999999", ".5",
    "\n", "\x00", "é", "true", "min(", "rewards", "label", "const", "F", "U", "P", "R", "C", "=?", "^", "/", "//",
]  # fmt: skip


def _mutant(rng: random.Random, text: str) -> str:
    words = WORDS.findall(text)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        place = rng.randrange(len(words))
        match rng.randrange(6):
            case 0:
                words[place] = rng.choice(STRANGE)
            case 1:
                words.insert(place, rng.choice(STRANGE))
            case 2:
                del words[place : place + rng.randint(1, 4)]
            case 3:
                other = rng.randrange(len(words))
                words[place], words[other] = words[other], words[place]
            case 4:
                words[place:place] = words[place : place + rng.randint(1, 12)] * rng.choice([1, 2, 60])
            case 5:
                words[place] = rng.choice(words)
        words = words or [" "]
    return "".join(words)


def _loaded(text: str) -> Model | InputError:
    try:
        return load_prism(text, Where("mutant.prism"))
    except InputError as error:
        return error


def _run(model: Model) -> int | InputError:
    try:
        semantics = Semantics(instantiate(model))
        state = next(iter(semantics.initial_states()), None)
        return 0 if state is None else len(semantics.moves(state))
    except InputError as error:
        return error


def _check_refusal(error: InputError, text: str) -> None:
    assert str(error).startswith("mutant.prism:"), text
    assert error.hint, text
    assert "\n" not in str(error), text


def _sources() -> list[str]:
    return [SAMPLE, *(file.read_text("utf-8") for file in program_files() if file.stat().st_size < 3000)]


def test_the_samples_themselves_are_good() -> None:
    assert _run(load_prism(SAMPLE)) is not None
    assert len(load_properties(PROPERTIES, vocabulary_of_program(program(SAMPLE))).properties) == 9


@pytest.mark.parametrize("part", range(8))
def test_a_mutated_program_is_a_model_that_runs_or_an_input_error(part: int) -> None:
    rng = random.Random(part)
    sources = _sources()
    models = 0
    for number in range(150):
        text = _mutant(rng, SAMPLE if number % 2 else rng.choice(sources))
        result = _loaded(text)
        if isinstance(result, InputError):
            _check_refusal(result, text)
            continue
        models += 1
        answer = _run(result)
        assert isinstance(answer, int) or str(answer), text
    assert 5 < models < 145


def _properties(text: str, words: object) -> PropertyFile | InputError:
    try:
        return load_properties(text, words, Where("mutant.prism"))
    except InputError as error:
        return error


def test_a_mutated_property_file_is_properties_or_an_input_error() -> None:
    rng = random.Random(7)
    words = vocabulary_of_program(program(SAMPLE))
    read = 0
    for _ in range(1500):
        text = _mutant(rng, PROPERTIES)
        result = _properties(text, words)
        if isinstance(result, InputError):
            _check_refusal(result, text)
        else:
            read += 1
    assert 20 < read < 1400


@pytest.mark.parametrize(
    "word", ["(", "!", "-", "[", "x", "x=>", "x?", "min(x,", "1+", "&x", "|x", "=x", "module m ", '"a"', "9"]
)
def test_a_text_of_one_word_repeated_ends_in_a_short_input_error(word: str) -> None:
    row = word * 4000
    for text in (row, f"mdp formula f = {row};", f"mdp module m [] {row} -> true; endmodule"):
        result = _loaded(text)
        assert isinstance(result, InputError)
        _check_refusal(result, text[:100])
        assert len(str(result)) < 400
    words = vocabulary_of_program(program(SAMPLE))
    for text in (row, f"P=? [ F {row} ]"):
        result = _properties(text, words)
        assert isinstance(result, InputError)
        assert len(str(result)) < 400
