"""Every block of code in the README and the documentation works.

Python blocks of a page run in their order, as one program; what they print is compared with the block `output` behind
them. Commands are not run: the programs, options, settings and files that they name have to exist.
"""

import contextlib
import io
import itertools
import re
import shlex
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from atlas_gym.experiments.cli.main import COMMANDS
from tests.docs.pages import PAGES, ROOT, Block, blocks, inline_commands

BLOCKS = [block for page in PAGES for block in blocks(page)]
OF_THEIR_OWN = {"own-task.md"}
"""Pages whose blocks need the files of one another: their tests lie with what they are about."""
TRAINS = {"gated-reference.md"}
"""Pages whose blocks train the embedded model: half a minute."""
PYTHON = [
    pytest.param(page, marks=[pytest.mark.slow] * (page.name in TRAINS), id=page.name)
    for page in PAGES
    if page.name not in OF_THEIR_OWN and any(block.language == "python" for block in blocks(page))
]
SHELL = [block for block in BLOCKS if block.language in ("sh", "console")]
INLINE = [(page.name, command) for page in PAGES for command in inline_commands(page)]
LANGUAGES = {"python", "output", "sh", "console", "yaml", "toml"}
NEEDED = {"numbers.md": {"stable_baselines3": "sb3"}}
"""Packages without which a page's blocks cannot run, each with its extra."""
FOREIGN = {"uv", "export", "wandb", "ray", "docker", "podman", "git", "pre-commit", "twine"}
"""Programs that are not ours."""
NUMBER = re.compile(r"-?\d+\.\d+")


def named(block: Block) -> str:
    return str(block)


@pytest.mark.parametrize("block", BLOCKS, ids=named)
def test_every_block_says_its_language(block):
    assert block.language in LANGUAGES


@pytest.mark.parametrize("page", PYTHON)
def test_python_blocks_run_in_order(page, tmp_path, monkeypatch, request):
    if page.name in TRAINS:
        request.getfixturevalue("embedded_weights")
    for package, extra in NEEDED.get(page.name, {}).items():
        pytest.importorskip(package, reason=f"needs the extra `{extra}`")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    (tmp_path / "my_program.py").write_text("def policy(context, history, t):\n    return 0\n")
    namespace: dict[str, object] = {"__name__": "page"}
    printed = ""
    for block in blocks(page):
        if block.language == "python":
            code = compile(block.text, str(block), "exec")
            with contextlib.redirect_stdout(io.StringIO()) as stream:
                if block.mark != "no-run":
                    exec(code, namespace)
            printed = stream.getvalue()
        elif block.language == "output":
            assert_alike(printed, block)


def assert_alike(printed: str, block: Block) -> None:
    """Equal text; scores hang on the machine's secret, so numbers with a point may differ by a tenth."""
    assert NUMBER.sub("#", printed) == NUMBER.sub("#", block.text), f"{block} is not what is printed"
    for found, shown in zip(NUMBER.findall(printed), NUMBER.findall(block.text), strict=True):
        assert float(found) == pytest.approx(float(shown), rel=0.1), f"{block}: {found} is printed"


@pytest.mark.parametrize(
    "block", [block for block in BLOCKS if block.language in ("yaml", "toml")], ids=named
)
def test_files_can_be_read(block):
    values = yaml.safe_load(block.text) if block.language == "yaml" else tomllib.loads(block.text)
    assert isinstance(values, dict)


@pytest.mark.parametrize(
    "block", [b for b in BLOCKS if b.language == "yaml" and b.page.name != "sweep.md"], ids=named
)
def test_a_run_takes_these_settings(block, tmp_path):
    pytest.importorskip("transformers", reason="needs the extra `learn`")
    from atlas_gym.trainers.loop.config import load_config

    (tmp_path / "run.yaml").write_text(block.text)
    load_config(tmp_path / "run.yaml", {})


def commands(block: Block) -> list[list[str]]:
    """Each command of a block as its words, variables and comments left out."""
    lines = block.text.replace("\\\n", " ").splitlines()
    if block.language == "console":
        lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    found = []
    for line in lines:
        for part in re.split(r"\s&&\s", line.replace("[...]", "")):
            words = shlex.split(part, comments=True)
            while words and re.fullmatch(r"[A-Za-z_]+=.*", words[0]):
                del words[0]
            if words:
                found.append(words)
    return found


@pytest.mark.parametrize("block", SHELL, ids=named)
def test_commands_name_what_exists(block):
    assert commands(block)
    for words in commands(block):
        check(words)


@pytest.mark.parametrize(("page", "command"), INLINE, ids=str)
def test_commands_in_the_text_name_what_exists(page, command):
    check(shlex.split(command))


def check(words: list[str]) -> None:
    program, arguments = Path(words[0]).name, words[1:]
    if program == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
        assert {word for word in arguments if "=" not in word} <= set(targets), f"{words}: no such target"
    elif program == "pip":
        assert arguments[0] == "install"
        check_extras(arguments)
    elif program == "python" and arguments[0] == "-m":
        check_module(arguments[1], arguments[2:])
    elif program == "atlas":
        assert arguments[0] in COMMANDS, f"atlas has no command {arguments[0]}"
        module, _ = COMMANDS[arguments[0]]
        check_module(module, arguments[1:])
        check_names(arguments)
    else:
        assert program in FOREIGN, f"{words[0]}: what is that?"
    for word in arguments:
        if re.fullmatch(r"(experiments|docs|tests)/[\w./-]+\.(ya?ml|md|py)", word):
            assert (ROOT / word).exists(), f"{word} does not exist"


def check_extras(arguments: list[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for extras in re.findall(r"\[([\w,]+)\]", " ".join(arguments)):
        assert set(extras.split(",")) <= set(project["optional-dependencies"])


def check_module(module: str, arguments: list[str]) -> None:
    """The module exists, and it knows the options; those of a run are its settings."""
    if module.partition(".")[0] != "atlas_gym":
        return
    spec = find_spec(module)
    assert spec is not None, f"there is no module {module}"
    options = {word.partition("=")[0] for word in arguments if word.startswith("--")} - {"--help"}
    if module in ("atlas_gym.experiments.run", "atlas_gym.experiments.cli.run"):
        options -= run_options()
        assert not [word for word in options if not word.startswith("--env_args.")], "no such settings"
        return
    package = Path(spec.origin or "").parent
    texts = "\n".join(path.read_text(encoding="utf-8") for path in package.rglob("*.py"))
    for option in options:
        assert f'"{option}"' in texts, f"nothing in {package.name} knows {option}"


def check_names(arguments: list[str]) -> None:
    """Shipped configurations and plans exist under the name that is given."""
    pytest.importorskip("transformers", reason="needs the extra `learn`")
    from atlas_gym.experiments.shipped import find

    kinds = {"--config": "configs", "study": "studies"}
    for before, name in itertools.pairwise(arguments):
        if before in kinds and not name.startswith(("-", "./")):  # the reader's own files begin with ./
            assert find(kinds[before], name).exists()


def run_options() -> set[str]:
    pytest.importorskip("yaml", reason="needs the extra `learn`")
    from atlas_gym.experiments.cli.options import FLAGS
    from atlas_gym.trainers.loop.config import RunConfig
    from atlas_gym.trainers.store.plain import keys_of

    return {f"--{name}" for name in {*FLAGS, *keys_of(RunConfig)}}
