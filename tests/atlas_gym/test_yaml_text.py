"""What YAML is read, what is refused in one line and at once, and that what is written is read back."""

import pytest

from atlas_gym import yaml_text

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 10)}]\n" for n in range(9)
)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("text", "says"),
    [
        (BOMB, r"line 2: aliases \(\*a0\) are not taken"),
        ("a: &a [*a]", "aliases"),
        ("a: {<<: *a}", "aliases"),
        ("[" * 10_000, "nested more than 50 deep"),
        ("? " * 10_000, "nested more than 50 deep"),
        ("x: " * 2000, "line 1: mapping values are not allowed here"),
        ("x: " + "y" * 5 * 2**20, "larger than 256 KiB"),
        ("x: " + "9" * 10_000, "integer string conversion"),
        ("x: 1" + ":59" * 50_000, None),
        ("x: " + "1" * 200_000 + "x", None),
        ("a: 1\nb: 2\na: 3\n", "a stands in lines 1 and 3; keep one"),
        ("? [a]\n: 1", "unhashable key"),
        ("x: !!python/object/apply:os.system [ls]", "could not determine a constructor"),
        ("x: [1", "line 1: while parsing a flow sequence"),
        ("\x00", "not allowed"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_strangers_file_is_read_or_refused_in_a_line(tmp_path, text, says):
    (tmp_path / "mine.yaml").write_text(text)
    if says is None:
        assert yaml_text.read(tmp_path / "mine.yaml") == {"x": text[3:]}
        return
    with pytest.raises(ValueError, match=says) as refused:
        yaml_text.read(tmp_path / "mine.yaml")
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2e-4", 2e-4), ("-1.5E3", -1500.0), (".5e+1", 5.0), ("1.5", 1.5), ("3.", 3.0), (".inf", float("inf")),
        ("1_000", 1000), ("-7", -7), ("0x1F", 31), ("0", 0), ("true", True), ("null", None), ("", None),
        ("e5", "e5"), ("1e5x", "1e5x"), ("off", "off"), ("yes", "yes"), ("2020-01-01", "2020-01-01"),
        ("12:30", "12:30"), ("08", "08"), ("[a, {b: 1}]", ["a", {"b": 1}]),
    ],
)  # fmt: skip
def test_scalars_are_read_as_people_write_them(text, value):
    found = yaml_text.load(text)
    assert (found, type(found)) == (value, type(value))


def test_what_is_written_is_read_back():
    said = {"model": "1e3", "day": "2020-01-01", "no": "null", "state": "off", "yes": "true", "at": "12:30"}
    said |= {
        "rate": 1e-4,
        "small": 1e-300,
        "count": -3,
        "on": True,
        "none": None,
        "list": [1, {"ä": "×"}],
        "08": "08",
    }
    assert yaml_text.load(yaml_text.dump(said)) == said
