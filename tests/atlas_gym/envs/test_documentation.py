"""What each registered environment says of itself can be rendered and is complete."""

import inspect
import itertools
import re

import pytest

from atlas_gym.envs.program_env import ProgramEnv
from atlas_gym.tasks.registry import find_task

pytestmark = pytest.mark.filterwarnings("error")


def tables(text):
    """The tables of a Markdown text as lists of rows, and what of them was not recognised as a table."""
    markdown_it = pytest.importorskip("markdown_it", reason="needs the extra `dev`")
    tokens = markdown_it.MarkdownIt("commonmark").enable("table").parse(text)
    rows, stray = [], []
    for before, token in itertools.pairwise(tokens):
        if token.type == "table_open":
            rows.append([])
        elif token.type == "tr_open":
            rows[-1].append([])
        elif token.type == "inline" and before.type in ("td_open", "th_open"):
            rows[-1][-1].append(token.content)
        elif token.type == "inline":
            stray += [line for line in token.content.splitlines() if line.startswith("|")]
    return rows, stray


def test_the_tables_of_its_documentation_can_be_rendered(env_id):
    documentation = inspect.getdoc(find_task(env_id))
    found, stray = tables(documentation)
    assert not stray
    assert sum(len(table) + 1 for table in found) == len(re.findall(r"(?m)^\s*\|", documentation))
    arguments = next(table for table in found if table[0][0] == "Keyword")
    assert all(all(row) for table in found for row in table)
    keywords = {name for row in arguments[1:] for name in re.findall(r"`(\w+)`", row[0])}
    assert {"preset", "limits", "start"} <= keywords
    of_every_task = re.findall(r"(?m)^    (\w+): ", inspect.getdoc(ProgramEnv))
    assert of_every_task[1:-1] == ["turns", "split", "start", "task_seed", "confinement", "render_mode"]
