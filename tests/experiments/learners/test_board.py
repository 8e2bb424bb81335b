"""The leaderboard's rows, its statistics against brute force, and its page from data alone."""

import os
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atlas_gym.experiments.learners import leaderboard, own_runs
from atlas_gym.experiments.learners.board import (
    best_at,
    gains,
    interquartile_mean,
    paired_difference,
    profile,
    read_tables,
    write_tables,
)
from atlas_gym.experiments.learners.board_page import page
from atlas_gym.experiments.learners.changes import Change, changes_between, nest
from atlas_gym.experiments.learners.entries import ENTRIES, SEARCH, START, Entry
from atlas_gym.experiments.learners.ledger import Outcome, Point, Trial, confirm
from atlas_gym.experiments.learners.own_runs import changes, read_outcome, settings_of
from atlas_gym.experiments.shipped import find
from atlas_gym.experiments.studies.scheduler import Job
from atlas_gym.trainers.loop.config import load_config
from tests.experiments.report.synthetic import Layout, make_run

DOCS = Path(__file__).parents[3] / "docs" / "leaderboard"


def series(values: dict[tuple[str, str, int], float]) -> pd.Series:
    index = pd.MultiIndex.from_tuples(values, names=["task", "learner", "seed"])
    return pd.Series(list(values.values()), index)


def test_a_gain_is_the_share_of_the_starts_loss_that_is_gone():
    rows = [
        ("a", START, 0, 0, -0.4),
        ("a", START, 0, 1, -0.2),
        ("a", "x", 1, 0, -0.1),
        ("a", "x", 1, 1, -0.05),
    ]
    found = gains(pd.DataFrame(rows, columns=["task", "learner", "seed", "held_out", "value"]), START)
    assert found["a", START, 0] == pytest.approx(0.0)
    assert found["a", "x", 1] == pytest.approx(0.75)
    with pytest.raises(ValueError, match="no row of the start on b"):
        gains(
            pd.DataFrame([("b", "x", 0, 0, -1.0)], columns=["task", "learner", "seed", "held_out", "value"]),
            START,
        )


def test_differences_are_paired_by_task_and_seed():
    noise = {("a", 0): 0.5, ("a", 1): -0.3, ("b", 0): 0.1}
    values = {(task, "x", seed): 0.1 + extra for (task, seed), extra in noise.items()}
    values |= {(task, "y", seed): extra for (task, seed), extra in noise.items()}
    values["b", "y", 1] = 9.0  # nothing to be paired with
    found, count = paired_difference(series(values), "x", "y")
    assert count == 3
    assert found.mean == pytest.approx(0.1)
    assert found.half_width == pytest.approx(0.0, abs=1e-12)


@given(
    st.lists(st.floats(-1, 1), min_size=4, max_size=12), st.lists(st.floats(-1, 1), min_size=2, max_size=3)
)
def test_the_interquartile_mean_is_that_of_the_middle_half_and_lies_in_its_interval(runs, others):
    values = {("a", "x", seed): value for seed, value in enumerate(runs)}
    values |= {("b", "x", seed): value for seed, value in enumerate(others)}
    middle, low, high = interquartile_mean(series(values), "x", resamples=200)
    ordered = sorted([*runs, *others])
    cut = len(ordered) // 4
    assert middle == pytest.approx(np.mean(ordered[cut : len(ordered) - cut]))
    assert min(ordered) - 1e-9 <= low <= high <= max(ordered) + 1e-9


def test_resamples_are_drawn_within_tasks():
    values = {("a", "x", seed): 0.0 for seed in range(4)} | {("b", "x", seed): 1.0 for seed in range(4)}
    assert interquartile_mean(series(values), "x") == pytest.approx((0.5, 0.5, 0.5))


def test_a_profile_counts_runs_above_a_level_and_tasks_alike():
    values = {("a", "x", 0): 0.1, ("a", "x", 1): 0.3, ("b", "x", 0): 0.5}
    assert profile(series(values), "x", np.array([0.0, 0.2, 0.4, 0.5])).tolist() == [1.0, 0.75, 0.5, 0.0]


