"""All attacks that make sense in every environment."""

from tests.hostile.attack import Attack
from tests.hostile.catalogue import (
    answers,
    channel,
    files,
    limits,
    marks,
    network,
    processes,
    replicas,
    state,
    text,
)

ATTACKS: tuple[Attack, ...] = (
    *state.ATTACKS,
    *answers.ATTACKS,
    *channel.ATTACKS,
    *replicas.ATTACKS,
    *processes.ATTACKS,
    *limits.ATTACKS,
    *text.ATTACKS,
    *files.ATTACKS,
    *marks.ATTACKS,
    *network.ATTACKS,
)
