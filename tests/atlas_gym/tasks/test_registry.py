"""Tasks are found wherever they are defined, and data imports nothing."""

import json
import os
import subprocess
import sys
import textwrap

import gymnasium as gym
import pytest

from atlas_gym.tasks.registry import find_task, load_file, registered_ids
from tests.atlas_gym.tasks.examples import Threefold

HERE = "tests.atlas_gym.tasks.examples"
ONE = '''
import atlas_gym
from beside import right


class Half(atlas_gym.ProgramTask, id="Half-v0"):
    """x: a number. Returns half of it."""

    start = "def half(x):\\n    return x\\n"

    count: int = 3

    def instances(self, rng):
        return rng.random(self.count)

    def score(self, program, x):
        return -abs(program(float(x)).number() - right(x))
'''


@pytest.fixture
def folder(tmp_path):
    """Somewhere else, with a task and a module that it imports."""
    (tmp_path / "my_task.py").write_text(ONE)
    (tmp_path / "beside.py").write_text("def right(x):\n    return x / 2\n")
    return tmp_path


def run(folder, *arguments, script=None, **environment):
    """An interpreter in that folder."""
    path = os.pathsep.join([os.getcwd(), environment.pop("path", "")])
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, **environment},
        input=script,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize(
    "reference",
    [
        "my_task:Half",
        "my_task:Half-v0",
        "./my_task.py:Half-v0",
        "./my_task.py",
    ],
)
def test_the_command_line_finds_it(reference, folder):
    done = run(folder, "-m", "atlas_gym", "evaluate", reference, "start", "--seeds", "3", "--set", "count=2")
    assert done.returncode == 0, done.stderr
    assert "status     ok 3" in done.stdout


def test_gymnasium_finds_it_by_module_and_id(folder):
    script = """
    import gymnasium as gym
    env = gym.make("my_task:Half-v0", count=2)
    env.reset(seed=0)
    assert env.step("def half(x):\\n    return x / 2\\n")[1] == 0.0
    env.close()
    """
    done = run(folder, "-c", textwrap.dedent(script))
    assert done.returncode == 0, done.stderr


MAIN = """
import gymnasium as gym
import numpy as np
import atlas_gym

SCALE = 2.0


def right(x):
    return x / SCALE

{definition}

env = gym.make_vec("Half-v0", num_envs=2)
env.reset(seed=0)
rewards = env.step(("def half(x):\\n    return x / 2\\n", "def half(x):\\n    return x\\n"))[1]
assert rewards[0] == 0.0 > rewards[1], rewards
env.close()
print("done")
"""
DEFINITION = ONE[ONE.index("class Half") :]


@pytest.mark.parametrize("how", ["a script", "standard input"])
def test_a_task_of_main_is_evaluated_in_other_processes(how, folder):
    """Its module cannot be imported there, and must not be run again."""
    script = MAIN.format(definition=DEFINITION)
    (folder / "script.py").write_text(script)
    done = run(folder, "script.py") if how == "a script" else run(folder, "-", script=script)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "done\n"


def test_a_cell_that_is_run_again_takes_the_place_of_its_predecessor(folder):
    changed = DEFINITION.replace("x: a number", "x: any number").replace("count: int = 3", "count: int = 4")
    script = f"""
import warnings
warnings.simplefilter("error")
import atlas_gym
right = float
{DEFINITION}
{changed}
assert "any number" in atlas_gym.make_task("Half-v0").description
assert atlas_gym.make_task("Half-v0", seed=0).count == 4
"""
    done = run(folder, "-", script=script)
    assert done.returncode == 0, done.stderr


def test_data_imports_nothing(folder, monkeypatch):
    monkeypatch.syspath_prepend(str(folder))
    for reference in ("my_task:Half", "my_task:Half-v0", str(folder / "my_task.py"), "Half-v0"):
        with pytest.raises(ValueError, match="import the module that defines it first"):
            find_task(reference, importing=False)
    assert "my_task" not in sys.modules


@pytest.mark.parametrize(
    ("reference", "error", "message"),
    [
        ("Nowhere-v0", ValueError, "no task 'Nowhere-v0'; there are"),
        (f"{HERE}:Nobody", ValueError, "has no task 'Nobody'; it has Threefold, Remember, Echo"),
        ("atlas_gym:ProgramTask", ValueError, "with a start"),
        ("no_such_module:Task", ModuleNotFoundError, "no_such_module"),
        ("./no_such_file.py:Task", FileNotFoundError, "no_such_file"),
        ("./no_such_folder", ValueError, r"\./no_such_folder does not exist; name a task's file"),
        (":Task", ValueError, r"name one as \./file\.py:Class"),
    ],
)
def test_what_is_not_there_is_said(reference, error, message):
    with pytest.raises(error, match=message):
        find_task(reference)