def test_a_curve_is_read_at_any_amount_of_work():
    curve = pd.DataFrame({"tokens": [0, 10, 20], "best": [-3.0, -2.0, -1.0]})
    assert best_at(curve, "tokens", np.array([0, 9, 10, 50])).tolist() == [-3.0, -3.0, -2.0, -1.0]


@pytest.mark.parametrize("budget", [8, 16, 24, 40, 100, 200, 1000])
@pytest.mark.parametrize(("method", "config"), [("search", ""), ("atlas", ""), ("evotune", "evotune")])
def test_a_run_asks_for_no_more_than_its_budget(budget, method, config):
    settings = settings_of(Trial("ATLAS-Bandit-v0", 3, budget), method, {}, config)
    run = load_config(find("configs", config) if config else None, settings)
    layout = run.exploration
    patches = layout.patches if run.supporters.exploration.form != "off" else 0
    asked = run.rounds * layout.islands * (layout.samples + patches)
    assert budget - 8 * layout.islands < asked <= budget
    assert (run.seed, run.method) == (3, method)
    assert run.phases == 0 if method == "search" or budget < 16 else run.phases >= 1


def test_a_run_that_cannot_be_paid_for_is_an_error():
    with pytest.raises(ValueError, match="one round"):
        settings_of(Trial("ATLAS-Bandit-v0", 0, 7), "search", {})


def test_every_change_of_a_run_says_why_and_is_one():
    found = changes(Trial("ATLAS-Bandit-v0", 3, 200), "search", {"agent.styles": {"numeric": 1.0}})
    assert found["workers"].value != found["workers"].default
    assert {"seed", "env", "method"}.isdisjoint(found)
    assert found["agent.styles.numeric"].why == "what this row is about"
    assert all(change.why and change.value != change.default for change in found.values())


def test_a_change_is_what_differs_between_two_configurations():
    usual = {"a": 1, "b": {"c": [1], "d": None}, "seed": 0}
    mine = {"a": 1, "b": {"c": [2], "d": "x"}, "seed": 4, "e": 5}
    found = changes_between(mine, usual, {"b.c": "because"}, "else", given=("seed",))
    assert found == {
        "b.c": Change([2], [1], "because"), "b.d": Change("x", None, "else"), "e": Change(5, None, "else"),
    }  # fmt: skip
    assert nest({"b.c": 1, "b.d.e": 2, "a": 3}) == {"b": {"c": 1, "d": {"e": 2}}, "a": 3}


def job(folder, program):
    return Job(folder, [sys.executable, "-c", program], os.environ, folder / "log.txt")


@pytest.mark.parametrize("limits", [{"seconds": 0.2}, {"tokens": 1}])
def test_a_run_is_stopped_where_a_limit_is_reached(tmp_path, monkeypatch, limits):
    monkeypatch.setattr(own_runs, "_LOOK_S", 0.05)
    make_run(tmp_path, Layout())
    own_runs._do(job(tmp_path, "import time; time.sleep(600)"), Trial("ATLAS-Bandit-v0", 0, 8, **limits))


def test_a_run_that_ends_by_itself_has_failed_if_it_says_so(tmp_path):
    trial = Trial("ATLAS-Bandit-v0", 0, 8, tokens=1)
    own_runs._do(job(tmp_path, ""), trial)
    with pytest.raises(RuntimeError, match=r"exit code 3, see .*log\.txt"):
        own_runs._do(job(tmp_path, "raise SystemExit(3)"), trial)


def test_a_finished_run_is_counted_from_its_store(tmp_path):
    found = read_outcome(make_run(tmp_path / "run", Layout(seed=4)))
    assert found.candidates >= found.evaluated == sum(found.statuses.values())
    assert found.curve[0].candidates == 0
    assert found.curve[-1].candidates == found.candidates
    assert found.curve[-1].best == pytest.approx(found.score)
    assert [p.tokens for p in found.curve] == sorted(p.tokens for p in found.curve)


