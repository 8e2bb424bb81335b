"""The run store: atomic, exact, honest about what it cannot do."""

import math
import sqlite3
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atlas_gym.trainers.data.pairs import PreferencePair
from atlas_gym.trainers.store.store import RunStore, StoreError
from tests.trainers.samples import PROPOSAL, RECORD


@pytest.fixture
def store(tmp_path):
    with RunStore(tmp_path / "run") as store:
        yield store


def test_a_round_comes_back_as_it_was(store):
    failed = replace(RECORD, id=8, status="error", score=None, detail="ValueError: x", program_key=None)
    supporter = replace(RECORD, id=9, origin="supporter", prompt="", completion="")
    store.add_round(1, [RECORD, failed, supporter], {"samples": 3}, [PROPOSAL])
    assert store.proposal(1, 2) == PROPOSAL
    assert store.asked(1) == [(1, 2, PROPOSAL.prompt)]
    assert store.asked(0) == []
    with pytest.raises(KeyError, match="island 0 was asked nothing of the kind in round 1"):
        store.proposal(1, 0)
    assert list(store.candidates()) == [RECORD, failed, supporter]
    assert store.round_candidates(1, 2) == [RECORD, failed, supporter]
    assert store.round_candidates(1, 0) == []
    assert store.round_summary(1) == {"samples": 3}
    assert store.round_summary(2) is None
    assert store.candidate(7) == RECORD
    with pytest.raises(KeyError):
        store.candidate(70)


text = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)


@given(
    st.builds(
        replace, st.just(RECORD), completion=text, program=text, detail=text, diagnosis=text, prompt=text, site=text,
        score=st.none() | st.floats(allow_nan=False, allow_infinity=False), is_copy=st.booleans(),
        duplicate_of=st.none() | st.integers(0, 10**12),
        metrics=st.dictionaries(text, st.floats(allow_nan=False, allow_infinity=False), max_size=3),
    )
)  # fmt: skip
def test_any_record_survives_storage(tmp_path_factory, record):
    with RunStore(tmp_path_factory.mktemp("run")) as store:
        store.add_round(1, [record], {}, [replace(PROPOSAL, island=record.island, prompt=record.prompt)])
        assert list(store.candidates()) == [record]


def test_a_unit_is_stored_whole_or_not_at_all(store):
    with pytest.raises(sqlite3.IntegrityError):
        store.add_round(1, [RECORD, RECORD], {})
    assert store.count("candidates") == 0
    assert store.round_summary(1) is None
    store.add_round(1, [RECORD], {})
    with pytest.raises(sqlite3.IntegrityError):
        store.add_round(1, [replace(RECORD, id=70)], {})
    assert store.count("candidates") == 1


def test_a_second_process_is_kept_out(store):
    script = f"from atlas_gym.trainers.store.store import RunStore; RunStore({str(store.folder)!r})"
    other = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert other.returncode != 0
    assert "Another process is using" in other.stderr


def test_killed_after_a_commit_nothing_is_lost(tmp_path):
    script = (
        "import os, signal; from atlas_gym.trainers.store.store import RunStore\n"
        "from tests.trainers.samples import PROPOSAL, RECORD\n"
        f"store = RunStore({str(tmp_path / 'run')!r}); store.add_round(1, [RECORD], {{}}, [PROPOSAL])\n"
        "store._db.execute('BEGIN'); store._db.execute(\"DELETE FROM candidates\")\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", script], check=False)
    with RunStore(tmp_path / "run") as store:
        assert list(store.candidates()) == [RECORD]


def test_the_pairs_of_a_phase_come_back_as_they_were(store):
    pairs = [
        PreferencePair("a =", " 1\n", " 2\n", "score", 0.5, 1, 2, "a ="),
        PreferencePair("a =", " 1\n", " (\n", "failed", math.inf, 1, 3, "a ="),
    ]
    store.add_phase(1, 4, True, {}, pairs)
    store.add_phase(2, 8, True, {}, pairs[:1])
    assert [PreferencePair(**pair) for pair in store.phase_pairs(1)] == pairs


@pytest.mark.parametrize("inside", ["file", "file/run", "/proc/run"])
def test_a_folder_that_cannot_be_is_named(tmp_path, inside):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"cannot be made or written to .*--folder"):
        RunStore(tmp_path / inside)


def test_a_store_with_a_damaged_page_is_not_written_to(store):
    store.add_round(1, [replace(RECORD, program="x" * 100_000)], {}, [PROPOSAL])
    store.close()
    file = store.folder / "run.sqlite"
    whole = file.read_bytes()
    file.write_bytes(whole[:8192] + b"\xff" * 40_000 + whole[48_192:])
    with pytest.raises(StoreError, match="cannot be read as a run store"):
        RunStore(store.folder)


