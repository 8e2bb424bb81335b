"""Proposal styles: how a parent program becomes a prompt, and a completion a new program.

In: a program and a random stream. Out: places to edit, prompts, and the programs that completions make. `Numbers` and
`Expressions` write their completions themselves, without a model.
"""

from atlas_gym.agents.proposals.complete import Complete
from atlas_gym.agents.proposals.edit_line import EditLine
from atlas_gym.agents.proposals.expressions import Expressions
from atlas_gym.agents.proposals.numbers import Numbers
from atlas_gym.agents.proposals.rewrite import MessageStyle, Rewrite
from atlas_gym.agents.proposals.style import EditSite, Showing, Style

__all__ = [
    "Complete", "EditLine", "EditSite", "Expressions", "MessageStyle", "Numbers", "Rewrite", "Showing", "Style",
]  # fmt: skip
