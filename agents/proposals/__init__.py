"""Proposal styles: how a parent program becomes a prompt, and a completion a new program."""

from agents.proposals.base import Hole, Proposal, Showing, Style
from agents.proposals.complete import Complete
from agents.proposals.edit_line import EditLine
from agents.proposals.numeric import Numeric
from agents.proposals.rewrite import Rewrite

__all__ = ["Complete", "EditLine", "Hole", "Numeric", "Proposal", "Rewrite", "Showing", "Style"]
