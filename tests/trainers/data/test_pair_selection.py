from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from atlas_gym.trainers.data.pair_selection import Cap, Selection

# (group, first part, second part, strength)
members = st.lists(
    st.tuples(
        st.integers(0, 3), st.integers(0, 3), st.none() | st.integers(0, 3), st.sampled_from([0.1, 0.5, 0.9])
    ),
    max_size=25,
)


def caps(limit, groups):
    first, second = Cap(lambda m: m[1], limit), Cap(lambda m: m[2], limit + 1, wear=0.5)
    return [first, second, Cap(lambda m: m[0], 99, wear=0.0, different=groups)]


def by_hand(pool, count, limit, groups, rng):
    """The rule itself: of all that is allowed the strongest by now, ties by lot."""
    lots = rng.permutation(len(pool)).tolist()
    left, taken = list(range(len(pool))), []
    while len(taken) < count:
        first, second = Counter(m[1] for m in taken), Counter(m[2] for m in taken if m[2] is not None)
        open_ = {m[0] for m in taken}
        allowed = [
            i for i in left
            if first[pool[i][1]] < limit and second[pool[i][2]] < limit + 1 and len(open_ | {pool[i][0]}) <= groups
        ]  # fmt: skip
        if not allowed:
            break
        worn = {i: pool[i][3] / (1.0 + (first[pool[i][1]] + 0.5 * second[pool[i][2]])) for i in allowed}
        best = min(allowed, key=lambda i: (-worn[i], lots[i]))
        left.remove(best)
        taken.append(pool[best])
    return taken


@given(members, st.integers(0, 20), st.integers(1, 4), st.integers(1, 4), st.integers(0, 5))
def test_the_heap_finds_what_looking_at_everything_finds(pool, count, limit, groups, seed):
    selection = Selection(caps(limit, groups), lambda m: m[3])
    found = selection.take(pool, count, np.random.default_rng(seed))
    assert found == by_hand(pool, count, limit, groups, np.random.default_rng(seed))


def test_caps_hold_over_all_that_is_taken():
    selection = Selection(caps(2, 1), lambda m: m[3])
    first = selection.take([(0, 1, None, 1.0)] * 3, 5, np.random.default_rng(0))
    assert len(first) == 2
    assert selection.take([(0, 1, None, 1.0), (1, 0, None, 1.0)], 5, np.random.default_rng(0)) == []
    assert len(selection.take([(0, 0, None, 1.0)], 5, np.random.default_rng(0))) == 1
