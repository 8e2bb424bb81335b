"""Run folders that no run has written: a report of them ends soon, and in words."""

import os
import shutil
import sqlite3
import struct

import pytest

from atlas_gym.experiments.report.__main__ import main
from atlas_gym.trainers.store.store import RunStore, StoreError
from tests.experiments.report.synthetic import Layout, make_run

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    return make_run(
        tmp_path_factory.mktemp("sound") / "run", Layout(rounds=5, planned_rounds=5, phase_every=2)
    )


@pytest.fixture
def folder(sound, tmp_path):
    return shutil.copytree(sound, tmp_path / "run")


def said(folder, capsys):
    """What the report's command says of a folder that it cannot show."""
    assert main([str(folder), "--output", str(folder / "out" / "report.html")]) == 1
    error = capsys.readouterr().err
    assert error.startswith("Error: ")
    assert "Traceback" not in error
    assert len(error) < 1000
    return error


def change(folder, *statements):
    with sqlite3.connect(folder / "run.sqlite") as db:
        for statement in statements:
            db.execute(statement)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("text", "says"),
    [("a: &a [*a]\n", "aliases"), ("\x00", "not YAML"), ("- a list\n", "must hold settings")],
)
def test_settings_that_are_none(folder, text, says, capsys):
    (folder / "config.yaml").write_text(text)
    assert says in said(folder, capsys)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("table", ["candidates", "rounds", "phases", "supporter_calls", "meta"])
def test_a_view_in_the_place_of_a_table(folder, table, capsys):
    with sqlite3.connect(folder / "run.sqlite") as db:
        columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
        db.execute(f"DROP TABLE {table}")
        values = ", ".join(f"i AS {name}" for name in columns)
        db.execute(f"CREATE VIEW {table} AS {ENDLESS} SELECT {values} FROM n")
    assert f"the view {table}" in said(folder, capsys)


@pytest.mark.timeout(60)
def test_a_table_that_computes(folder, capsys):
    change(
        folder,
        "DROP TABLE rounds",
        "CREATE TABLE rounds (round INTEGER, summary TEXT AS (hex(round)))",
        "INSERT INTO rounds (round) VALUES (1)",
    )
    assert "the table rounds" in said(folder, capsys)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("table", "column"),
    [("rounds", "summary"), ("phases", "result"), ("candidates", "metrics"), ("supporter_calls", "call"),
     ("meta", "value")],
)  # fmt: skip
@pytest.mark.parametrize(
    "text", ["{", "[]", "7", "[" * 100_000, "9" * 5_000], ids=["half", "list", "number", "deep", "long"]
)
def test_damaged_json(folder, table, column, text, capsys):
    with sqlite3.connect(folder / "run.sqlite") as db:
        db.execute(f"UPDATE {table} SET {column} = ?", (text,))
    said(folder, capsys)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("column", ["score", "program", "round", "status", "completion"])
def test_values_of_another_kind(folder, column, capsys):
    value = "zeroblob(10)" if column != "round" else "'x'"
    change(folder, f"UPDATE candidates SET {column} = {value}")
    said(folder, capsys)


def test_a_file_that_is_cut_off(folder, capsys):
    path = folder / "run.sqlite"
    path.write_bytes(path.read_bytes()[:5000])
    said(folder, capsys)


@pytest.mark.parametrize(
    "name", ["report.html", "report.tmp", "tables", ".lock", "config.tmp", "wandb", "adapters/x"]
)
def test_links_are_refused_and_lead_nowhere(folder, name, tmp_path, capsys):
    (target := tmp_path / "mine").write_text("mine")
    (folder / "adapters").mkdir()
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(target)
    assert main([str(folder)]) == 1
    assert "is a link to" in capsys.readouterr().err
    with pytest.raises(StoreError, match="is a link to"):
        RunStore(folder)
    assert target.read_text() == "mine"


@pytest.mark.timeout(60)
def test_a_pipe_is_not_waited_for(folder, capsys):
    os.mkfifo(folder / "config.tmp")
    assert "is no file" in said(folder, capsys)


def test_a_journal_that_names_a_file_does_not_delete_it(folder, tmp_path, capsys):
    (target := tmp_path / "mine").write_text("mine")
    magic, name = bytes.fromhex("d9d505f920a163d7"), bytes(target)
    head = magic + struct.pack(">5I", 0, 1, 1, 512, 4096)
    tail = struct.pack(">2I", len(name), sum(name)) + magic
    forged = head.ljust(512, b"\0") + struct.pack(">I", 2**30 // 4096 + 1) + name + tail
    (folder / "run.sqlite-journal").write_bytes(forged)
    assert "is a rollback journal" in said(folder, capsys)
    with pytest.raises(StoreError, match="is a rollback journal"):
        RunStore(folder)
    assert target.exists()


@pytest.mark.parametrize("name", [".lock", "report.html", "report.tmp", ".report.html"])
def test_nothing_is_written_into_a_file_that_is_there(folder, name, tmp_path):
    (target := tmp_path / "mine").write_text("mine")
    (folder / name).unlink(missing_ok=True)
    (folder / name).hardlink_to(target)
    RunStore(folder).close()
    assert main([str(folder)]) == 0
    assert target.read_text() == "mine"


def test_the_page_of_several_runs_follows_no_link(folder, tmp_path, capsys):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "report").symlink_to(tmp_path / "elsewhere")
    assert main([str(folder), str(folder)]) == 1
    assert "is a link to" in capsys.readouterr().err


@pytest.mark.timeout(60)
@pytest.mark.parametrize("number", [300_000_000, 2**62, -(2**62), 0])
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE candidates SET round = ?",
        "UPDATE candidates SET island = ?",
        "UPDATE OR IGNORE rounds SET round = ?",
        "UPDATE OR IGNORE phases SET round = ?",
        "INSERT OR REPLACE INTO meta VALUES ('instances', ?)",
    ],
)
def test_numbers_are_claims(folder, statement, number, capsys):
    with sqlite3.connect(folder / "run.sqlite") as db:
        db.execute(statement, (number,))
    if main([str(folder)]):
        assert capsys.readouterr().err.startswith("Error: ")


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE VIEW 'a\x1b[2Jb' AS SELECT 1",
        "CREATE TABLE 'a\x1b[2Jb' (y, x AS (1))",
        "UPDATE candidates SET origin = x'00', status = 'a\x1b[2Jb'",
        "UPDATE rounds SET summary = 'a\x1b[2Jb'",
    ],
)
def test_no_escape_sequence_reaches_the_terminal(folder, statement, capsys):
    change(folder, statement)
    assert "\x1b" not in said(folder, capsys)
