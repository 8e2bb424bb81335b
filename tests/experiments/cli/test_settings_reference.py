"""The reference of settings: complete, and each with what its field says."""

from dataclasses import dataclass, field
from typing import Literal

import pytest

from atlas_gym.experiments.cli.settings_reference import main, sections


@dataclass(frozen=True)
class Inner:
    """How it is tuned. More of no interest.

    Nor this.
    """

    rate: float = 1e-4
    """Step size, > 0,
    per phase."""


@dataclass(frozen=True)
class Outer:
    """A run."""

    kind: Literal["fast", "slow"] = "slow"
    """`fast` | `slow`."""
    sizes: tuple[int, ...] = (1, 2)
    """Sizes."""
    inner: Inner = field(default_factory=lambda: Inner(rate=0.5))
    """Tuning."""


def test_fields_are_read_with_type_default_and_meaning():
    outer, inner = sections(Outer())
    kind, sizes = outer.settings
    assert (kind.key, kind.kind, kind.default) == ("kind", "`fast`, `slow`", '"slow"')
    assert (sizes.kind, sizes.default, sizes.meaning) == ("list of whole number", "[1, 2]", "Sizes.")
    (rate,) = inner.settings
    assert (rate.key, rate.kind, rate.meaning) == ("inner.rate", "number", "Step size, > 0, per phase.")
    assert inner.about == "How it is tuned. More of no interest."


def test_a_default_is_the_outer_dataclasss():
    assert [section.settings[-1].default for section in sections(Outer())] == ["[1, 2]", "0.5"]


def test_a_field_without_a_docstring_is_refused():
    @dataclass(frozen=True)
    class Silent:
        number: int = 0

    with pytest.raises(ValueError, match="number has no docstring"):
        list(sections(Silent()))


def test_settings_are_listed_by_a_word(capsys):
    assert main(["gradients"]) == 0
    assert "--phase.max_grad_norm" in capsys.readouterr().out
    assert main(["zqxj"]) == 2
