"""`polvet verify`: verdicts, exit codes, certificates that `polvet certify` accepts."""

from __future__ import annotations

import json

import pytest

from polvet.cli.app import run
from polvet.domains.shipped import find_shipped

GOOD, FAULTY = find_shipped("line-good"), find_shipped("line-faulty")


@pytest.mark.parametrize(("shipped", "code", "verdict", "kind"),
                         [(GOOD, 0, "safe", "reachable-set"), (FAULTY, 10, "unsafe", "run")])  # fmt: skip
def test_the_verdict_comes_with_an_exit_code_and_a_certificate(shipped, code, verdict, kind, tmp_path, capsys):
    written = tmp_path / "certificate.json"
    options = ["verify", str(shipped.task), str(shipped.policy), "--method", "explicit", "-o", str(written), "--json"]
    assert run(options) == code
    document = json.loads(capsys.readouterr().out)
    assert document["verdict"] == verdict
    assert document["certificate"] == str(written)
    assert document["figures"]["method"] == "explicit"
    assert json.loads(written.read_text())["kind"] == kind
    subjects = ["--task", str(shipped.task), "--policy", str(shipped.policy)]
    assert run(["certify", str(written), *subjects]) == 0
    other = FAULTY if shipped is GOOD else GOOD
    assert run(["certify", str(written), "--task", str(other.task), "--policy", str(other.policy)]) == 10


def test_without_a_file_the_certificate_is_in_the_answer(capsys):
    assert run(["verify", str(FAULTY.task), str(FAULTY.policy), "--json"]) == 10
    assert json.loads(capsys.readouterr().out)["certificate"]["end"] == "fail"


def test_a_limit_is_unknown_and_named(capsys):
    options = ["verify", str(GOOD.task), str(GOOD.policy), "--method", "explicit", "--max-states", "10", "--json"]
    assert run(options) == 20
    document = json.loads(capsys.readouterr().out)
    assert document["verdict"] == "unknown"
    assert "--max-states" in document["reason"]


def test_options_are_part_of_the_certificate(tmp_path):
    written = tmp_path / "certificate.json"
    subjects = ["--task", str(FAULTY.task), "--policy", str(FAULTY.policy)]
    narrow = ["--fail", "truck_0 == 100", "--mode", "raw"]
    assert run(["verify", *subjects[1::2], *narrow, "--method", "explicit", "-o", str(written)]) == 0
    certificate = json.loads(written.read_text())
    assert certificate["options"] == {"fail": "truck_0 == 100", "mode": "raw"}
    assert run(["certify", str(written), *subjects]) == 10
    assert run(["certify", str(written), *subjects, *narrow]) == 0
    certificate["options"] = {}
    written.write_text(json.dumps(certificate))
    assert run(["certify", str(written), *subjects]) == 10


@pytest.mark.parametrize("options", [["--method", "magic"], ["--avoid", "boredom"]])
def test_a_wrong_option_is_an_input_error(options):
    assert run(["verify", str(GOOD.task), str(GOOD.policy), *options]) == 30


def test_the_text_tells_the_run(capsys):
    assert run(["verify", str(FAULTY.task), str(FAULTY.policy)]) == 10
    shown = capsys.readouterr().out
    assert shown.startswith("unsafe\n")
    assert "steps to fail" in shown
