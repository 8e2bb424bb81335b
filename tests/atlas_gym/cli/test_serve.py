"""`python -m atlas_gym serve`: where its token comes from, and what it refuses."""

from atlas_gym.cli.main import main
from atlas_gym.cli.serve import TOKEN_VARIABLE, token


def test_a_file_comes_before_the_variable(tmp_path, monkeypatch):
    monkeypatch.setenv(TOKEN_VARIABLE, "of the variable")
    (tmp_path / "token").write_text("of the file\n")
    assert token(tmp_path / "token") == ("of the file", False)
    assert token(None) == ("of the variable", False)


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