MADE = """
import gymnasium as gym
from atlas_gym.tasks.registry import find_task
find_task({reference!r})
print(gym.make("Half-v0", count=2).spec.to_json())
"""
MADE_AGAIN = """
import gymnasium as gym
env = gym.make(gym.envs.registration.EnvSpec.from_json({spec!r}))
print(env.unwrapped.task.count)
"""


@pytest.mark.parametrize("reference", ["my_task:Half", "./my_task.py"])
def test_a_specification_finds_its_task_in_a_process_that_has_not_imported_it(reference, folder):
    spec = run(folder, "-c", MADE.format(reference=reference)).stdout
    done = run(folder, "-c", MADE_AGAIN.format(spec=spec))
    assert done.stdout == "2\n", done.stderr


def test_an_id_belongs_to_one_task():
    class First(Threefold, id="Taken-v0"):
        """First."""

    with pytest.raises(ValueError, match="the id Taken-v0 is taken by"):

        class Second(Threefold, id="Taken-v0"):
            """Second."""

    assert find_task("Taken-v0") is First
    assert "Taken-v0" in registered_ids()
    assert json.loads(gym.spec("Taken-v0").to_json())["kwargs"] == {"task": "Taken-v0"}


def test_a_file_says_what_is_wrong_with_it(tmp_path):
    broken, several, none, ended = (
        tmp_path / f"{name}.py" for name in ("broken", "several", "none", "ended")
    )
    broken.write_text("x = 1\nx = (\n")
    several.write_text(ONE.replace("from beside import right", "") + DEFINITION.replace("Half", "Other"))
    none.write_text("x = 1\n")
    (tmp_path / "no_python.txt").write_text("x = 1\n")
    with pytest.raises(ValueError, match=r"no module and no Python file"):
        find_task(f"{tmp_path / 'no_python.txt'}:Task")
    with pytest.raises(ValueError, match="Gymnasium takes no id 'Spaced out-v0'"):
        type("Spaced", (Threefold,), {"__doc__": "Spaced."}, id="Spaced out-v0")
    ended.write_text("import sys\nsys.exit(0)\n")
    with pytest.raises(ImportError, match=r"ended\.py, line 2: SystemExit: 0"):
        find_task(str(ended))
    with pytest.raises(ImportError, match=r"broken\.py, line 2: '\(' was never closed"):
        find_task(str(broken))
    with pytest.raises(
        ValueError, match=r"several\.py has the tasks Half, Other; name one as file\.py:Class"
    ):
        find_task(str(several))
    with pytest.raises(ValueError, match=r"none\.py has no task"):
        find_task(str(none))


@pytest.mark.parametrize("form", ["package", "module", "namespace"])
def test_what_lies_beside_a_task_is_what_its_file_means(form, tmp_path, monkeypatch):
    (other := tmp_path / "other" / "hiding_name").mkdir(parents=True)
    (other / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(other.parent))
    (own := tmp_path / "own").mkdir()
    if form == "module":
        (own / "hiding_name.py").write_text("HALF = 0.5\n")
    else:
        (own / "hiding_name").mkdir()
        (own / "hiding_name" / "helper.py").write_text("HALF = 0.5\n")
    if form == "package":
        (own / "hiding_name" / "__init__.py").touch()
    line = "from hiding_name import HALF" if form == "module" else "from hiding_name.helper import HALF"
    (own / "task.py").write_text(line)
    monkeypatch.delitem(sys.modules, "hiding_name", raising=False)
    if form == "namespace":
        with pytest.raises(
            ImportError, match=r"is hidden by .*other/hiding_name/__init__\.py: give it an __init__"
        ):
            load_file(own / "task.py")
    else:
        assert load_file(own / "task.py").HALF == 0.5
    for name in [name for name in sys.modules if name.partition(".")[0] == "hiding_name"]:
        del sys.modules[name]


def test_files_of_one_name_in_two_folders_are_two_tasks(tmp_path):
    text = ONE.replace("Half-v0", "Same-v0").replace("from beside import right", "right = float")
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "same_task.py").write_text(text)
    first = load_file(tmp_path / "one" / "same_task.py").Half
    with pytest.raises(ImportError, match="Same-v0"):
        load_file(tmp_path / "two" / "same_task.py")
    assert find_task("Same-v0") is first
