"""Wrappers for learners whose actions are numbers: `TemplateAction` writes programs through a template.

They observe numbers as well, so that any learner for Box spaces runs on the environments unchanged.
"""

from atlas_gym.tasks.template import Parameter, Template
from atlas_gym.wrappers.numeric import TemplateAction

__all__ = ["Parameter", "Template", "TemplateAction"]
