"""What is said where an optional package is missing."""

import json

import pytest

from atlas_gym.optional import require


def test_a_package_that_is_there_is_imported():
    assert require("json", "learn") is json


@pytest.mark.parametrize("made", [False, True], ids=["nothing", "a folder of that name"])
def test_a_missing_package_names_its_extra(made, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    if made:
        (tmp_path / "no_such_package").mkdir()
    with pytest.raises(ModuleNotFoundError, match=r"no_such_package is not installed: .*atlas-gym\[ray\]"):
        require("no_such_package", "ray")
