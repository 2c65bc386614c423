"""Options of single verification methods: predicates and configuration of the abstraction, the length of bmc."""

from __future__ import annotations

import pytest

import polvet
from polvet.domains.shipped import shipped_files
from polvet.errors import InputError
from polvet.front.method_options import method_with
from polvet.verify.abstraction import Options
from polvet.verify.method import Method


@pytest.fixture
def faulty():
    files = {file.name: file for file in shipped_files()}
    return polvet.load(files["one-way-line-8-5.toml"]).policy(files["one-way-line-8-5-faulty.json"])


def test_given_predicates_are_the_only_ones(faulty):
    result = faulty.verify(predicates=["truck_0 <= 2", "truck_0 >= 2 && location_load_2 <= 0"])
    assert result.method == "abstraction"
    assert result.figures["predicates"] == 3  # a conjunction is two inequalities
    assert "refinements" not in result.figures


@pytest.mark.parametrize("steps", [0, 1])
@pytest.mark.parametrize("method", ["auto", "unrolling"])
def test_bounded_searches_look_no_further_than_they_may(faulty, steps, method):
    result = faulty.verify(method, max_steps=steps)
    assert result.method == ("unrolling" if method == "unrolling" else "bmc")
    assert result.figures["refuted_steps"] == steps


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "ic3", "max_steps": 3}, "max_steps"),
        ({"method": "bmc", "predicates": ["truck_0 <= 3"]}, "predicates"),
        ({"configuration": "Basis"}, "--configuration: 'Basis' is unknown"),
        ({"predicates": ["truck_0 + 1"]}, "is a number"),
        ({"predicates": ["truk <= 1"]}, "truk"),
        ({"predicates": []}, "there is no predicate"),
        ({"max_steps": -1}, "max_steps"),
        ({"max_steps": 3, "region": True}, "region"),
        ({"max_steps": 3, "max_risk": "0.1"}, "risk"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(faulty, options, message):
    with pytest.raises(InputError, match=message):
        faulty.verify(**options)


def test_a_configuration_of_the_appendix_is_one_by_its_tests(faulty):
    chosen = method_with("auto", faulty.bound.task.network, {"configuration": "Rel-Sel-No-App"})
    assert isinstance(chosen, Method)
    assert chosen.run.keywords["options"] == Options("BnB(Mar)", "relaxed", "off")


def test_a_file_of_predicates_names_the_line(faulty, tmp_path):
    file = tmp_path / "predicates.txt"
    file.write_text("truck_0 <= 3  # half way\n\ntruck_0 <=\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"predicates\.txt:3"):
        faulty.verify(predicates=file)
