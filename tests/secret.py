"""Another secret for a while."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def secret_is(secret: str) -> Iterator[None]:
    """Hidden streams are drawn under `secret`, in this process and in those it starts meanwhile."""
    from atlas_gym.hidden_streams import SECRET_VARIABLE
    from atlas_gym.tasks import program_task
    from atlas_gym.tasks.bandit.instances import draw_instances

    drawn_once = (draw_instances, program_task.drawn)  # per process, under the secret of that moment
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SECRET_VARIABLE, secret)
        for draw in drawn_once:
            draw.cache_clear()
        yield
    for draw in drawn_once:
        draw.cache_clear()
