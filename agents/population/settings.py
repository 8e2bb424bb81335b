"""How islands keep programs, and tell their ideas apart."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class ClusterSettings:
    """When two programs count as different ideas."""

    radius: float = 0.12
    """Distance from a leader, in [0, 1], beyond which a program starts a cluster of its own."""
    behaviour: float = 0.5
    """Weight of behaviour against shape in the distance, in [0, 1]."""
    depth: int = 3
    """Length of the paths that a shape is made of, nodes."""
    limit: int = 256
    """Clusters at most (>= 1); once there are as many, a program joins the nearest however far it is. Keeps the
    cost of a program independent of the length of a run."""

    def __post_init__(self) -> None:
        if not (0 <= self.radius <= 1 and 0 <= self.behaviour <= 1):
            raise ValueError("radius and behaviour must lie in [0, 1]")
        if self.depth < 1 or self.limit < 1:
            raise ValueError("depth and limit must be at least 1")


@dataclass(frozen=True)
class IslandSettings:
    """How an island keeps and draws programs."""

    capacity: int = 8
    """Number of programs in the population."""
    temperature: float = 0.01
    """Parents are drawn by softmax of score / temperature, in units of the task's score, > 0."""
    longest_parent: int = 4000
    """Programs with more characters than this never become parents (prompts would outgrow the model)."""
    failed: int = 32
    """How many failed programs are remembered."""
    clusters: ClusterSettings = field(default_factory=ClusterSettings)
    """When two programs count as different ideas."""

    def __post_init__(self) -> None:
        if self.capacity < 1 or self.longest_parent < 1 or self.failed < 0:
            raise ValueError("capacity and longest_parent must be at least 1, failed at least 0")
        if not self.temperature > 0:
            raise ValueError(f"temperature must be positive, got {self.temperature}")
