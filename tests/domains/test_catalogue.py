"""Names, parameters and their limits are as the command line promises."""

from fractions import Fraction

import pytest

from polvet.domains import CATALOGUE, generate
from polvet.domains.catalogue import parse_parameters
from polvet.domains.racetrack import load_map, shipped_maps
from polvet.errors import InputError

PROMISED = {
    "racetrack": ["map"], "blocksworld": ["n"], "sliding-tiles": ["n"], "transport": ["locations", "packages"],
    "beluga": ["jigs"], "one-way-line": ["n", "p", "icy", "park"], "two-way-line": ["n", "p", "icy", "park"],
    "bouncing-ball": ["tau"], "inverted-pendulum": ["tau"], "follow-car": ["tau"],
    "flappy-bird": ["width", "height", "walls"], "layers": ["d"], "janitor": ["width", "height"],
    "folline": ["length", "width"], "comexp": ["width", "height", "distance"],
}  # fmt: skip


def test_names_and_parameters_are_those_of_the_contract() -> None:
    assert list(CATALOGUE) == list(PROMISED)
    for name, parameters in PROMISED.items():
        assert [one.name for one in CATALOGUE[name].parameters][: len(parameters)] == parameters


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_default_instance_can_be_generated_and_explains_itself(name: str) -> None:
    instance = generate(name)
    assert instance.model.automata[0].edges
    assert len(CATALOGUE[name].explain()) > 100
    assert CATALOGUE[name].describe()["parameters"]


def test_parameters_are_read_from_text() -> None:
    assert generate("one-way-line", **parse_parameters(["n=2", "p=4", "icy"])) == generate(
        "one-way-line", n=2, p=4, icy=True
    )
    assert generate("bouncing-ball", tau="0.05") == generate("bouncing-ball", tau=Fraction(1, 20))


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("janitr", {}, "Did you mean 'janitor'"),
        ("janitor", {"widht": 3}, "Did you mean 'width'"),
        ("janitor", {"width": 1}, "at least 2"),
        ("janitor", {"width": "3.5"}, "no integer"),
        ("janitor", {"width": "wide"}, "no number"),
        ("blocksworld", {"failing": 2}, "at most 1"),
        ("one-way-line", {"icy": "perhaps"}, "neither true nor false"),
        ("one-way-line", {"icy": True, "ice": "9,10"}, "List places"),
        ("sliding-tiles", {"n": 6}, "fill no board"),
        ("folline", {"width": 4}, "even"),
        ("flappy-bird", {"width": 10, "walls": 5}, "do not fit"),
        ("racetrack", {"map": "cornr"}, "Did you mean 'corner'"),
        ("racetrack", {"map": "missing/file.txt"}, "no such file"),
    ],
)
def test_bad_names_and_parameters_say_what_to_do(name, given, message) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=message):
        generate(name, **given)


def test_a_parameter_given_twice_is_refused() -> None:
    with pytest.raises(InputError, match="twice"):
        parse_parameters(["n=2", "n=3"])


@pytest.mark.parametrize("name", shipped_maps())
def test_shipped_maps_have_a_way_from_start_to_goal(name: str) -> None:
    rows = load_map(name)
    places = {(x, y) for y, row in enumerate(rows) for x, sign in enumerate(row) if sign != "x"}
    seen = {place for place in places if rows[place[1]][place[0]] == "s"}
    frontier = list(seen)
    while frontier:
        x, y = frontier.pop()
        for place in ((x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1)):
            if place in places and place not in seen:
                seen.add(place)
                frontier.append(place)
    assert seen == places
    assert any(rows[y][x] == "g" for x, y in seen)


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "0 x 0"), ("s.q\n", "no place of a map"), ("s..\n", "no goal"), ("..g\n", "no start")],
)
def test_broken_maps_are_refused(text: str, message: str, tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "map.txt"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        generate("racetrack", map=str(path))
