"""The room's public names: every one resolves, and nothing else is promised."""

import pytest

import polvet.policy as room


def test_every_public_name_resolves_and_the_list_is_sorted_and_exact():
    assert room.__all__ == sorted(room.__all__)
    assert set(room.__all__) == set(room._HOMES)
    for name in room.__all__:
        assert getattr(room, name).__name__ == name


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="loud_policy"):
        _ = room.loud_policy
