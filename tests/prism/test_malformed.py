"""Bad programs: each is refused with file, line, column, what is wrong and what to do."""

import pytest

from polvet.errors import InputError, Where
from polvet.model.signatures import PRISM_WORDS
from polvet.prism import load_prism, read_prism
from polvet.prism.parse import MODEL_TYPES, PARTS, REFUSED_PARTS, REFUSED_TYPES

GOOD = """mdp
const int N = 3;
formula full = x=N;
module m
  x : [0..N] init 0;
  [a] x<N -> 0.5:(x'=x+1) + 0.5:true;
  [] full -> (x'=0);
endmodule
label "done" = x=N;
rewards "steps"
  [a] true : 1;
endrewards
"""


def _change(old: str, new: str) -> str:
    assert GOOD.count(old) == 1, old
    return GOOD.replace(old, new)


CASES = [
    # text, place, what, hint
    (_change("mdp", "ctmc"), "1:1", "'ctmc' is a continuous-time Markov chain", "Only mdp and dtmc"),
    (_change("mdp", "pta"), "1:1", "'pta' is a probabilistic timed automaton", "Only mdp and dtmc"),
    (_change("mdp", "pomdp"), "1:1", "'pomdp' is a partially observable", "Only mdp and dtmc"),
    (_change("mdp", "smg"), "1:1", "'smg' is a stochastic game", "Only mdp and dtmc"),
    (_change("mdp", "mdp dtmc"), "1:5", "the model type stands twice", "Keep one"),
    (_change("mdp", "mpd"), "1:1", "'mpd' stands where const, global", "Check the ;"),
    (_change("const int N = 3;", "const int N = 3"), "3:1", "'formula' stands where ';' after the constant 'N'", "Write ';'"),
    (_change("const int N = 3;", "const int = 3;"), "2:11", "'=' stands where the constant", "starts with a letter"),
    (_change("const int N = 3;", "const int min = 3;"), "2:11", "'min' is a word of the language", "another name"),
    (_change("const int N = 3;", "const int N = 3; const N = 4;"), "2:24", "'N' is declared twice", "See test.prism:2:11"),
    (_change("formula full = x=N;", "formula full = x=M;"), "3:18", "no constant, variable or formula 'M'", "Declare it"),
    (_change("formula full = x=N;", "formula full = fill; formula fill = full;"), "3:30", "needs itself", "Break"),
    (_change("formula full = x=N;", "formula full = full;"), "3:9", "full -> full", "Break the circle"),
    (_change("formula full = x=N;", "formula full = x==N;"), "3:18", "'=' stands where a value", "Write = to compare"),
    (_change("formula full = x=N;", "formula full = x=N && true;"), "3:21", "where a value", "Write & for 'and'"),
    (_change("formula full = x=N;", "formula full = x=N || true;"), "3:20", "'||' stands where ';'", "Write | for 'or'"),
    (_change("formula full = x=N;", "formula full = 0<x<N;"), "3:19", "'<' and '<' are chained", "1<x & x<3"),
    (_change("formula full = x=N;", "formula full = flor(x)=N;"), "3:16", "no function 'flor'", "Did you mean 'floor'?"),
    (_change("formula full = x=N;", "formula full = mod(x)=N;"), "3:16", "mod() takes two arguments, not 1", "Correct"),
    (_change("formula full = x=N;", "formula full = (x=N;"), "3:20", "')' for the bracket '('", "Close"),
    (_change("formula full = x=N;", "formula full = x=N. ;"), "3:19", "'.' means nothing", "digit after its point"),
    (_change("formula full = x=N;", "formula full = x=1e999;"), "3:18", "too large or too long", "Shorten"),
    (_change("formula full = x=N;", "/* c */ formula full = x=N;"), "3:1", "'/' stands where", "Comments start with //"),
    (_change("formula full = x=N;", "formula full = x=N ? 1;"), "3:23", "':' of the condition", "c ? a : b"),
    (_change("formula full = x=N;", f"formula full = {'(' * 500}x;"), "3:116", "nests deeper than 100", "formulas"),
    (_change("formula full = x=N;", f"formula full = {'!' * 5000}x;"), "3:116", "nests deeper than 100", "formulas"),
    (_change("formula full = x=N;", "formula full = x" + "+x" * 5000 + ";"), "3:317", "operands stand in a row", "brackets"),
    (_change("formula full = x=N;", "formula full = x=#;"), "3:18", "'#' means nothing", "Remove it"),
    (_change("x : [0..N] init 0;", "x : [0.N] init 0;"), "5:9", "'.' means nothing", "digit after its point"),
    (_change("x : [0..N] init 0;", "x : [0,N] init 0;"), "5:9", "',' stands where '..'", "[0..3]"),
    (_change("x : [0..N] init 0;", "x : clock;"), "5:7", "'clock' is not read", "Only mdp and dtmc"),
    (_change("x : [0..N] init 0;", "x : real;"), "5:7", "'real' stands where a type", "[low..high], bool and int"),
    (_change("x : [0..N] init 0;", "x : [0..N] init 0"), "6:3", "';' after the variable 'x'", "Write ';'"),
    (_change("x : [0..N] init 0;", "x : [0..N] init 0; y : [0..y2];"), "5:30", "formula 'y2'", "Did you mean"),
    (_change("x : [0..N] init 0;", "x : [0..N]; x : bool;"), "5:15", "'x' is declared twice", "See test.prism:5:3"),
    (_change("x : [0..N] init 0;", "x : [0..N] init 0; invariant true endinvariant"), "5:22", "'invariant'", "Only mdp"),
    (_change("[a] x<N ->", "[a x<N ->"), "6:6", "']' after the action", "Close the action"),
    (_change("[a] x<N ->", "[a] x<N =>"), "6:17", "':' stands where '->'", "guard -> update"),
    (_change("[a] x<N ->", "[a] z<N ->"), "6:7", "formula 'z'", "Declare it"),
    (_change("(x'=x+1)", "x'=x+1"), "6:18", "'x' stands where an assignment", "(x'=1)"),
    (_change("(x'=x+1)", "(x=x+1)"), "6:18", "an assignment", "(x'=1)"),
    (_change("(x'=x+1)", "(x'=x+1) & (x'=2)"), "6:30", "'x' is assigned twice", "Keep one"),
    (_change("(x'=x+1)", "(y'=x+1)"), "6:19", "no variable 'y' to assign", "Declare it"),
    (_change("(x'=x+1)", "(N'=x+1)"), "6:19", "no variable 'N' to assign", "Declare it"),
    (_change("0.5:(x'=x+1) +", "(x'=x+1) +"), "6:3", "no probability", "0.5 :"),
    (_change("0.5:(x'=x+1) +", "[0.4,0.6]:(x'=x+1) +"), "6:14", "interval probabilities", "one probability"),
    (_change("[] full -> (x'=0);", "[] full -> (x'=0); y : bool;"), "7:22", "behind a command", "before the commands"),
    (_change("endmodule\n", ""), "8:1", "'label' stands where a variable, a command or endmodule", "A command is"),
    (_change("endmodule\n", "endmodule module m endmodule\n"), "8:18", "module 'm' is declared twice", "test.prism:4:8"),
    (_change("endmodule\n", "endmodule module n = m [] endmodule\n"), "8:25", "the old name", "starts with a letter"),
    (_change("endmodule\n", "endmodule module n = m [a=b] endmodule\n"), "8:18", "'x' of 'm' is not renamed", "x=..."),
    (_change("endmodule\n", "endmodule module n = k [x=y] endmodule\n"), "8:18", "no module 'k' to copy", "Declare"),
    (_change("endmodule\n", "endmodule module n = n [x=y] endmodule\n"), "8:18", "copies itself", "Break the circle"),
    (_change("endmodule\n", "endmodule module n = m [x=y,N=K] endmodule\n"), "8:18", "reads 'K'", "Correct the renaming"),
    (_change("endmodule\n", "endmodule module n [] true -> (x'=0); endmodule\n"), "8:32", "assigns 'x' of", "own module"),
    (_change("endmodule\n", "endmodule system m || k endsystem\n"), "8:23", "no module 'k'", "The modules are m"),
    (_change("endmodule\n", "endmodule system m || m endsystem\n"), "8:23", "takes part twice", "Copy it by renaming"),
    (_change("endmodule\n", "endmodule system m |[a] m endsystem\n"), "8:25", "'|' after the actions", "|[a,b]|"),
    (_change("endmodule\n", 'endmodule system "s" m endsystem\n'), "8:18", "named systems", "without a name"),
    (_change("endmodule\n", "endmodule module k endmodule system m endsystem\n"), "", "'k' takes no part", "Every module"),
    (_change("endmodule\n", "endmodule init x=0 endinit\n"), "5:3", "beside init", "Move it"),
    (_change("endmodule\n", "endmodule init x=0\n"), "9:1", "'endinit' after the condition", "Write 'endinit'"),
    (_change('label "done"', "label done"), "9:7", "a name in double quotes", '"name"'),
    (_change('label "done"', 'label ""'), "9:7", "hold no name", "between them"),
    (_change('label "done"', 'label "done'), "9:7", "is not closed in its line", 'second "'),
    (_change('label "done"', 'label "init"'), "9:7", "is built in", "another name"),
    (_change('label "done" = x=N;', 'label "d" = true; label "d" = true;'), "9:25", "'d' is declared twice", "See"),
    (_change("endrewards\n", ""), "12:1", "the text ends where a reward or endrewards", "Write endrewards"),
    (_change("[a] true : 1;", "[a] true ; 1;"), "11:12", "';' stands where ':'", "x=1 : 5"),
    (_change("endrewards\n", "endrewards observables x endobservables\n"), "12:12", "'observables' is not read", "Only"),
    (_change("endrewards\n", "endrewards player p m endplayer\n"), "12:12", "'player' is not read", "Only"),
    ("mdp const int N = 3;", "", "has no module", "Add module"),
    ("", "", "has no module", "Add module"),
    ("mdp\nmodule m\n  x : [0..1]; [a] x=\x00 -> true; endmodule", "3:21", "U+0000 means nothing", "Remove it"),
    ("mdp global g : bool; module m [a] true -> (g'=true); endmodule module n [a] true -> true; endmodule",
     "1:44", "global variable 'g' is assigned in the synchronising command [a]", "no other module joins"),
]  # fmt: skip


