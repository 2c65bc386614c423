"""The course of a campaign: one fold for the terminal, the front door and the report; journals of earlier versions are read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from polvet import domains
from polvet.campaign.loop import debug
from polvet.campaign.record import (
    EVALUATE,
    SEARCH,
    STEPS,
    STRENGTHEN,
    VERIFY,
    FenceFigures,
    Record,
    SearchFigures,
    StoredFile,
    VerificationFigures,
)
from polvet.campaign.rows import fold
from polvet.campaign.settings import Settings
from polvet.errors import InputError, Where
from polvet.records.journal import line_of, read_journal
from polvet.report.campaign import read_campaign
from polvet.report.make import make_report
from polvet.sources import load_task

SHIPPED = Path(domains.__file__).parent / "policies"
LINE, FAULTY = SHIPPED / "one-way-line-8-5.toml", SHIPPED / "one-way-line-8-5-faulty.json"
SETTINGS = Settings(starts=300, runs=3, fuzz_runs=4)
NEW_KEYS = {"goal_exact", "run_length", "run_length_before", "run_length_after"}
"""What the first version did not write."""


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    folder = tmp_path_factory.mktemp("campaign") / "line"
    return folder, debug(load_task(LINE), FAULTY, folder, SETTINGS)


def searched(new: int, so_far: int) -> SearchFigures:
    return SearchFigures(
        faults=new, states=9, safe_states=8, open=0, unsafe_starts=0, runs=5, runs_never_safe=0, runs_with_fault=2,
        exhaustive=False, near_ties=0, unjudged=0, unsafe_runs=2, steps=40, ends={"fail": 2}, new_faults=new,
        faults_so_far=so_far, policy_sha256=None,
    )  # fmt: skip


def test_new_faults_of_the_search_and_of_the_verification_add_up():
    verified = VerificationFigures("unsafe", "explicit", None, faults=3, new_faults=3, faults_so_far=7)
    (row,) = fold([Record(2, SEARCH, searched(4, 4), 1.0, {}), Record(2, VERIFY, verified, 0.5, {})])
    assert (row.iteration, row.new_faults, row.faults_so_far, row.seconds) == (2, 7, 7, 1.5)
    told = row.to_json()
    assert (told["new_faults"], told["faults_so_far"], told["unsafe_runs"]) == (7, 7, 2)
    assert told["verification"]["new_faults"] == 3


def test_a_verification_that_finds_nothing_leaves_the_counts_of_the_search():
    verified = VerificationFigures("safe", "explicit", None, faults=0)
    (row,) = fold([Record(0, SEARCH, searched(4, 9), 1.0, {}), Record(0, VERIFY, verified, 0.5, {})])
    assert (row.new_faults, row.faults_so_far) == (4, 9)


def test_a_fence_counts_where_it_gave_a_policy():
    tried = FenceFigures("the goal would be reached less often", exits=3, goal_percent_before=50.0)
    (row,) = fold([Record(1, STRENGTHEN, tried, 1.0, {})])
    assert (row.fence, row.change, row.strengthening) == (None, None, tried)
    assert row.to_json()["strengthened"]["taken"] is False
    (row,) = fold([Record(1, STRENGTHEN, tried, 1.0, {"policy": StoredFile("policies/2.json", "")})])
    assert row.fence is row.change is tried


def test_the_fold_of_a_real_campaign_is_that_of_its_folder(campaign):
    folder, ended = campaign
    rows = fold(ended.records)
    assert rows == read_campaign(folder).rows
    assert [row.iteration for row in rows] == list(range(len(rows)))
    assert sum(row.new_faults or 0 for row in rows) == ended.faults
    assert sum(row.seconds for row in rows) == pytest.approx(sum(record.seconds for record in ended.records))
    assert {record.step.name for record in ended.records} <= set(STEPS)


def test_records_are_read_back_as_they_were_written(campaign):
    _, ended = campaign
    for record in ended.records:
        assert Record.from_json(json.loads(json.dumps(record.to_json())), Where("journal")) == record


def test_a_journal_of_the_first_version_is_resumed_and_reported(campaign, tmp_path):
    """The keys on the disk are the same but for a few that were added, and for the step `possible`."""
    folder, ended = campaign
    head, *records = read_journal(folder / "journal")
    old = [record for record in records if record["step"] != "possible"]
    for record in old:
        record["figures"] = {key: value for key, value in record["figures"].items() if key not in NEW_KEYS}
    earlier = tmp_path / "earlier"
    earlier.mkdir()
    for file in {file["name"] for record in old for file in record["files"].values()}:
        (earlier / file).parent.mkdir(parents=True, exist_ok=True)
        (earlier / file).write_bytes((folder / file).read_bytes())
    (earlier / "journal").write_bytes(b"".join(map(line_of, [head, *old])))
    assert "</html>" in make_report(earlier)
    heard = []
    again = debug(load_task(LINE), FAULTY, earlier, SETTINGS, listener=heard.append)
    assert (again.outcome, again.faults) == (ended.outcome, ended.faults)
    assert again.policy.read_bytes() == ended.policy.read_bytes()
    assert {record.seconds for record in heard if record.step is EVALUATE} == {
        record["figures"]["seconds"] for record in old if record["step"] == "evaluate"
    }


def test_a_record_of_another_shape_is_refused_by_name():
    good = Record(2, SEARCH, searched(4, 4), 1.0, {}).to_json()
    with pytest.raises(InputError, match="no step 'dance'"):
        Record.from_json({**good, "step": "dance"}, Where("journal"))
    with pytest.raises(InputError, match=r"figures.faults: is not an integer"):
        Record.from_json({**good, "figures": {**good["figures"], "faults": "4"}}, Where("journal"))
    with pytest.raises(InputError, match="'seconds' is missing"):
        Record.from_json({**good, "figures": {k: v for k, v in good["figures"].items() if k != "seconds"}}, Where("j"))