def test_a_run_that_goes_on_runs_no_trigger_of_a_strangers(store):
    store._db.execute("CREATE TRIGGER t AFTER INSERT ON rounds BEGIN DELETE FROM candidates; END")
    store.close()
    with pytest.raises(StoreError, match="more than a run's tables: no run has written the trigger t"):
        RunStore(store.folder)


def test_a_full_disk_loses_nothing_and_says_so(store):
    store.add_round(1, [RECORD], {}, [PROPOSAL])
    pages = store._db.execute("PRAGMA page_count").fetchone()[0]
    store._db.execute(f"PRAGMA max_page_count={pages}")
    big = replace(RECORD, id=70, program="x" * 200_000)
    with pytest.raises(StoreError, match="free some space"):
        store.add_round(2, [big], {})
    store._db.execute("PRAGMA max_page_count=100000")
    assert list(store.candidates()) == [RECORD]
    store.add_round(2, [big], {})
    assert store.count("candidates") == 2


def test_a_reader_sees_one_moment_of_a_run_that_goes_on(store):
    store.add_round(1, [RECORD], {"samples": 1}, [PROPOSAL])
    with RunStore.open_readonly(store.folder) as reader:
        assert list(reader.candidates()) == [RECORD]
        store.add_round(2, [replace(RECORD, id=70)], {"samples": 1})
        assert reader.count("candidates") == 1
        assert reader.round_summaries() == [{"samples": 1}]
    with RunStore.open_readonly(store.folder) as reader:
        assert reader.count("candidates") == 2


def test_a_reader_needs_a_run(tmp_path):
    with pytest.raises(StoreError, match="holds no run"):
        RunStore.open_readonly(tmp_path)
    assert list(tmp_path.iterdir()) == []
    for content, said in (
        (b"not a database" * 200, "cannot be read as a run store"),
        (b"", "no such table|empty"),
    ):
        (tmp_path / "run.sqlite").write_bytes(content)
        for opens in (RunStore, RunStore.open_readonly):
            with pytest.raises(StoreError, match=said):
                opens(tmp_path)


def test_a_journal_that_outlived_its_store_is_not_read_into_a_new_one(tmp_path):
    _killed_after(tmp_path, "[store.set_meta(str(i), 'x' * 9000) for i in range(600)]")
    kept = tmp_path / "run.sqlite"
    kept.rename(tmp_path / "moved away")
    for _ in range(2):
        with pytest.raises(StoreError, match=r"its journal run\.sqlite-wal is not: put it back"):
            RunStore(tmp_path)
    (tmp_path / "moved away").rename(kept)
    with RunStore(tmp_path) as store:
        assert store.get_meta("599") == "x" * 9000


def test_a_store_whose_making_was_killed_is_made_again(tmp_path):
    _killed_after(tmp_path, "store.set_meta('half', 1)")
    for name in ("run.sqlite", "run.sqlite-wal"):
        (tmp_path / name).rename(tmp_path / name.replace("sqlite", "sqlite.new"))
    with RunStore(tmp_path) as store:
        assert store.get_meta("half") is None


def _killed_after(folder, does):
    script = (
        f"import os; from atlas_gym.trainers.store.store import RunStore; "
        f"store = RunStore({str(folder)!r}); {does}; "
    )
    subprocess.run([sys.executable, "-c", script + "os.kill(os.getpid(), 9)"], check=False)


def test_what_a_run_was_given_is_not_counted_as_written(store):
    store.add_round(1, [RECORD, replace(RECORD, id=80, origin="seed")], {})
    assert store.candidate_counts()["candidates"] == 1


@pytest.mark.parametrize(
    ("change", "read"),
    [
        ("UPDATE candidates SET score = 'abc'", lambda store: list(store.candidates())),
        ("UPDATE candidates SET program = x'00'", lambda store: list(store.candidates())),
        ("UPDATE candidates SET metrics = '[]'", lambda store: list(store.candidates())),
        ("UPDATE prompts SET proposal = x'ff00'", lambda store: store.proposal(1, 2)),
        ("UPDATE rounds SET summary = '{\"samples\": '", lambda store: store.round_summary(1)),
        ("UPDATE rounds SET summary = '3'", lambda store: store.round_summaries()),
        (f"UPDATE rounds SET summary = '{'[' * 20_000}'", lambda store: store.round_summary(1)),
    ],
)
def test_a_row_of_another_kind_is_damage(store, change, read):
    store.add_round(1, [RECORD], {"samples": 1}, [PROPOSAL])
    store._db.execute(change)
    with pytest.raises(StoreError, match=r"run\.sqlite is damaged, it holds .* belongs.*: put a copy"):
        read(store)
