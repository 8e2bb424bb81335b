import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atlas_gym.tasks.bandit.driver import HistoryBook


def filled(rounds, replicas=2, horizon=30):
    """A book with `rounds` rounds, and the same as plain lists of (x, arm, reward)."""
    rng = np.random.default_rng(rounds)
    book, expected = HistoryBook(replicas, horizon, 3), [[] for _ in range(replicas)]
    for _ in range(rounds):
        contexts, rewards = rng.standard_normal((replicas, 4, 3)), rng.standard_normal(replicas)
        arms = rng.integers(4, size=replicas).tolist()
        book.record(contexts, arms, rewards)
        for r in range(replicas):
            expected[r].append((contexts[r, arms[r]].tolist(), arms[r], float(rewards[r])))
    return book.histories, expected


def plain(entries):
    return [(x.tolist(), arm, reward) for x, arm, reward in entries]


def test_what_a_list_can_do_it_can():
    (history, *_), (expected, *_) = filled(4)
    first = list(history[:1])
    assert plain(history + first) == expected + expected[:1]
    assert plain(first + history[1:]) == expected
    assert plain(history[:2] + history[2:]) == plain(history.copy()) == expected
    assert len(history * 2) == len(2 * history) == 8
    assert np.asarray(history)[:, 2].tolist() == history.rewards.tolist()


@given(
    rounds=st.integers(0, 20),
    start=st.none() | st.integers(-25, 25),
    stop=st.none() | st.integers(-25, 25),
    step=st.sampled_from([None, 1, 2, -1, -3]),
)
def test_it_behaves_as_the_list_of_rounds(rounds, start, stop, step):
    for history, expected in zip(*filled(rounds), strict=True):
        assert len(history) == rounds
        assert plain(history) == expected
        assert plain(reversed(history)) == expected[::-1]
        part = history[start:stop:step]
        assert plain(part) == expected[start:stop:step]
        assert part.rewards.tolist() == [reward for _, _, reward in expected[start:stop:step]]
        assert part[1:][::-1].arms.tolist() == [arm for _, arm, _ in expected[start:stop:step][1:][::-1]]
        for index in range(-rounds, rounds):
            assert plain([history[index]]) == [expected[index]]


def test_arrays_are_contiguous_views_that_cannot_be_written():
    history = filled(5)[0][1]
    for array in (history.contexts, history.arms, history.rewards, history[-2:].contexts, history[0][0]):
        assert array.flags.c_contiguous
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    assert np.shares_memory(history.contexts, history.contexts)


def test_what_was_taken_earlier_does_not_grow():
    book = HistoryBook(1, 10, 2)
    book.record(np.ones((1, 2, 2)), [0], np.ones(1))
    early, rounds = book.histories[0][:], iter(book.histories[0])
    book.record(np.ones((1, 2, 2)), [1], np.ones(1))
    assert len(early) == len(early.arms) == len(list(early)) == len(list(rounds)) == 1
    assert len(book.histories[0]) == len(list(book.histories[0])) == 2
