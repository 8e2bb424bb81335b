"""The reference of settings: complete, and each with what its field says."""

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from atlas_gym.experiments.cli.settings_reference import main, page, sections
from atlas_gym.trainers.loop.config import RunConfig


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


def leaves(value, key=""):
    """Names of all settings, found by another way than the reference's: the values of a whole configuration."""
    if value is None:  # an endpoint, which only a model behind an API has
        return [f"{key}.base_url", f"{key}.model"]
    if not dataclasses.is_dataclass(value):
        return [key]
    fields = [entry for entry in dataclasses.fields(value) if entry.init]
    return [leaf for entry in fields for leaf in leaves(getattr(value, entry.name), f"{key}.{entry.name}")]


def test_every_setting_of_a_run_is_on_the_page():
    text = page()
    missing = [key for key in leaves(RunConfig()) if f"| `{key.removeprefix('.')}` |" not in text]
    assert missing == []
    for constant in ("variation_budget", "n_residual", "wall_s"):
        assert f"| `{constant}` |" in text


def test_a_bar_in_a_meaning_does_not_break_the_table():
    assert "\\|" in page() or not any(
        "|" in s.meaning for part in sections(RunConfig()) for s in part.settings
    )


def test_the_page_in_the_repository_is_up_to_date(tmp_path):
    assert main(["--output", str(tmp_path / "settings.md")]) == 0
    made = (tmp_path / "settings.md").read_text(encoding="utf-8")
    kept = Path(__file__).parents[3] / "docs" / "settings.md"
    assert kept.read_text(encoding="utf-8") == made, "make it again: atlas settings --output docs/settings.md"


def test_what_a_list_among_the_settings_holds_is_described_too(capsys):
    for name in ("weakened", "islands"):
        assert f"| `{name}` |" in page()
    assert main(["weakened"]) == 0
    assert "One entry of `instances`" in capsys.readouterr().out
