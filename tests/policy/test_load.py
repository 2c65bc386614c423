"""The one door: formats are told by content, pickle is never loaded, nonsense is an input error."""

import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polvet.errors import InputError, Where
from polvet.policy.decimals import nearest_float32
from polvet.policy.format import Content
from polvet.policy.load import format_of, load_policy
from polvet.policy.networks import network_of
from polvet.policy.save import save_policy
from polvet.policy.tables import Table


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_every_pickle_is_refused_with_a_way_out(protocol, tmp_path):
    path = tmp_path / "policy.json"
    path.write_bytes(pickle.dumps(Where("x"), protocol=protocol))
    with pytest.raises(InputError, match=r"pickle.*ONNX"):
        load_policy(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"hello world", "is a text"),
        (b"{}", "is JSON, but not a policy"),
        (b'{"format": "fmp/1"}', "fmp/1"),
        (b'{"layers": ', "is not JSON"),
        (b"[1, 2]", "is a text, but not a policy"),
        (b"{" * 3000, "not JSON|deep|damaged"),
        (b'{"a":' * 3000, "deep"),
        (b"PK\x03\x04 this is no archive", "damaged"),
        (b"binf\x00\x00", "not a policy file"),
        (b"\x93NUMPY\x01\x00", "not a readable array"),
        (b"{L\xff\xff\xff\xff\xff\xff\xff\xff", "length"),
        (b"\xff\xfe\x00", "not a policy file"),
        (b'{"format": "table/1", "inputs": ["\xff"]}', "UTF-8"),
    ],
)
def test_what_is_no_policy_is_an_input_error(content, words, tmp_path):
    path = tmp_path / "policy"
    path.write_bytes(content)
    with pytest.raises(InputError, match=words):
        load_policy(path)


def test_a_missing_file_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        load_policy(tmp_path / "gone.onnx")


@settings(max_examples=300, deadline=None)
@given(st.binary(min_size=1, max_size=200))
def test_random_bytes_never_raise_anything_but_an_input_error(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "random"
    path.write_bytes(data)
    with pytest.raises(InputError):
        load_policy(path)


@pytest.mark.parametrize("name", ["n.onnx", "n.nnet", "t.json"])
def test_a_damaged_file_is_read_or_refused_but_never_crashes(name, tmp_path):
    if name.endswith("onnx"):
        pytest.importorskip("onnx")
    rng = np.random.default_rng(17)
    if name.endswith("json"):
        policy = Table(("x", "y"), ("a", "b"), {(0.0, 1.0): (1.0, 0.5), (2.0, 3.0): (0.0, 1.0)}, 1)
    else:
        policy = network_of(
            [(rng.normal(size=(4, 2)), rng.normal(size=4)), (rng.normal(size=(2, 4)), rng.normal(size=2))]
        )
    save_policy(policy, tmp_path / name)
    data = (tmp_path / name).read_bytes()
    refused = 0
    for _ in range(300):
        damaged = bytearray(data)
        place, length = int(rng.integers(len(data))), int(rng.integers(1, 12))
        match int(rng.integers(3)):
            case 0:
                damaged[place] = int(rng.integers(256))
            case 1:
                del damaged[place : place + length]
            case 2:
                damaged[place:place] = damaged[int(rng.integers(len(data))) :][:length]
        (tmp_path / name).write_bytes(damaged)
        try:
            found = load_policy(tmp_path / name)
            found.choose(np.zeros((2, len(found.inputs)), dtype=np.float32))
        except InputError:
            refused += 1
    assert refused > 100


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"tree\nversion=v4\n", "lightgbm"),
        (b"// Neural\n2,1,1,1,\n", "nnet"),
        (b"{L\x00", "xgboost"),
        (b'\xef\xbb\xbf {"learner": {}}', "xgboost"),
        (b'{"format": "table/1", "layers": []}', "table"),
        (b'{"layers": []}', "mogym"),
        (b'{"file": "n.nnet", "input": [], "output": []}', "jani2nnet"),
        (b"\x93NUMPY\x01\x00", "numpy"),
        (b"\x08\x08\x12\x06polvet", "onnx"),
    ],
)
def test_content_decides_and_not_the_name(data, name):
    assert format_of(Content("x", data)).name == name


@given(st.floats(width=32, allow_nan=False, allow_infinity=False), st.integers(-3, 3))
def test_decimals_become_the_nearest_float32(value, steps):
    """Around every midpoint of two neighbours, spelled with many digits, rounding through float64 would err."""
    single = np.float32(value)
    if single == np.finfo(np.float32).max:
        return
    above = np.nextafter(single, np.float32(np.inf))
    middle = (float(single) + float(above)) / 2
    shifted = Fraction(middle) + steps * (Fraction(float(above)) - Fraction(float(single))) / 10**22
    digits = decimal_of(shifted)
    found = Fraction(nearest_float32(digits))
    exact = Fraction(digits)
    assert abs(found - exact) <= min(abs(Fraction(float(single)) - exact), abs(Fraction(float(above)) - exact))


def test_decimals_at_the_end_of_the_range_become_the_greatest_float32_or_infinite():
    greatest = float(np.finfo(np.float32).max)
    assert nearest_float32(repr(greatest)) == greatest
    assert nearest_float32(str(2**128 - 2**103 - 1)) == greatest  # just below half-way to 2^128
    assert nearest_float32(str(2**128 - 2**103)) == float("inf")
    assert nearest_float32(str(-(2**128 - 2**103 - 1))) == -greatest
    assert nearest_float32("1e300") == float("inf")
    assert nearest_float32("1e999") == float("inf")


def decimal_of(value):
    """A terminating decimal spelling of a dyadic fraction plus a small decimal one, exact or cut far below the step."""
    scale = 10**200
    whole = int(value * scale)
    sign = "-" if whole < 0 else ""
    text = str(abs(whole)).rjust(201, "0")
    return f"{sign}{text[:-200]}.{text[-200:]}"
