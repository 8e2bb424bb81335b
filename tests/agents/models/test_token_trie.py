import itertools

import torch
from hypothesis import given
from hypothesis import strategies as st

from atlas_gym.agents.models.token_trie import common_prefix, families, token_trie

sequences = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=7), min_size=1, max_size=8)


@given(sequences)
def test_every_distinct_beginning_is_one_node(sequences):
    trie = token_trie(sequences)
    beginnings = {tuple(s[: n + 1]) for s in sequences for n in range(len(s))}
    assert len(trie.tokens) == len(beginnings)
    for sequence, path in zip(sequences, trie.paths, strict=True):
        assert [trie.tokens[node] for node in path] == sequence
        assert [trie.depths[node] for node in path] == list(range(len(sequence)))


@given(sequences)
def test_a_node_sees_itself_and_what_is_before_it_in_its_sequence(sequences):
    trie = token_trie(sequences)
    expected = torch.zeros(len(trie.tokens), len(trie.tokens), dtype=torch.bool)
    for path in trie.paths:
        for place, node in enumerate(path):
            expected[node, path[: place + 1]] = True
    assert torch.equal(trie.visible(), expected)
    assert torch.equal(trie.visible(), trie.visible().tril())  # ancestors come first


def test_the_longest_sequence_is_in_front_and_the_others_follow_in_the_order_in_which_they_leave_it():
    trie = token_trie([[1, 2, 9], [1, 2, 3, 4], [1, 8, 8], [1, 2, 9, 5], [1, 8, 7], [6]])
    assert trie.tokens == [1, 2, 3, 4, 6, 8, 7, 8, 9, 5]
    assert trie.depths == [0, 1, 2, 3, 0, 1, 2, 2, 2, 3]


@given(sequences)
def test_families_hold_each_sequence_once_and_share_half_of_each(sequences):
    groups = families(sequences)
    assert sorted(index for group in groups for index in group) == list(range(len(sequences)))
    for group in groups:
        for one, other in itertools.pairwise(sequences[index] for index in group):
            assert common_prefix(one, other) >= len(other) / 2


def test_prompts_of_one_program_are_a_family_and_those_of_another_are_not():
    assert families([[5, 1, 2], [7, 7], [5, 1, 2, 3, 4], [5, 1, 2, 3]]) == [[0, 3, 2], [1]]
