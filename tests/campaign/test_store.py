"""The campaign's folder: steps once done stay done, other settings and changed files are refused."""

from __future__ import annotations

import json

import pytest

from polvet.campaign.record import POSSIBLE, STRENGTHEN, FenceFigures, PossibleFigures
from polvet.campaign.settings import Settings
from polvet.campaign.store import Store
from polvet.errors import InputError

WHO = {"seed": 1, "policy_sha256": "ab"}


def filled(folder):
    with Store(folder, WHO) as store:
        store.finish(0, POSSIBLE, PossibleFigures(80.0), 0.5, {"faults": store.write("faults/0.json", "[1]")})
        store.finish(0, STRENGTHEN, FenceFigures("not needed"), 0.25, {})
    return folder


def test_a_step_is_found_again_with_figures_and_files(tmp_path):
    with Store(filled(tmp_path / "run"), WHO) as store:
        record = store.find(0, POSSIBLE)
        assert record is not None
        assert record.figures == PossibleFigures(80.0)
        assert store.path(record, "faults").read_text() == "[1]"
        assert store.find(1, POSSIBLE) is None
        assert store.resumed == 2
    lines = [json.loads(line) for line in (tmp_path / "run" / "figures.jsonl").read_text().splitlines()]
    assert lines == [
        {
            "iteration": 0,
            "step": "possible",
            "goal_percent_possible": 80.0,
            "run_length_possible": None,
            "seconds": 0.5,
        },
        {"iteration": 0, "step": "strengthen", "reason": "not needed", "seconds": 0.25},
    ]


def test_a_step_whose_record_is_torn_is_not_done(tmp_path):
    folder = filled(tmp_path / "run")
    journal = folder / "journal"
    journal.write_bytes(journal.read_bytes()[:-3])
    with Store(folder, WHO) as store:
        assert store.find(0, POSSIBLE) is not None
        assert store.find(0, STRENGTHEN) is None


def test_other_settings_are_refused_by_name(tmp_path):
    filled(tmp_path / "run")
    with pytest.raises(InputError, match="seed was 1, is 2"):
        Store(tmp_path / "run", {**WHO, "seed": 2})


def test_a_changed_file_is_refused(tmp_path):
    folder = filled(tmp_path / "run")
    (folder / "faults/0.json").write_text("[2]")
    with pytest.raises(InputError, match=r"faults/0\.json"):
        Store(folder, WHO)
    (folder / "faults/0.json").unlink()
    with pytest.raises(InputError, match="not as the campaign wrote it"):
        Store(folder, WHO)


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="no journal"):
        Store(tmp_path, WHO)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]


def test_unknown_words_in_the_settings_are_refused():
    with pytest.raises(InputError, match="--verify"):
        Settings(verify="perhaps")
