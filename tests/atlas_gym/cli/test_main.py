import errno
import io
import sys

import pytest

from atlas_gym.cli import doctor
from atlas_gym.cli import gallery as gallery_page
from atlas_gym.cli.gallery import write_gallery
from atlas_gym.cli.main import main
from atlas_gym.hidden_streams import SECRET_VARIABLE
from atlas_gym.tasks.bandit.experts import EXPERTS
from atlas_gym.tasks.bandit.params import PRESETS

SMALL = ["--set", "horizon=60", "replicas=2"]


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(EXPERTS["tuned_sw_linucb"].program, encoding="utf-8")
    return path


def evaluate(*arguments):
    return main(["evaluate", "ATLAS-Bandit-v0", "--workers", "1", *map(str, arguments)])


def test_evaluating_a_file_prints_score_interval_status_feedback_and_time(program, capsys):
    assert evaluate(program, "--seeds", 4, *SMALL) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("4 seeds of train")
    rows = {line.split()[0]: line for line in lines[1:] if not line.startswith(" ")}
    assert "ok 4" in rows["status"]
    assert "95 % interval over seeds [-0." in rows["score"]
    assert "s wall" in rows["time"]
    assert "seccomp" in rows["layers"]
    assert "Status: ok" in rows["feedback"]


def test_experts_are_known_by_name_and_seeds_can_be_chosen(program, capsys):
    outputs = []
    for name, first in ((program, 5), ("tuned_sw_linucb", 5), ("tuned_sw_linucb", 6)):
        assert evaluate(name, "--seeds", 1, "--first-seed", first, *SMALL) == 0
        outputs.append(
            next(line for line in capsys.readouterr().out.splitlines() if line.startswith("score"))
        )
    assert outputs[0] == outputs[1] != outputs[2]
    assert "one seed: no interval" in outputs[0]


def test_a_failing_program_gets_no_score_and_exit_code_1(tmp_path, capsys):
    path = tmp_path / "program.py"
    path.write_text("def policy(context, history, t):\n    return theta\n")
    assert evaluate(path, "--seeds", 2, *SMALL) == 1
    output = capsys.readouterr().out
    assert "error 2" in output
    assert "score      none" in output
    assert "NameError" in output