@pytest.fixture
def quick(monkeypatch):
    """Two learners that answer at once, and how often each was asked."""
    asked = []

    def learner(name):
        def learn(trial):
            asked.append(name)
            if name == "fails":
                raise RuntimeError("no luck")
            curve = (Point(0, 0, 0.0, -0.5), Point(trial.budget, 70, 1.0, -0.2))
            return Outcome(trial.start, -0.2, trial.budget, 2, {"ok": 1, "error": 1}, 70, 300, curve)

        return learn

    change = {"temperature": Change(1, 2, "because")}
    entries = {
        name: Entry(f"what {name} does", learner(name), "numpy", lambda trial: change) for name in ENTRIES
    }
    entries["fails"] = Entry("fails", learner("fails"))
    monkeypatch.setattr(leaderboard, "ENTRIES", entries)
    monkeypatch.setattr(
        leaderboard, "confirm", lambda env_id, program, seeds, constants: ([-0.25, -0.15] * seeds)[:seeds]
    )
    return asked


def test_a_task_with_keywords_is_a_task_of_its_own_in_search_and_confirmation(tmp_path, quick):
    small = "ATLAS-Bandit-v0 horizon=60"
    tasks = ["--tasks", "ATLAS-Bandit-v0", small, "--seeds", "1", "--budget", "5", "--folder", str(tmp_path)]
    assert leaderboard.main([*tasks, "--learners", SEARCH]) == 0
    assert set(read_tables(tmp_path)["rows"].learner) == {START, SEARCH}, "gains are counted from the start"
    assert set(read_tables(tmp_path)["rows"].task) == {"ATLAS-Bandit-v0", small}
    assert f"'{small}'" in (tmp_path / "README.md").read_text()
    start = Trial("ATLAS-Bandit-v0", 0, 5, constants={"horizon": 60})
    assert start.task().horizon == 60
    short, long = (
        confirm("ATLAS-Bandit-v0", start.start, 1, constants=c) for c in ({"horizon": 60}, {"horizon": 70})
    )
    assert short != long


def test_an_interrupted_leaderboard_does_only_what_is_missing(tmp_path, quick, monkeypatch, capsys):
    arguments = ["--tasks", "ATLAS-Bandit-v0", "--seeds", "2", "--budget", "5", "--held-out", "2"]
    arguments += ["--folder", str(tmp_path / "rows"), "--learners", START, SEARCH]
    assert leaderboard.main([*arguments, "fails"]) == 1
    assert "no luck" in capsys.readouterr().err
    assert quick == [START, SEARCH, "fails"] * 2
    assert leaderboard.main([*arguments, "--publish", str(tmp_path / "page")]) == 0
    assert leaderboard.main([*arguments, "--publish", str(tmp_path / "page")]) == 2
    assert "--replace writes over it" in capsys.readouterr().err
    assert leaderboard.main([*arguments, "--publish", str(tmp_path / "page"), "--replace"]) == 0
    assert len(quick) == 6
    tables = read_tables(tmp_path / "page")
    assert sorted(set(tables["rows"].learner)) == [SEARCH, START]
    assert tables["rows"].refused.tolist() == [1] * 4
    assert tables["settings"].to_dict("records")[0]["why"] == "because"
    text = (tmp_path / "page" / "README.md").read_text()
    assert text == page(tables)
    assert "5 candidates each, 2 seeds" in text
    assert f"| {START}, {SEARCH} | `temperature` | `1` | `2` | because |" in text
    assert "--budget 5 \\\n    --seeds 2 \\\n" in text
    assert f"| search | numpy {np.__version__} | what search does |" in text
    assert leaderboard.main([*arguments, "--budget", "6"]) == 2
    assert "budget of 5 candidates; name another --folder" in capsys.readouterr().err
    assert leaderboard.main([*arguments, "--held-out", "4"]) == 2
    assert "rows scored on 2 held-out tasks; give --held-out 2" in capsys.readouterr().err


