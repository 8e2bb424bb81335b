"""The report of a real run, real weights and confined workers included, as a browser shows it."""

import random
import subprocess
import sys
from dataclasses import replace

import pytest

pytest.importorskip("selenium", reason="selenium comes with the dev extra")

from atlas_gym import make_task
from atlas_gym.evaluation import ConfinedEvaluator
from atlas_gym.experiments.report.data import read_run
from atlas_gym.experiments.report.write import write_report
from atlas_gym.program_text import program_key
from atlas_gym.trainers.store.store import RunStore
from tests.experiments.report.browser import chromium, needs_browser
from tests.experiments.report.synthetic import ATTACK

pytestmark = [needs_browser, pytest.mark.slow, pytest.mark.timeout(1200)]

CONSTANTS = {"replicas": 2, "horizon": 300}
SETTINGS = [
    "--rounds=3", "--phase_every=2", "--skip_idle_phases=false", "--teaching=phase", "--exploration.islands=3",
    "--exploration.samples=6", "--pairs.count=8", "--gate.samples=2", "--held_out_seeds=3",
    "--tracking=off",
    *(f"--env_args.{name}={value}" for name, value in CONSTANTS.items()),
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory, embedded_weights):
    """A run of three rounds and a phase, to which a program is added that attacks the page."""
    folder = tmp_path_factory.mktemp("runs") / "real"
    command = [sys.executable, "-m", "atlas_gym.experiments.run", "--folder", str(folder), *SETTINGS]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (folder / "report.html").is_file()
    with RunStore(folder) as store:
        store.add_round(4, [hostile(next(store.candidates()))], {"round": 4, "samples": 1})
    return folder


def hostile(parent):
    """What a model might write: the same program with a comment, scored as any other."""
    program = f"# {ATTACK}\n{parent.program}"
    evaluator = ConfinedEvaluator()
    try:
        outcome = evaluator.evaluate(program, make_task("ATLAS-Bandit-v0", seed=0, **CONSTANTS))
    finally:
        evaluator.close()
    assert outcome.ok
    return replace(
        parent, id=10**9, round=4, origin="agent", parent_id=parent.id, program=program, completion=f" {ATTACK}\n",
        program_key=program_key(program), score=outcome.score, diagnosis=outcome.diagnosis, hole=ATTACK,
        parent_score=parent.score, is_copy=False,
    )  # fmt: skip


@pytest.fixture
def opened(folder, tmp_path):
    url = write_report([folder], tmp_path / "report.html")[0].as_uri()
    with chromium(tmp_path / "profile") as page:
        page.open(url)
        yield page
        assert page.problems() == []
        assert page.requests() == [url]
        assert page.driver.title == "real · ATLAS Gym"


def test_a_real_run_in_the_browser(opened, folder):
    run = read_run(folder)
    assert len(run.tuned_phases) == 1
    position = {record.id: i for i, record in enumerate(run.candidates)}
    drawn = [
        r for r in run.candidates if r.parent_id is not None and not r.is_copy and r.duplicate_of is None
    ]
    shown = random.Random(0).sample(drawn, 10)
    for record in shown:
        opened.click_node(position[record.id])
        assert f"Candidate {record.id}" in opened.text(".candidate h3")
        before = run.candidates[position[record.parent_id]].program.split("\n")
        after = record.program.split("\n")
        assert set(opened.diff("removed")) == set(before) - set(after)
        assert set(opened.diff("added")) == set(after) - set(before)
        feedback = record.diagnosis if record.passed else record.detail
        assert (feedback or record.status) in opened.text(".facts")
    assert any(record.diagnosis for record in run.candidates)

    opened.click_node(position[10**9])
    assert opened.diff("added") == [f"# {ATTACK}"]
    assert ATTACK in opened.text(".facts")
    assert opened.js("return document.querySelectorAll('img:not([src^=\"data:image/png\"])').length") == 0
    assert opened.js("return document.querySelectorAll('script').length") == 2

    assert "1" in opened.text("#gate")
    assert "strategist" in opened.text("#supporters")
    assert opened.js(
        "return [...document.querySelectorAll('#environment img')].every(i => i.naturalWidth > 300)"
    )
    assert opened.js("return document.querySelectorAll('#environment img').length") >= 1