def test_unconfined_is_possible_and_shows(program, capsys):
    assert evaluate(program, "--seeds", 1, "--unconfined", *SMALL) == 0
    assert "seccomp" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.py"], "missing.py is neither a file nor an expert program; those are "),
        (["tests"], "tests is neither a file"),
        (["kalman", "--set", "horizon"], "'horizon' is not NAME=VALUE"),
        (["kalman", "--set", "split=held_out"], "split says which draw of a task it is"),
        (["kalman", "--set", "preset=papr"], "no preset 'papr'"),
        (["kalman", "--set", "horizn=3"], "no constant horizn"),
        (["kalman", "--set", f"horizon={'-' * 5000}1"], "it must be a whole number"),
        (["kalman", "--set", "horizon={[]: 1}"], "it must be a whole number"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(arguments, message, capsys):
    assert evaluate(*arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


@pytest.mark.parametrize("option", ["--seeds", "--workers"])
def test_numbers_of_which_nothing_would_come_are_refused(option, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["evaluate", "ATLAS-Bandit-v0", "kalman", option, "0"])
    assert f"{option}: '0' must be a whole number of at least 1" in capsys.readouterr().err


def test_a_mark_at_the_beginning_of_a_file_is_not_read(tmp_path):
    path = tmp_path / "program.py"
    path.write_text("def policy(context, history, t):\n    return 0\n", encoding="utf-8-sig")
    assert evaluate(path, "--seeds", 1, *SMALL) == 0


def test_a_file_that_is_no_text_is_named(tmp_path, capsys):
    (tmp_path / "program.py").write_bytes(b"\x00\xff")
    assert evaluate(str(tmp_path / "program.py")) == 2
    assert "program.py is no program: it is not UTF-8 text" in capsys.readouterr().err


def test_unknown_environments_are_named(capsys):
    assert main(["evaluate", "ATLAS-Nothing-v0", "kalman"]) == 2
    assert "there are ATLAS-Bandit-v0" in capsys.readouterr().err


def test_the_list_shows_every_environment(capsys):
    assert main(["list"]) == 0
    output = capsys.readouterr().out
    assert "ATLAS-Bandit-v0\n" in output
    assert "ATLAS-Burgers-v0\n" in output
    assert "sw_linucb" in output


def test_a_closed_output_is_no_error(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["list"]) == 0


def test_an_output_that_lacks_characters_gets_question_marks(monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    monkeypatch.setattr("atlas_gym.cli.main._list", lambda options: print("±") or 0)
    assert main(["list"]) == 0
    assert written.getvalue() == b"?\n"


def test_a_secret_that_cannot_be_kept_is_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv(SECRET_VARIABLE)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "atlas-gym" / "secret").mkdir(parents=True)
    assert evaluate("kalman", "--seeds", 1) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"set {SECRET_VARIABLE} to a text of your own" in line


def test_the_doctors_verdict_is_the_exit_code(monkeypatch):
    for verdict in (0, 1):
        monkeypatch.setattr(doctor, "main", lambda verdict=verdict: verdict)
        assert main(["doctor"]) == verdict


def gallery(*arguments):
    options = ["--seeds", 2, "--workers", 1, *arguments]
    assert main(["gallery", "ATLAS-Bandit-v0", *map(str, options)]) == 0


def test_the_gallery_has_a_row_per_program_and_the_ends_of_the_scale(tmp_path, monkeypatch):
    monkeypatch.setitem(PRESETS, "stationary", {**PRESETS["stationary"], "horizon": 400, "replicas": 2})
    path = tmp_path / "gallery.md"
    gallery("--presets", "stationary", "--output", path)
    page = path.read_text()
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == list(EXPERTS)
    assert all(row.count("|") == 6 for row in rows)
    assert "| *full information" in page
    assert not any("failed" in row for row in rows)
    best = next(row for row in rows if row.startswith("| `linucb`"))
    improvement = float(best.split("|")[5].split("%")[0])
    assert improvement > 10  # nothing drifts: remembering everything beats a sliding window


def test_without_a_page_to_write_the_gallery_is_printed(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(PRESETS, "stationary", {**PRESETS["stationary"], "horizon": 20, "replicas": 1})
    monkeypatch.chdir(tmp_path)
    gallery("--presets", "stationary")
    printed = capsys.readouterr().out
    assert printed.startswith("## ATLAS-Bandit-v0, preset `stationary`\n\n2 seeds.\n")
    assert all(f"| `{name}` |" in printed for name in EXPERTS)
    assert not list(tmp_path.iterdir())
    gallery("--presets", "stationary", "--seeds", 1)
    assert "±" not in capsys.readouterr().out


def test_a_page_that_cannot_be_written_is_known_before_anything_is_scored(tmp_path, capsys):
    (tmp_path / "file").write_text("no folder")
    page = tmp_path / "file" / "gallery.md"
    assert main(["gallery", "ATLAS-Bandit-v0", "--presets", "nonsense", "--output", str(page)]) == 2
    said = capsys.readouterr().err
    assert str(page.parent) in said
    assert "nonsense" not in said  # which is found out when scoring begins


def test_a_page_that_was_cut_short_is_gone_on_with_and_a_full_disk_leaves_the_page(tmp_path, monkeypatch):
    page = tmp_path / "gallery.md"
    write_gallery(page, [("## ATLAS-Bandit-v0, preset `default`", "first\n"), ("## Other", "second\n")])
    whole = page.read_text()
    page.write_text(whole.partition("\n\nsecond")[0])
    write_gallery(page, [])
    assert "first" in page.read_text()
    assert "## Other" not in page.read_text()
    write_gallery(page, [("## Other", "second\n")])
    assert page.read_text() == whole

    def full(path, text, encoding):
        path.write_bytes(text[:10].encode())
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(gallery_page.Path, "write_text", full)
    with pytest.raises(OSError, match="No space"):
        write_gallery(page, [])
    assert page.read_text() == whole


TASK = """
import atlas_gym


class InGallery(atlas_gym.ProgramTask, id="InGallery-v0"):
    'x: a number. Return half of it.'

    start = "def half(x):\\n    return x\\n"

    def instances(self, rng):
        return [0.5]

    def score(self, program, x):
        return -abs(program(x).number() - x / 2)
"""


def test_the_gallery_has_tasks_of_files_too_and_keeps_them(tmp_path, monkeypatch):
    (tmp_path / "in_gallery.py").write_text(TASK)
    page = tmp_path / "page.md"
    options = ["--seeds", "1", "--workers", "1", "--output", str(page)]
    assert main(["gallery", str(tmp_path / "in_gallery.py"), *options]) == 0
    assert "## InGallery-v0, preset `default`" in page.read_text()
    assert "| `start` |" in page.read_text()
    monkeypatch.setattr(gallery_page, "registered_ids", list)  # as in a process that has not met it
    write_gallery(page, [])
    assert "| `start` |" in page.read_text()


def test_a_page_that_is_no_gallery_is_not_written_over(tmp_path, capsys):
    page = tmp_path / "notes.md"
    page.write_text("# Mine\n\n## One part\n")
    assert main(["gallery", "ATLAS-Bandit-v0", "--presets", "default", "--output", str(page)]) == 2
    assert "notes.md is there and is no gallery; name another file" in capsys.readouterr().err
    assert page.read_text() == "# Mine\n\n## One part\n"


def test_the_gallery_keeps_the_sections_that_were_not_asked_for(tmp_path, monkeypatch):
    for preset in ("stationary", "jumps", "rotation"):
        small = {"horizon": 20, "variation_budget": 0.0, "replicas": 1}
        monkeypatch.setitem(PRESETS, preset, {**PRESETS[preset], **small})
    path, pages = tmp_path / "a folder that is made" / "gallery.md", []
    for presets in (["jumps"], ["stationary", "rotation"], ["rotation"]):
        gallery("--presets", *presets, "--output", path)
        pages.append(path.read_text())
    assert pages[1] == pages[2]
    sections = [part.split("`")[1] for part in pages[2].split("\n## ")[1:]]
    assert sections == ["rotation", "jumps", "stationary"]
    assert pages[0].split("\n## ")[1].strip() in pages[2]
