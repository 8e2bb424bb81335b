"""Hidden streams: reproducible with the secret, unrelated without it."""

import stat
import subprocess
import sys

import pytest

from atlas_gym.cli import doctor
from atlas_gym.evaluation.roots import read_roots
from atlas_gym.hidden_streams import (
    SECRET_VARIABLE,
    SecretError,
    hidden_stream,
    secret_path,
)


@pytest.fixture
def fresh_state(tmp_path, monkeypatch):
    monkeypatch.delenv(SECRET_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def draws(*labels, **options):
    return hidden_stream(*labels, **options).random(4).tolist()


def test_secret_and_every_label_matter():
    streams_seen = [
        draws("bandit", 3, secret="a"),
        draws("bandit", 3, secret="b"),
        draws("bandit", 4, secret="a"),
        draws("burgers", 3, secret="a"),
        draws(3, "bandit", secret="a"),
        draws("bandit", "3", secret="a"),
        draws("bandi", "t3", secret="a"),
        draws("bandit3", secret="a"),
    ]
    assert len({tuple(s) for s in streams_seen}) == len(streams_seen)


def test_secret_file_is_made_once_and_private(fresh_state):
    first = draws("x")
    assert draws("x") == first
    assert secret_path() == fresh_state / "atlas-gym" / "secret"
    assert stat.S_IMODE(secret_path().stat().st_mode) == 0o600
    assert len(secret_path().read_text()) == 64
    assert [p.name for p in secret_path().parent.iterdir()] == ["secret"]


def test_streams_survive_the_process(fresh_state):
    code = "from atlas_gym.hidden_streams import hidden_stream; print(hidden_stream('x').random(4).tolist())"
    outputs = {subprocess.check_output([sys.executable, "-c", code]) for _ in range(2)}
    assert outputs == {f"{draws('x')}\n".encode()}


def test_variable_goes_before_the_file(fresh_state, monkeypatch):
    monkeypatch.setenv(SECRET_VARIABLE, "mine")
    assert draws("x") == draws("x", secret="mine")
    assert not secret_path().exists()


def test_a_user_without_a_home_folder_needs_the_variable(monkeypatch, homeless):
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.delenv(SECRET_VARIABLE, raising=False)
    with pytest.raises(SecretError, match="set HOME, XDG_STATE_HOME or ATLAS_GYM_SECRET"):
        hidden_stream("a")
    assert str(doctor._secret()).count("ATLAS_GYM_SECRET") == 1
    monkeypatch.setenv(SECRET_VARIABLE, "its own")
    assert hidden_stream("a").random() == hidden_stream("a", secret="its own").random()
    assert read_roots()


@pytest.mark.parametrize("spoil", ["emptied", "a folder"])
def test_a_secret_that_cannot_be_kept_is_said_with_the_way_out(spoil, fresh_state):
    secret_path().parent.mkdir(parents=True)
    if spoil == "emptied":
        secret_path().write_text("\n")
    else:
        secret_path().mkdir()
    with pytest.raises(SecretError, match=str(secret_path())):
        hidden_stream("a")


@pytest.mark.parametrize("label", [1.5, None, True])
def test_labels_are_texts_or_whole_numbers(label):
    with pytest.raises(TypeError, match="labels are text or whole numbers"):
        hidden_stream(label)
