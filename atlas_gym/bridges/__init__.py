"""Bridges to other projects' trainers and formats; each module needs the extra that its docstring names."""
