"""What a construction's judge makes of an answer."""

from atlas_gym.tasks.answer import Answer
from atlas_gym.tasks.registry import make_task


def value(name, answer, **constants):
    task = make_task(f"ATLAS-Construct-{name}-v0", **{"best_known": 1} | constants)
    return task.judged(Answer(task.function, answer))[0]
