"""An option that takes one value is not given twice: nothing that was asked is dropped in silence."""

from __future__ import annotations

import pytest

from polvet.cli.app import run

MODEL = "mdp\nmodule m\n  x : [0..3] init 0;\n  [a] x<3 -> (x'=x+1);\nendmodule\n"


@pytest.fixture
def model(tmp_path):
    (tmp_path / "m.prism").write_text(MODEL, encoding="utf-8")
    return str(tmp_path / "m.prism")


@pytest.mark.parametrize(
    "words",
    [
        ("check", "{}", "--property", "Pmax=? [F x=3]", "--property", "Pmin=? [F x=3]"),
        ("check", "{}", "--property=Pmax=? [F x=3]", "--property", "Pmin=? [F x=3]"),
        ("explore", "{}", "--max-states", "10", "--max-states", "20"),
        ("decide", "{}", "--fail", "x=3", "--fail", "x=2"),
    ],
)
def test_an_option_given_twice_is_refused_by_name(model, capsys, words):
    assert run([word.replace("{}", model) for word in words]) == 30
    told = capsys.readouterr()
    assert "is given twice" in told.err
    assert words[2].partition("=")[0] in told.err
    assert told.out == ""


def test_values_that_look_like_options_elsewhere_and_flags_are_none_of_it(model, capsys):
    assert run(["check", model, "--property", "Pmax=? [F x=3]", "--exact", "--exact", "--json"]) == 0
    assert '"exact": "1"' in capsys.readouterr().out