def test_the_unchanged_program_is_good() -> None:
    assert len(load_prism(GOOD).automata[0].edges) == 2


@pytest.mark.parametrize(("text", "place", "what", "hint"), CASES, ids=range(len(CASES)))
def test_a_bad_program_is_refused_with_place_reason_and_next_step(text: str, place: str, what: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        load_prism(text, Where("test.prism"))
    message = str(caught.value)
    assert message.startswith(f"test.prism:{place}: " if place else "test.prism: ")
    assert what in message
    assert caught.value.hint
    assert hint in caught.value.hint
    assert "\n" not in message


def test_a_file_that_is_not_there_or_not_text_is_refused(tmp_path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_prism(tmp_path / "none.prism")
    (tmp_path / "binary.prism").write_bytes(b"mdp \xff\xfe")
    with pytest.raises(InputError, match="is not UTF-8"):
        read_prism(tmp_path / "binary.prism")


def test_a_byte_order_mark_and_windows_line_ends_are_read(tmp_path) -> None:
    (tmp_path / "good.prism").write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert read_prism(tmp_path / "good.prism").name == "good"


def test_a_file_is_told_by_every_word_that_a_program_may_begin_with():
    words = (*MODEL_TYPES, *REFUSED_TYPES, *REFUSED_PARTS, *PARTS.replace(" or", ",").split(", "))
    assert sorted(PRISM_WORDS) == sorted(words)
