"""Proposal styles: how a parent program becomes a prompt, and a completion a new program.

In: a program and a random stream. Out: places to edit, prompts, and the programs that completions make.
"""

from agents.proposals.complete import Complete
from agents.proposals.edit_line import EditLine
from agents.proposals.insert_line import InsertLine
from agents.proposals.numeric import Numeric
from agents.proposals.rewrite import MessageStyle, Rewrite
from agents.proposals.style import EditSite, Showing, Style
from agents.proposals.two_lines import TwoLines

__all__ = [
    "Complete", "EditLine", "EditSite", "InsertLine", "MessageStyle", "Numeric", "Rewrite", "Showing", "Style",
    "TwoLines",
]  # fmt: skip
