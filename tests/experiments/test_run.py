"""What the command line says: in words, and to the letter."""

import io

import pytest
from rich.console import Console

from experiments.live import LiveView
from experiments.run import main


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        # In brackets, as extras and lists are: a console with markup would swallow them.
        (["--config", "no[such,file].yaml"], "no[such,file].yaml"),
        (["seed=[yes,no]"], "seed"),
        (["--resume", "--folder", "no[run]"], "--resume needs --folder with a run in it"),
    ],
)
def test_a_mistake_is_one_line_and_a_usage_error(arguments, says, capsys):
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert says in said
    assert "Traceback" not in said


def test_the_live_view_shows_text_in_brackets_as_it_is():
    console = Console(file=io.StringIO(), width=200)
    text = "tuning again, because /runs/[a]/x is damaged: [/red]"
    decision = {"reason": "kept: gain [b] is below"}
    with LiveView(2, 1, 1, console) as view:
        view.stage(text)
        view.phase(
            {"phase": 1, "seconds": {}, "promoted": False, "decision": decision, "warnings": ["FROZEN [c]"]}
        )
        view.phase({"phase": 2, "skipped": "no [d]"})
    said = console.file.getvalue()
    assert all(part in said for part in (text, decision["reason"], "FROZEN [c]", "no [d]"))
