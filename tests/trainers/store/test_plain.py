"""Strict nested settings: what is written is what is meant, or an error that names the key."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atlas_gym.trainers.store.plain import SettingsError, build, plain, require


@dataclass(frozen=True)
class Inner:
    rate: float = 0.1
    steps: int = 3

    def __post_init__(self):
        require(self, {"positive": "rate"})


@dataclass(frozen=True)
class Outer:
    name: str = "x"
    mode: Literal["a", "b"] = "a"
    inner: Inner = Inner()
    sizes: tuple[int, ...] = (1, 2)
    weights: Mapping[str, float] = field(default_factory=dict)
    limit: int | None = None
    flag: bool = False


@given(
    st.floats(1e-6, 1e6),
    st.integers(-100, 100),
    st.lists(st.integers(), max_size=4),
    st.none() | st.integers(),
)
def test_round_trip_of_any_values(rate, steps, sizes, limit):
    settings = Outer(inner=Inner(rate, steps), sizes=tuple(sizes), limit=limit)
    assert build(Outer, plain(settings)) == settings


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"inner": {"rat": 1}}, "inner.rat; did you mean inner.rate"),
        ({"zzz": 1}, "unknown setting zzz; known:"),
        ({"inner": {"steps": "many"}}, "inner.steps must be a valid integer"),
        ({"inner": {"steps": True}}, "inner.steps must be a valid integer"),
        ({"inner": {"rate": "fast"}}, "inner.rate must be a valid number"),
        ({"inner": {"rate": float("nan")}}, "inner.rate must be a finite number"),
        ({"mode": "c"}, "mode must be 'a' or 'b'"),
        ({"sizes": 3}, "sizes must be a valid array"),
        ({"inner": 3}, "^inner must be a mapping"),
        ({"weights": 3}, "^weights must be a mapping"),
        ({"weights": {"a": "heavy"}}, "weights.a must be a valid number"),
        ({"inner": {"rate": -1}}, "rate must be positive"),
        ({"limit": "no"}, "limit must be a valid integer"),
    ],
)
def test_a_bad_value_is_refused_by_name(values, complaint):
    with pytest.raises(SettingsError, match=complaint):
        build(Outer, values)


def test_what_has_no_default_is_asked_for_by_name():
    @dataclass(frozen=True)
    class Needy:
        address: str

    with pytest.raises(SettingsError, match=r"^there\.address is needed"):
        build(Needy, {}, "there.")
