"""What a task's author has done wrong is told in a line."""

import pytest

from atlas_gym.mistake import in_a_line


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
