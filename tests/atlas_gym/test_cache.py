from pathlib import Path

import pytest

from atlas_gym.cache import cache_folder


def test_the_cache_folder_is_the_argument_the_variable_or_the_users(monkeypatch):
    monkeypatch.delenv("ATLAS_GYM_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache_folder() == Path("/xdg/atlas-gym")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "atlas-gym"
    monkeypatch.setenv("ATLAS_GYM_CACHE", "/chosen")
    assert cache_folder() == Path("/chosen")
    assert cache_folder("/argument") == Path("/argument")


def test_a_user_without_a_home_folder_is_told_what_to_set(monkeypatch, homeless):
    monkeypatch.delenv("ATLAS_GYM_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    with pytest.raises(OSError, match="set HOME, XDG_CACHE_HOME or ATLAS_GYM_CACHE"):
        cache_folder()
