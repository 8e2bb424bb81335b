"""Values cross as they are, and no bytes do anything but become a value or be refused."""

import collections
import contextlib
import enum
import math
import struct
import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from atlas_gym.sandbox.codec import MAX_DEPTH, MAX_PARTS, Kept, Malformed, decode, encode

DTYPES = "?bhilBHILfd"
NUMBERS = arrays.arrays(
    st.sampled_from(DTYPES), arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.binary(),
    NUMBERS,
)
KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner), st.lists(inner).map(tuple), st.dictionaries(KEYS, inner, max_size=4)
    ),
    max_leaves=12,
)
LISTS_OF_ONE_KIND = st.one_of(
    st.lists(st.floats(), min_size=3), st.lists(st.integers(-(2**63), 2**63 - 1), min_size=3)
)


def same(one, other):
    """Equal in type and in every bit that counts."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, float):
        return struct.pack("d", one) == struct.pack("d", other) or (math.isnan(one) and math.isnan(other))
    return one == other


@given(st.one_of(VALUES, LISTS_OF_ONE_KIND), st.sampled_from([0, 8, 16]))
def test_what_is_encoded_is_decoded(value, head):
    assert same(decode(encode(value, head), head), value)


@given(VALUES, st.data())
def test_damaged_bytes_become_a_value_or_are_refused(value, data):
    message = encode(value)
    place = data.draw(st.integers(0, len(message) - 1))
    message[place] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(Malformed):
        encode(decode(bytes(message)))


@given(VALUES, st.data())
def test_a_message_that_is_cut_or_goes_on_is_refused(value, data):
    message = bytes(encode(value))
    end = data.draw(st.integers(0, len(message) - 1))
    for wrong in (message[:end], message + b"\0"):
        with pytest.raises(Malformed):
            decode(wrong)


@given(st.binary(max_size=200))
def test_random_bytes_become_a_value_or_are_refused(message):
    with contextlib.suppress(Malformed):
        decode(message)


HUGE = struct.pack("<I", 2**32 - 1)
BOMBS = {
    "a text that claims 4 GB": bytes([5]) + HUGE,
    "bytes that claim 4 GB": bytes([6]) + HUGE,
    "an array that claims 4 GB": bytes([7, 0, 1]) + HUGE,
    "an array of 32 huge dimensions": bytes([7, 10, 32]) + HUGE * 32,
    "an empty array with huge dimensions": bytes([7, 10, 32]) + HUGE * 31 + bytes(4) + bytes(8),
    "an empty array that numpy holds in bytes, and not in floats": bytes([7, 1, 3])
    + struct.pack("<3I", 0, 2**31, 2**31)
    + bytes(1),
    "an array of 255 dimensions": bytes([7, 10, 255]) + bytes(2000),
    "a list that claims 4 billion parts": bytes([8]) + HUGE,
    "a tuple that claims 4 billion parts": bytes([9]) + HUGE,
    "a dictionary that claims 4 billion parts": bytes([10]) + HUGE,
    "integers that claim 32 GB": bytes([12]) + HUGE,
    "floats that claim 32 GB": bytes([13]) + HUGE,
    "floats that claim as many as may be": bytes([13]) + struct.pack("<I", MAX_PARTS),
    "lists in lists in lists": (bytes([8]) + struct.pack("<I", 1)) * 100_000,
    "an unknown kind": bytes([99]),
    "an unknown dtype": bytes([7, 99, 0]) + bytes(64),
    "a truth value of 2 in an array": bytes([7, 0, 1, 1, 0, 0, 0, 0, 2]),
    "a dictionary with a number as key": bytes([10, 1, 0, 0, 0]) + bytes([3]) + bytes(8) + bytes([0]),
    "a text that is no Unicode": bytes([5, 1, 0, 0, 0, 0xFF]),
    "something kept, where nothing is": bytes([11, 0, 0, 0, 0]),
    "nothing": b"",
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_refused_before_anything_is_allocated(name):
    tracemalloc.start()
    try:
        with pytest.raises(Malformed):
            decode(BOMBS[name])
        assert tracemalloc.get_traced_memory()[1] < 10**6
    finally:
        tracemalloc.stop()


def nested(depth):
    value = []
    for _ in range(depth - 1):
        value = [value]
    return value


def endless():
    value = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (2**63, "64 bits"),
        ([2**63] * 10, "64 bits"),
        ([1.0] * (MAX_PARTS + 1), "use an array"),
        ([[None] * 400] * 400, "use an array"),
        (nested(MAX_DEPTH + 1), "nested"),
        (endless(), "nested"),
        ({1: 2}, "use texts"),
        (object(), "a object; use numbers"),
        ((x for x in "a"), "a generator; use"),
        (1j, "a complex; use"),
        (np.ones(3) * 1j, "array of complex128"),
        (np.zeros(3, "datetime64[s]"), "datetime64"),
        (np.zeros(3, [("a", "f8")]), "use numbers"),
        (np.array([None]), "array of object"),
        (np.array(["a", "b"]), "use numbers"),
        (np.zeros((1,) * 40), "dimensions"),
        (np.ma.array([1.0, 2.0], mask=[False, True]), "masked entries"),
        (np.ma.masked, "masked entries"),
    ],
    ids=lambda part: part if isinstance(part, str) else type(part).__name__,
)
def test_what_cannot_be_sent_is_refused_with_the_remedy(value, message):
    with pytest.raises((TypeError, OverflowError), match=message):
        encode(value)


class Colour(enum.IntEnum):
    RED = 1


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        (np.float32(0.5), 0.5),
        (np.longdouble(0.5), 0.5),
        (np.bool_(True), True),
        (np.str_("a"), "a"),
        (Colour.RED, 1),
        (collections.OrderedDict(a=1), {"a": 1}),
        (bytearray(b"a"), b"a"),
        (memoryview(b"a"), b"a"),
        (range(3), [0, 1, 2]),
        (frozenset([1]), [1]),
        (np.arange(3, dtype=">i4"), np.arange(3, dtype=np.int32)),
        (np.ones(2, np.float16), np.ones(2)),
        (np.arange(6.0).reshape(2, 3).T[::-1], np.array([[2.0, 5], [1, 4], [0, 3]])),
        (np.ma.array([1.0, 2.0], mask=[False, False]), np.array([1.0, 2.0])),
        (torch.ones(2, requires_grad=True), np.ones(2, np.float32)),
    ],
    ids=lambda part: type(part).__name__,
)
def test_what_is_like_a_value_is_sent_as_it(value, sent):
    assert same(decode(encode(value)), sent)


def test_the_greatest_depth_and_number_of_parts_are_accepted():
    assert decode(encode(nested(MAX_DEPTH))) == nested(MAX_DEPTH)
    assert len(decode(encode([1.0] * MAX_PARTS))) == MAX_PARTS


def test_kept_values_stand_for_what_was_sent_before():
    kept = [bytes(encode(value)) for value in (np.arange(3), "a", [1])]
    assert decode(encode((Kept(1), [Kept(0)])), kept=kept)[0] == "a"
    assert decode(encode([Kept(0)]), kept=kept)[0].tolist() == [0, 1, 2]
    decode(encode(Kept(2)), kept=kept).append(2)
    assert decode(encode(Kept(2)), kept=kept) == [1]
    with pytest.raises(Malformed):
        decode(encode(Kept(3)), kept=kept)


def test_arrays_can_be_written_to_where_the_message_can():
    message = encode(np.arange(3.0))
    decode(message)[0] = 5.0
    assert decode(message)[0] == 5.0
    with pytest.raises(ValueError, match="read-only"):
        decode(bytes(message))[0] = 6.0
