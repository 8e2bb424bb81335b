import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM

from atlas_gym.agents.models.tree_attention import use_tree_attention
from atlas_gym.trainers.evodpo.packing import batch_order, pack_tree, pair_branches, plant
from atlas_gym.trainers.evodpo.token_values import token_values
from tests.tiny_model import save_tiny_model


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = save_tiny_model(tmp_path_factory.mktemp("tiny"))
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa")
    use_tree_attention(model)
    return model.eval()


def alone(model, prompt, completion):
    """The same log-probabilities the ordinary way: one sequence, no packing."""
    ids = torch.tensor([[*prompt, *completion]])
    log_probs = model(input_ids=ids).logits[0, len(prompt) - 1 : -1].float().log_softmax(-1)
    return log_probs.gather(1, torch.tensor(completion)[:, None])[:, 0]


def test_a_tree_is_the_prompt_once_and_positions_restart():
    tree = pack_tree([([1, 2, 3], [4, 5]), ([1, 2, 3], [6, 7, 8])])
    assert tree["input_ids"].tolist() == [[1, 2, 3, 6, 7, 8, 4, 5]]
    assert tree["position_ids"].tolist() == [[0, 1, 2, 3, 4, 5, 3, 4]]
    assert tree["positions"].tolist() == [2, 3, 4, 6]
    assert tree["rows"].tolist() == [0, 3, 0, 1, 2]
    assert tree["targets"].tolist() == [4, 5, 6, 7, 8]
    assert tree["owners"].tolist() == [0, 0, 1, 1, 1]
    sees = tree["attention_mask"][0, 0].int().tolist()
    assert sees[5] == [1, 1, 1, 1, 1, 1, 0, 0]
    assert sees[7] == [1, 1, 1, 0, 0, 0, 1, 1]


def test_the_prompt_of_a_later_site_goes_on_where_that_of_an_earlier_one_ends():
    tree = pack_tree([([1, 2, 3, 4], [8]), ([1, 2], [9, 7]), ([1, 2], [3, 5])])
    assert tree["input_ids"].tolist() == [[1, 2, 3, 4, 8, 9, 7, 5]]
    assert tree["position_ids"].tolist() == [[0, 1, 2, 3, 4, 2, 3, 3]]
    assert tree["positions"].tolist() == [1, 2, 3, 5]
    assert tree["rows"].tolist() == [2, 0, 3, 0, 1]
    assert tree["attention_mask"][0, 0, 7].int().tolist() == [1, 1, 1, 0, 0, 0, 0, 1]


# A small alphabet, so that prompts are often beginnings of each other and of completions.
letters = st.lists(st.integers(1, 3), min_size=1, max_size=6)
branches = st.lists(st.tuples(letters, letters), min_size=1, max_size=7)


@given(branches=branches, limit=st.integers(1, 40))
def test_packed_log_probabilities_and_gradients_equal_those_of_separate_sequences(model, branches, limit):
    weights = model.get_input_embeddings().weight
    separate = torch.cat([alone(model, prompt, completion) for prompt, completion in branches])
    (gradient,) = torch.autograd.grad(separate.square().sum(), weights)
    forest = plant(branches, limit)
    found = [token_values(model, tree).log_probs for tree in forest.trees]
    packed = torch.cat([found[i][forest.trees[i]["owners"] == branch] for i, branch in forest.places])
    torch.testing.assert_close(packed, separate, atol=1e-5, rtol=1e-5)
    (packed_gradient,) = torch.autograd.grad(packed.square().sum(), weights)
    torch.testing.assert_close(packed_gradient, gradient, atol=1e-5 * float(gradient.abs().max()), rtol=1e-4)


@given(branches=branches, limit=st.integers(1, 40))
def test_no_tree_is_larger_than_allowed_and_each_branch_is_packed_once(branches, limit):
    forest = plant(branches, limit)
    sizes = [tree["input_ids"].numel() for tree in forest.trees]
    longest = max(len(prompt) + len(completion) for prompt, completion in branches)
    assert max(sizes) <= max(limit, longest)
    distinct = {(tuple(prompt), tuple(completion)) for prompt, completion in branches}
    assert sum(int(tree["owners"][-1]) + 1 for tree in forest.trees) == len(distinct)
    assert len(forest.places) == len(branches)


@pytest.mark.parametrize("branches", [[([], [1])], [], [([1], [2]), ([1], [])]])
def test_nothing_to_predict_from_or_to_predict_is_an_error(branches):
    with pytest.raises(ValueError, match="at least one token"):
        pack_tree(branches)


def test_pairs_share_trees_and_completions():
    pairs = [([1], [2], [3]), ([9], [2], [3]), ([1], [2], [4, 4])]
    forest = plant(
        pair_branches([{"prompt_ids": p, "chosen_ids": c, "rejected_ids": r} for p, c, r in pairs])
    )
    trees = [tree["input_ids"].tolist()[0] for tree in forest.trees]
    assert trees == [[1, 4, 4, 2, 3], [9, 2, 3]]
    assert forest.places == [(0, 0), (1, 0), (0, 0), (0, 1), (1, 1), (0, 2)]


@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=7),
    size=st.integers(1, 6),
    seed=st.integers(0, 9),
)
def test_the_order_is_a_permutation_that_follows_its_seed(sizes, size, seed):
    groups = [list(range(sum(sizes[:k]), sum(sizes[: k + 1]))) for k in range(len(sizes))]
    order = batch_order(groups, size, np.random.default_rng(seed))
    assert sorted(order) == list(range(sum(sizes)))
    assert order == batch_order(groups, size, np.random.default_rng(seed))


def test_batches_have_few_prompts_yet_come_in_random_order():
    groups = [range(prompt, 64, 8) for prompt in range(8)]  # eight pairs of each of eight prompts, far apart
    orders = [batch_order(groups, 4, np.random.default_rng(seed)) for seed in range(2)]
    for order in orders:
        assert all(len({i % 8 for i in order[k : k + 4]}) == 1 for k in range(0, 64, 4))
    assert orders[0] != orders[1]
