"""Wrappers for learners whose actions are numbers.

The environments take program text. `TemplateAction` writes it out of a vector (or of one whole number)
through a template with named parameters, `ProgramChoice` picks one of a list of programs; both observe
numbers, so that any learner for Box and Discrete spaces runs on the environments unchanged.
"""

from atlas_gym.tasks.template import Parameter, Template
from atlas_gym.wrappers.numeric import ProgramChoice, TemplateAction

__all__ = ["Parameter", "ProgramChoice", "Template", "TemplateAction"]
