"""What a policy finds, set beside what it had been shown."""

from dataclasses import replace

import pandas as pd
import pytest

from atlas_gym.experiments.studies import verbatim
from atlas_gym.trainers.store.store import RunStore
from tests.trainers.samples import PROPOSAL, RECORD


def a_run(folder, texts, lessons=(), score=-0.1):
    """A run whose agent wrote these lines, each of which improves its parent."""
    records = [
        replace(RECORD, id=60 + i, island=0, completion=text, program_key=text.strip(), score=score)
        for i, text in enumerate(texts)
    ]
    taught = [
        replace(RECORD, id=-2 - i, island=0, origin="supporter", completion=text)
        for i, text in enumerate(lessons)
    ]
    with RunStore(folder) as store:
        store.add_unit(1, 0, records, {}, [replace(PROPOSAL, island=0)])
        if lessons:
            store.add_lessons(1, 1, taught, [])
    return str(folder)


def test_edits_are_counted_word_for_word_and_but_for_numbers(tmp_path, capsys):
    taught = a_run(tmp_path / "taught", [" 10\n", " x * 2\n"], lessons=[" np.tanh(3.5)\n"])
    search = a_run(tmp_path / "search", [" 10\n", " 12\n", " np.tanh(0.5)\n", " y\n", "  10 \n"])
    idle = a_run(tmp_path / "idle", [" 10\n"], score=-0.25)
    verbatim.main([taught, search, idle, "--output", str(tmp_path / "counts.csv")])
    data = pd.read_csv(tmp_path / "counts.csv").set_index("run")
    assert data.loc["search"].to_dict() == {"improving": 4, "word_for_word": 1, "but_for_numbers": 3}
    assert data.loc["idle"].improving == 0
    assert "word_for_word" in capsys.readouterr().out


def test_a_folder_without_a_run(tmp_path):
    with pytest.raises(SystemExit, match="Error"):
        verbatim.main([str(tmp_path), str(tmp_path)])