def test_a_listing_starts_nothing_and_counts_what_is_done(tmp_path, quick, capsys):
    arguments = ["--seeds", "2", "--tokens", "900", "--folder", str(tmp_path / "rows")]
    arguments += ["--environments", str(tmp_path / "peers"), "--tasks", "ATLAS-TSP-v0"]
    assert leaderboard.main([*arguments, "--learners", "START", "Tpe"]) == 0
    assert quick == [START, "TPE"] * 2
    assert leaderboard.main([*arguments, "--list"]) == 0
    listed = capsys.readouterr().out
    assert all(f"what {name} does" in listed for name in ENTRIES)
    assert f"4 of {2 * len(leaderboard.ENTRIES)} rows of 200 candidates or 900 tokens each are done" in listed
    assert len(quick) == 4


def test_the_real_learners_are_listed_without_being_installed(tmp_path, capsys):
    assert leaderboard.main(["--list", "--environments", str(tmp_path)]) == 0
    assert "OpenEvolve 0.4.0, to be installed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--learners", "openevolv"], "did you mean openevolve?"),
        (["--tasks", "ATLAS-Bandit"], "ATLAS-Bandit-v0"),
        (["--tasks", "ATLAS-Bandit-v0 preset=nois"], "there are default, paper, noisy"),
        (["--tasks", "ATLAS-Bandit-v0 nois=1"], "no constant nois"),
        (["--tasks", "ATLAS-Bandit-v0 noisy"], "'noisy' is not NAME=VALUE"),
    ],
)
def test_what_is_asked_wrongly_is_answered_with_the_nearest(tmp_path, wrong, said, capsys):
    try:
        code = leaderboard.main([*wrong, "--folder", str(tmp_path)])
    except SystemExit as ended:
        code = ended.code
    assert code == 2
    assert said in capsys.readouterr().err


def test_words_and_bold_print_follow_the_data(tmp_path):
    def row(learner, seed, level):
        outcome = Outcome("", level, 5, 5, {"ok": 5}, 0, 0, (Point(0, 0, 0.0, level),))
        own = {"task": "a", "learner": learner, "seed": seed, "version": "", "what": ""}
        own["budget"] = "5 candidates"
        return {
            **own,
            "seconds": 1,
            "cpu_seconds": 1,
            "changes": {},
            "held_out": [level, level],
            **asdict(outcome),
        }

    def words(seeds):
        rows = [row(START, 0, -1.0), row("GRPO", 0, -0.1)]
        for seed in range(seeds):
            shake = 0.01 * (seed % 3)
            rows += [row(SEARCH, seed, -0.5 - shake), row("ATLAS", seed, -0.2), row("EvoDPO", seed, -0.508)]
            rows += [row("OpenEvolve", seed, -0.9 - shake * seed)]
            rows += [row("ShinkaEvolve", seed + 100, -0.9)]  # has no pair
        write_tables(rows, tmp_path / str(seeds))
        return page(read_tables(tmp_path / str(seeds)))

    one, three, five = words(1), words(3), words(5)
    assert "over all tasks" not in one.lower()
    assert "profiles.png" not in one
    assert [text.count("Few seeds") for text in (one, three, five)] == [1, 1, 1]  # of GRPO there is one
    for text in (three, five):
        assert "Better than `search` over all tasks: ATLAS." in text
        assert "Worse than `search` over all tasks: OpenEvolve." in text
        assert "Not told apart from `search` over all tasks: EvoDPO." in text
        assert "| GRPO |" not in text.partition("## Over all tasks")[2].partition("## What was lost")[0]
    assert three.count("**") == 2
    assert five.count("**") == 2 + 4


@pytest.mark.skipif(not DOCS.exists(), reason="nothing is published")
def test_the_published_page_is_made_of_the_published_tables():
    tables = read_tables(DOCS)
    assert (DOCS / "README.md").read_text(encoding="utf-8") == page(tables)
    key = ["task", "learner", "seed"]
    assert not tables["rows"].duplicated(key).any()
    assert set(map(tuple, tables["scores"][key].to_numpy())) == set(
        map(tuple, tables["rows"][key].to_numpy())
    )
    assert set(tables["rows"].learner) <= set(ENTRIES)
