"""A program with numbers left open."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import Template as Text

import numpy as np

from atlas_gym.tasks.parameter import Parameter


@dataclass(frozen=True)
class Template:
    """A program text in which `$name` stands for each parameter.

    Example:
        >>> template = Template("constant", "x = $level\\n", (Parameter("level", 0, 10, scale="linear"),))
        >>> template.program([0.0])
        'x = 5.0\\n'
        >>> template.fill(level=2)
        'x = 2\\n'
    """

    name: str
    """How it is called in tables."""
    text: str
    """The program; `$$` is a dollar sign."""
    parameters: tuple[Parameter, ...]
    """Its numbers, in the order of an action's coordinates."""

    def __post_init__(self) -> None:
        names = [parameter.name for parameter in self.parameters]
        if not names or len(set(names)) != len(names):
            raise ValueError(f"{self.name}: needs parameters with different names, not {names}")
        # A stray `$` raises ValueError here.
        if not Text(self.text).is_valid() or set(Text(self.text).get_identifiers()) != set(names):
            raise ValueError(f"{self.name}: the text's places ($name) have to be the parameters {names}")

    @property
    def size(self) -> int:
        """How many numbers are open."""
        return len(self.parameters)

    def values(self, coordinates: Sequence[float] | np.ndarray) -> dict[str, float | int]:
        """The parameters at coordinates in [-1, 1], by name."""
        if len(coordinates) != self.size:
            raise ValueError(f"{self.name} has {self.size} parameters, not {len(coordinates)}")
        return {p.name: p.value(float(c)) for p, c in zip(self.parameters, coordinates, strict=True)}

    def coordinates(self, values: Mapping[str, float]) -> np.ndarray:
        """The coordinates of named values, in the order of the parameters."""
        return np.array([p.coordinate(values[p.name]) for p in self.parameters])

    def program(self, coordinates: Sequence[float] | np.ndarray) -> str:
        """The program at coordinates in [-1, 1]."""
        return self.fill(**self.values(coordinates))

    def fill(self, **values: float) -> str:
        """The program with these values; KeyError if one is missing."""
        return Text(self.text).substitute({name: repr(value) for name, value in values.items()})
