"""`python -m atlas_gym serve`: where its token comes from, and what it refuses."""

import socket

import pytest

from atlas_gym.cli.main import main
from atlas_gym.cli.serve import TOKEN_VARIABLE, token


def test_a_file_comes_before_the_variable(tmp_path, monkeypatch):
    monkeypatch.setenv(TOKEN_VARIABLE, "of the variable")
    (tmp_path / "token").write_text("of the file\n")
    assert token(tmp_path / "token") == ("of the file", False)
    assert token(None) == ("of the variable", False)


def test_white_space_around_it_which_no_header_can_carry_is_not_its_own(monkeypatch):
    monkeypatch.setenv(TOKEN_VARIABLE, " of the variable\n")
    assert token(None) == ("of the variable", False)
    monkeypatch.setenv(TOKEN_VARIABLE, " \n")
    assert token(None)[1]


def test_without_either_it_is_new_each_time(monkeypatch):
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    (first, new), (second, _) = token(None), token(None)
    assert new
    assert first != second
    assert len(first) >= 32


def test_what_is_no_task_is_refused_before_anything_is_served(capsys):
    assert main(["serve", "Nowhere-v0"]) == 2
    said = capsys.readouterr()
    assert "no task 'Nowhere-v0'" in said.err
    assert said.out == ""


@pytest.mark.slow
def test_a_port_in_use_is_refused_in_words(capsys):
    pytest.importorskip("openenv", reason="needs the extra `serve`")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert main(["serve", "ATLAS-Bandit-v0", "--port", port, "--workers", "1"]) == 2
    said = capsys.readouterr()
    assert f"127.0.0.1:{port} is not to be had: give another --port or --host" in said.err
    assert "serving" not in said.out


@pytest.mark.parametrize("option", ["--max-bytes", "--turns"])
def test_a_greatest_request_and_episodes_of_nothing_are_refused(option, capsys):
    with pytest.raises(SystemExit):
        main(["serve", "ATLAS-Bandit-v0", option, "0"])
    said = capsys.readouterr()
    assert f"{option}: '0' must be a whole number of at least 1" in said.err
    assert said.out == ""
