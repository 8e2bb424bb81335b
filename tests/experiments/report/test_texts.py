"""The line table gives back every text, and cuts only what nobody can read."""

from hypothesis import given
from hypothesis import strategies as st

from atlas_gym.experiments.report.payload import LINE_CHARS, TEXT_LINES, TextTable


def restored(table, number):
    data = table.as_dict()
    return "\n".join(data["lines"][line] for line in data["texts"][number])


@given(st.lists(st.text("ab \n\r\u2028", max_size=30), min_size=1, max_size=8))
def test_every_text_comes_back(texts):
    table = TextTable()
    numbers = [table.add(text) for text in texts]
    assert [restored(table, number) for number in numbers] == texts
    assert len(set(numbers)) == len(set(texts))


def test_a_line_is_stored_once():
    table = TextTable()
    for i in range(100):
        table.add(f"import numpy\nx = {i % 2}\nreturn x")
    assert sorted(table.as_dict()["lines"]) == ["import numpy", "return x", "x = 0", "x = 1"]


def test_what_is_too_long_is_cut_and_says_so():
    table = TextTable()
    long_line = restored(table, table.add("x" * (LINE_CHARS + 7)))
    assert long_line.startswith("x" * LINE_CHARS + "…")
    assert "7 more characters" in long_line
    many = restored(table, table.add("ab\n" * (TEXT_LINES + 10))).split("\n")
    assert len(many) == TEXT_LINES + 1
    assert "30 more characters" in many[-1]
