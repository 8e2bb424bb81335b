import numpy as np
import pytest

from atlas_gym.tasks.bandit.driver import HEADER, LOADED, HistoryBook, choose, serve


def arm_of(value):
    book = HistoryBook(1, 1, 2)
    return choose([lambda context, history, t: value], np.zeros((1, 3, 2)), book.histories, 7)[0]


@pytest.mark.parametrize("value", [2, np.int64(2), np.uint8(2), np.array(2), np.array([[2]])])
def test_integers_of_every_kind_are_arms(value):
    assert arm_of(value) == 2


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "None .*is a return statement missing"),
        (True, "True"),
        (np.False_, "a bool"),
        (float("nan"), "nan"),
        (np.array([1.5]), "1.5"),
        (np.array([1, 2]), "a ndarray"),
        ("1", "a str"),
        (-1, "-1"),
        (np.int64(3), "3"),
        (10**30, "10+"),
    ],
)
def test_everything_else_is_named_with_the_fix(value, shown):
    with pytest.raises(ValueError, match=f"policy returned {shown}.*return an integer from 0 to 2"):
        arm_of(value)


class ScriptedPipe:
    """Plays the trusted side from a list of messages and keeps the answers."""

    def __init__(self, messages):
        self.messages, self.answers = list(messages), []

    def receive(self, n):
        message = bytearray(self.messages.pop(0))
        assert len(message) == n
        return message

    def send(self, payload):
        self.answers.append(bytes(payload))


def test_serving_deals_each_replica_its_own_contexts_rewards_and_globals():
    seen = [[], []]

    def load():
        replica = loads.pop(0)

        def policy(context, history, t):
            seen[replica].append((t, context.tolist(), list(history.rewards)))
            return t % 2

        return policy

    loads = [0, 1]
    contexts = np.arange(3 * 2 * 2 * 2, dtype=float).reshape(3, 2, 2, 2)
    rewards = np.array([[0.0, 0.0], [10.0, 20.0], [11.0, 21.0]])
    steps = [np.concatenate([rewards[t], contexts[t].ravel()]).tobytes() for t in range(3)]
    pipe = ScriptedPipe([HEADER.pack(2, 2, 2, 3, 0), *steps])
    serve(load, pipe)
    assert pipe.answers == [LOADED, b"\0\0", b"\1\1", b"\0\0"]
    for replica in (0, 1):
        past = [rewards[1:t, replica].tolist() for t in (1, 2, 3)]
        assert seen[replica] == [(t, contexts[t, replica].tolist(), past[t]) for t in range(3)]
