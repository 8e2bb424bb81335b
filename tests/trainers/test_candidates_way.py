"""A candidate's way from prompt to preference pair: how many files it crosses, and in how many forms."""

import ast
from pathlib import Path

from tests.structure import FORMS, WAY

ROOT = Path(__file__).parents[2]
ASIDE = {
    "trainers/store/rows.py", "trainers/store/protocol.py", "trainers/data/comparison.py",
    "trainers/data/measures.py", "trainers/data/groups.py", "trainers/data/redraws.py", "agents/proposals/complete.py",
    "agents/proposals/rewrite.py",
    "agents/proposals/numeric.py", "agents/proposals/completing.py",
    "agents/proposals/insert_line.py", "agents/proposals/two_lines.py",
    "trainers/loop/confirmation.py", "trainers/loop/fine_tuning.py", "trainers/loop/measure.py",
    "trainers/loop/probe.py", "trainers/loop/redo.py", "trainers/loop/schedule.py", "trainers/loop/teaching.py",
}  # fmt: skip
"""Other styles, groups in place of pairs, columns, what looks at finished candidates or pairs, and what
asks beside exploration."""
ROOMS = ("agents/population", "agents/proposals", "trainers/data", "trainers/loop", "trainers/store")


def names(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def test_a_candidate_crosses_few_files_in_few_forms():
    assert len(WAY) <= 15
    assert len(FORMS) <= 5
    assert all((ROOT / file).is_file() for file in WAY)


def test_no_other_file_of_these_rooms_handles_one():
    found = {
        str(path.relative_to(ROOT))
        for room in ROOMS
        for path in (ROOT / room).glob("*.py")
        if names(path) & FORMS
    }
    assert found <= {*WAY, *ASIDE}, found - {*WAY, *ASIDE}
