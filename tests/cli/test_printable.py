"""Nothing that stands in a file steers the terminal of whoever reads about it."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polvet.cli.app import run
from polvet.cli.printable import printable, printable_json

EVIL = "a\x1b[2J\x9b1mb\x07\r\u202ec\nforged"


def is_clean(text):
    return all(unicodedata.category(letter) not in ("Cc", "Cf", "Cs", "Zl", "Zp") for letter in text)


@given(st.text())
def test_what_is_printed_is_one_line_of_visible_characters(text):
    assert is_clean(printable(text).replace("\t", " "))


@given(st.text())
def test_plain_text_is_left_alone(text):
    if is_clean(text):
        assert printable(text) == text


@given(st.dictionaries(st.text(), st.text()))
def test_json_says_the_same(document):
    text = printable_json(json.dumps(document, ensure_ascii=False))
    assert is_clean(text)
    assert json.loads(text) == document


MODEL = {
    "jani-version": 1, "name": EVIL, "type": "mdp", "actions": [{"name": EVIL}],
    "variables": [{"name": f"x{EVIL}", "type": {"kind": "bounded", "base": "int", "lower-bound": 0, "upper-bound": 3},
                   "initial-value": 0}],
    "properties": [],
    "automata": [{"name": EVIL, "locations": [{"name": EVIL}], "initial-locations": [EVIL], "edges": [
        {"location": EVIL, "action": EVIL, "destinations": [{"location": EVIL}]}]}],
    "system": {"elements": [{"automaton": EVIL}]},
}  # fmt: skip


@pytest.mark.parametrize("json_wanted", [[], ["--json"]])
@pytest.mark.parametrize(
    "arguments",
    [["info", "model"], ["explore", "model"], ["decide", "model"], ["decide", "model", "--state", f"y{EVIL}=1"],
     ["check", "model", "--property", EVIL], ["certify", "certificate", "--task", "model"], ["certify", "other"]],
)  # fmt: skip
def test_no_command_prints_what_steers_a_terminal(tmp_path, capsys, arguments, json_wanted):
    (tmp_path / "model").write_text(json.dumps(MODEL), encoding="utf-8")
    (tmp_path / "certificate").write_text(
        json.dumps({"kind": "safe-policy", "options": {f"k{EVIL}": EVIL}}), encoding="utf-8"
    )
    (tmp_path / "other").write_text(json.dumps({"kind": EVIL}), encoding="utf-8")
    files = {name: str(tmp_path / name) for name in ("model", "certificate", "other")}
    run([files.get(word, word) for word in arguments] + json_wanted)
    said = capsys.readouterr()
    assert said.out or said.err
    assert is_clean(said.out.replace("\n", " ").replace("\t", " "))
    assert is_clean(said.err.replace("\n", " "))
    assert not any(line.startswith("forged") for line in said.out.splitlines())
