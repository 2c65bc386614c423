"""Table 2 by the paper's recipe: when a row counts as met, and that its page says what its file says."""

from __future__ import annotations

import json

import pytest
from benchmarks.competent_teachers import careless_teacher, fast_rules, teacher_of
from benchmarks.table_two import FILE, bars, met, page
from benchmarks.teachers import rows


def entry(outcome="improved", *, unsafe=0.0, undecided=0, goal=80.0, before=50.0, reached=80.0):
    return {
        "input": {"unsafe": before, "open": 0, "goal": goal},
        "polvet": {"outcome": outcome},
        "polvet: final": {"unsafe": unsafe, "open": undecided, "starts": 1_000, "goal": reached},
    }


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (entry(), "yes"),
        (entry(unsafe=1.0), "yes"),
        (entry(unsafe=1.1), "no"),
        (entry(undecided=10), "yes"),
        (entry(undecided=11), "no"),  # a start that is not decided counts as unsafe
        (entry(unsafe=0.5, undecided=6), "no"),
        (entry("safe", undecided=500), "yes"),  # unless a proof covers it
        (entry("limit", undecided=500), "no"),
        (entry(reached=79.0), "yes"),
        (entry("safe", reached=78.9), "no"),
        (entry("safe, goal lost", reached=20.0), "no"),
        (entry(before=0.6, unsafe=0.6), "no"),
        (entry(before=0.6, undecided=6), "no"),
        (entry(before=0.6, unsafe=0.5), "yes"),
        (entry(before=0.0), "-"),  # there was nothing to repair
        (entry("stopped", unsafe=100.0), "-"),  # no policy is safe
    ],
)
def test_what_counts_as_met(one, expected):
    assert met(one, "polvet") == expected


def test_a_row_is_met_where_every_campaign_of_it_is():
    name, careless = "1 way line (15, 10)", "1 way line (15, 10), careless teacher"
    for one, other, expected in (
        (entry(), entry(), "yes"),
        (entry(), entry(unsafe=5.0), "no"),
        (entry(before=0.0), entry(), "yes"),
        (entry(before=0.0), entry("stopped"), "-"),
    ):
        assert bars({name: one, careless: other}, [name, careless], "polvet") == {name: expected}


def test_the_page_says_what_the_file_says():
    assert FILE.with_suffix(".md").read_text() == page(json.loads(FILE.read_text()))


def test_careless_teachers_differ_from_competent_ones():
    taught = {row.name: (teacher_of(row), careless_teacher(row)) for row in rows()}
    assert len(taught) == 47
    assert all(competent != careless for competent, careless in taught.values())
    seeing, overlooking = (fast_rules(10, two_way=False, overlooking=flag) for flag in (False, True))
    assert [a for a, b in zip(seeing, overlooking, strict=True) if a != b] == [
        one for one in seeing if one["when"].startswith("truck_vel_0 == 2 && (")
    ]
