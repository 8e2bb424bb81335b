"""What a task's author has done wrong is told in a line."""

import pytest

from atlas_gym import mistake
from atlas_gym.mistake import authors_line, in_a_line


def raised(call):
    with pytest.raises(BaseException) as found:
        call()
    return found.value


def test_the_line_is_the_last_that_is_no_librarys():
    def mistaken():
        import json

        return json.loads("{")

    text = in_a_line(raised(mistaken))
    assert text.startswith("JSONDecodeError in test_mistake.py, line ")
    assert ', return json.loads("{"): Expecting' in text


def test_an_error_of_librarys_alone_has_no_line():
    error = ValueError("odd")
    assert authors_line(error) is None
    assert in_a_line(error) == "ValueError: odd"


def test_an_installed_tasks_line_is_the_one_that_was_called(tmp_path, monkeypatch):
    monkeypatch.setattr(mistake, "_OWN", str(tmp_path / "atlas_gym"))
    monkeypatch.setattr(mistake, "_LIBRARIES", ("<", str(tmp_path), __file__))
    names = {}
    for place, text in (
        ("helper.py", "def helped():\n    return [][0]\n"),
        ("task.py", "def scored():\n    return helped()\n"),
        ("atlas_gym/call.py", "def call():\n    return scored()\n"),
    ):
        exec(compile(text, tmp_path / place, "exec"), names)
    with pytest.raises(IndexError) as found:
        eval(compile("call()", tmp_path / "atlas_gym/start.py", "eval"), names)
    assert in_a_line(found.value) == "IndexError in task.py, line 2: list index out of range"
