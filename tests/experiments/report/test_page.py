"""The page: nothing that a run holds becomes markup, nothing on it can run or ask anybody, and it shows the run."""

import base64
import hashlib
import os
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atlas_gym.experiments.cli import summary
from atlas_gym.experiments.report import page
from atlas_gym.experiments.report.__main__ import main
from atlas_gym.experiments.report.data import read_run
from atlas_gym.experiments.report.figures import as_png, draw_scores, score_limits
from atlas_gym.trainers.store.store import RunStore
from tests.experiments.report.synthetic import ATTACK, Layout, make_run


class Skeleton(HTMLParser):
    """The elements of a page with their attributes, pictures aside, and its text."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.text = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, [(name, str(value)[:16]) for name, value in attrs]))

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return read_run(make_run(tmp_path_factory.mktemp("page") / "run", Layout(rounds=5, phase_every=2)))


def hostile(run, text):
    """The same run with a text wherever a program, a supporter or a stranger can put one."""
    stored = text.encode(errors="replace").decode()  # SQLite's own texts are UTF-8
    (start, best), *_ = run.ends
    best = replace(best, program=f"{start.program}\n{text}", origin=text, diagnosis=text)
    phases = [{**p, "decision": {**p["decision"], "reason": text}, "changed_controls": ["beta", stored],
               "warnings": [text]} for p in run.phases]  # fmt: skip
    calls = [{**call, **dict.fromkeys(("role", "model", "reason", "outcome", "reply"), text)}
             for call in run.supporter_calls]  # fmt: skip
    old = run.candidates
    candidates = old.assign(
        origin=[stored if origin == "agent" else origin for origin in old.origin],
        status=["ok" if status == "ok" else stored for status in old.status],
        message=stored,
    )
    config = {**run.config, "method": text, "note": text}
    return replace(
        run, name=text, config=config, candidates=candidates, phases=tuple(phases), supporter_calls=tuple(calls),
        top=(best,), ends=((start, best),),
    )  # fmt: skip


dangerous = st.sampled_from(
    ["</pre>", "</style>", "<script>", "<!--", "-->", "]]>", "&lt;", "\u2028", "{{ policy }}", "{% raw %}", "\ud800",
     "\x00", "\r", "$x_$", '" onerror="', ATTACK]
)  # fmt: skip


@settings(max_examples=10, deadline=None)
@given(st.lists(st.text(max_size=20) | dangerous, min_size=1, max_size=4).map("".join))
def test_no_text_becomes_markup(run, text):
    plain = Skeleton(page.render([hostile(run, "harmless")]))
    found = Skeleton(page.render([hostile(run, text)]))
    longer = [("span", [("class", kind)]) for kind in ("added", "place")]  # text is more lines of a diff
    found, plain = ([own for own in page.elements if own not in longer] for page in (found, plain))
    assert found == plain


def test_what_cannot_be_seen_is_marked(run):
    text = Skeleton(page.render([hostile(run, "a\u202eb\x1b[2Jc\ud800")])).text
    assert "a\ufffdb\ufffd[2Jc\ufffd" in text


def test_the_policy_allows_the_pages_own_style_alone(run):
    text = page.render([run])
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text).group(1).replace("&#39;", "'")
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    style = re.search(r"<style>(.*?)</style>", text, re.S).group(1)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert rules == {
        "default-src": "'none'", "style-src": f"'sha256-{digest}'", "img-src": "data:", "base-uri": "'none'",
        "form-action": "'none'",
    }  # fmt: skip
    assert "script" not in {tag for tag, _ in Skeleton(text).elements}
    assert not re.search(r"https?://", text)


def test_one_runs_page_shows_what_came_of_it(run_folder, capsys):
    assert main([str(run_folder)]) == 0
    path = run_folder / "report.html"
    assert str(path) in capsys.readouterr().out
    text, run = Skeleton(path.read_text(encoding="utf-8")).text, read_run(run_folder)
    assert "Complete: 14 rounds." in text
    assert (
        text.index("Best program") < text.index("Score over evaluations") < text.index("Next best programs")
    )
    evaluated = sum(own.duplicate_of is None for own in run.everything() if own.origin != "seed")
    assert f"{14 * 12} programs drawn, {14 * 12} smoke-tested, {evaluated} evaluated. " in text
    assert run.best.program in text
    assert f"Candidate {run.best.id}: score {run.best.score:.4f}" in text
    assert "training minus held-out: -0.0025 (chance: up to 0.0130)" in text
    assert all(phase["decision"]["reason"].partition(": ")[2] in text for phase in run.phases)
    assert ATTACK in text  # what a supporter said and a program raised, as text
    assert "NameError: name 'undefined' is not defined" in text
    assert "phase_every: 4" in text
    assert "\N{MINUS SIGN}" not in text, "one minus sign, as programs have it"


def test_a_search_has_no_card_that_is_empty(tmp_path):
    folder = make_run(tmp_path / "run", Layout(method="search", rounds=2, phase_every=99))
    text = Skeleton(page.render([read_run(folder)])).text
    assert not [
        word
        for word in ("fine-tuning phases", "gate decisions", "Supporters", "its controls")
        if word in text
    ]


def test_scores_that_are_compared_have_one_axis_with_the_start_and_the_best_by_hand(several_runs):
    runs = [replace(read_run(folder), by_hand=-0.05) for folder in several_runs[:2]]
    limits = score_limits(runs)
    for run in runs:
        (axes,) = draw_scores(run, limits=limits).axes
        assert axes.get_ylim() == limits
        lines = {line.get_label(): line.get_ydata()[0] for line in axes.lines}
        assert (lines["start"], lines["best by hand"]) == (run.curve[0][1], -0.05)
    assert limits[0] < min(run.curve[0][1] for run in runs)
    assert limits[1] > -0.05


def test_several_runs_share_one_page(several_runs):
    assert main([*map(str, several_runs)]) == 0
    text = (several_runs[0].parent / "report" / "report.html").read_text(encoding="utf-8")
    assert "6 runs" in text
    assert "<td>evotune</td><td>3</td><td>held-out seeds</td>" in text


def test_a_run_under_way_is_reported_as_far_as_it_is(tmp_path):
    with RunStore(tmp_path / "young"):
        assert main([str(tmp_path / "young")]) == 0
    folder = make_run(tmp_path / "half", Layout(rounds=3), finished=False)
    assert main([str(folder)]) == 0
    assert "In progress: round 3 of 12" in (folder / "report.html").read_text(encoding="utf-8")


def test_what_is_no_run_is_named(tmp_path, capsys):
    assert main([str(tmp_path)]) == 1
    assert "holds no run" in capsys.readouterr().err


def test_a_full_disk_is_named_and_leaves_no_half_page(run_folder, tmp_path, monkeypatch):
    def fill(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fill)
    with pytest.raises(OSError, match=r"No space left on device: .*report\.html"):
        main([str(run_folder), "--output", str(tmp_path / "report.html")])
    assert list(tmp_path.iterdir()) == []


DRAW = """
import atlas_gym, gymnasium
env = gymnasium.make("ATLAS-CirclePacking-v0", render_mode="rgb_array")
env.reset(seed=0)
env.render()
"""


@pytest.mark.parametrize(
    "command", [["-m", "atlas_gym.experiments.report"], ["-c", DRAW]], ids=["page", "render"]
)
def test_the_users_matplotlib_is_not_ours(command, run_folder, tmp_path):
    (tmp_path / "matplotlibrc").write_text("text.usetex: True\nfont.size: 90\n")
    environment = {**os.environ, "MPLBACKEND": "nonsense", "MATPLOTLIBRC": str(tmp_path)}
    words = [sys.executable, *command, str(run_folder), "--output", tmp_path / "a.html"]
    assert subprocess.run(words, env=environment, capture_output=True).returncode == 0


@pytest.mark.parametrize("name", ["$x^^$", "a\udcffb", "{", "\\", "a\nb"])
def test_a_name_is_no_formula(run, name):
    as_png(draw_scores(run, name))


def test_a_picture_or_page_that_fails_is_a_line(run, tmp_path, monkeypatch):
    def fail(*_):
        raise RuntimeError("no font\nfor it")

    for name in ("draw_scores", "write_report"):
        monkeypatch.setattr(summary, name, fail)
    said = []
    files = summary.write_files(
        replace(run, folder=tmp_path),
        {"env": "x", "method": "y", "seed": 0, "best": {"program": "z", "origin": "agent", "score": -1.0}},
        said.append,
    )
    assert [path.name for path in files] == ["best_program.py"]
    assert [line.partition(".")[0] for line in said] == ["No best_score", "No report"]
    assert all("no font for it" in line for line in said)
