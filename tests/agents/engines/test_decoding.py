import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import Cache, DynamicCache

from atlas_gym.agents.engines.decoding import RoomyLayer


def roomy_cache():
    return Cache(layer_class_to_replicate=RoomyLayer)


def states(width, columns, generator, sequences):
    return torch.randn(sequences, 3, columns, width, generator=generator)


@given(
    widths=st.lists(st.integers(1, 9), min_size=1, max_size=30),
    drops=st.sets(st.integers(0, 29), max_size=4),
    seed=st.integers(0, 99),
)
def test_it_holds_what_transformers_own_cache_holds(widths, drops, seed):
    caches = DynamicCache(), roomy_cache()
    generator = torch.Generator().manual_seed(seed)
    sequences = 5
    for step, width in enumerate(widths):
        if step in drops and step:
            kept = torch.randperm(sequences, generator=generator)[: max(1, sequences - 1)].sort().values
            sequences = len(kept)
            for cache in caches:
                cache.batch_select_indices(kept)
        for layer in range(2):
            keys, values = (states(size, width, generator, sequences) for size in (4, 6))
            expected, found = (cache.update(keys, values, layer) for cache in caches)
            assert all(torch.equal(a, b) for a, b in zip(expected, found, strict=True))
        assert caches[0].get_seq_length() == caches[1].get_seq_length()


def test_what_was_appended_is_not_copied_at_every_step():
    cache = roomy_cache()
    places = []
    for _ in range(100):
        keys, _ = cache.update(torch.zeros(1, 2, 1, 4), torch.zeros(1, 2, 1, 4), 0)
        places.append(keys.data_ptr())
    assert len(set(places)) < 15
