from collections import Counter

import pytest

from atlas_gym.trainers.data.pairs import build_pairs
from atlas_gym.trainers.data.settings import PairSettings
from tests.trainers.data.completions import built, completion, rng

BUFFER = [
    completion(1, " 10\n", -0.10),
    completion(2, " 20\n", -0.14),
    completion(3, " 50\n", -0.16, is_copy=True),
    completion(4, " 60\n", -0.18),
    completion(5, " 1e9\n", -0.50),
    completion(6, " foo(\n", None),
]


def kinds(builder, **changes):
    options = dict.fromkeys(("count", "per_prompt", "prompts", "per_site", "per_text"), 100)
    options |= {"chosen_quantile": 0.0, "numbers": 1.0, **changes}
    pair_settings = PairSettings(builder=builder, **options)
    return {(p.kind, p.chosen_id, p.rejected_id) for p in build_pairs(BUFFER, pair_settings, rng())}


def test_plain_pairs_are_halves_and_failures():
    halves = {("score", good, bad) for good in (1, 2) for bad in (3, 4, 5)}
    failures = {("failed", good, 6) for good in (1, 2, 4, 5)}
    assert kinds("plain") == halves | failures


def test_teaching_pairs_beat_the_parent_or_repair():
    against_valid = {("improving", 1, bad) for bad in (2, 3, 4, 5)}
    against_valid |= {("improving", 2, bad) for bad in (3, 4, 5)}
    against_failed = {("improving_failed", good, 6) for good in (1, 2)}
    repairs = {("repair", good, 6) for good in (4, 5)}
    assert kinds("teach") == against_valid | against_failed | repairs


def test_an_improving_edit_is_preferred_to_the_parents_own_text():
    edit = completion(1, " 10\n", -0.10, parent_id=7)
    (pair,) = built([edit], PairSettings(numbers=1.0), rng())
    assert (pair.kind, pair.rejected, pair.rejected_id) == ("improving_parent", " 50\n", 7)
    assert pair.margin == pytest.approx(0.06)


def test_large_gains_come_before_small_ones():
    buffer = []
    for i, gain in enumerate([0.003, 0.02, 0.05, 0.008]):
        buffer.append(completion(2 * i, f" y * {i}\n", -0.16 + gain, prompt=f"p{i} ="))
        buffer.append(completion(2 * i + 1, f" z * {i}\n", -0.17, prompt=f"p{i} ="))
    pairs = build_pairs(buffer, PairSettings(count=2, chosen_quantile=0.0), rng())
    assert [pair.chosen_id for pair in pairs] == [4, 2]


def test_what_the_present_policy_wrote_is_rejected_first():
    buffer = []
    # Of an earlier policy, of the present one, a supporter's, of the present one.
    for i, failed in enumerate([3, 40, -5, 41]):
        buffer.append(completion(10 + i, f" y * {i}\n", -0.1, prompt=f"p{i} ="))
        buffer.append(completion(failed, f" z({i}\n", None, prompt=f"p{i} ="))
    few = PairSettings(count=2, chosen_quantile=0.0)
    pairs = build_pairs(buffer, few, rng(), fresh_from=30)
    assert {pair.rejected_id for pair in pairs} == {40, 41}
    every = build_pairs(buffer, PairSettings(count=9, chosen_quantile=0.0), rng(), fresh_from=30)
    assert {pair.rejected_id for pair in every} == {3, 40, -5, 41}


def test_a_style_with_one_site_may_fill_the_phase():
    buffer = [
        completion(3 * i + k, f" body {i} {k}\n", score, prompt=f"p{i}", site="whole function")
        for i in range(40)
        for k, score in enumerate((-0.1, -0.2, None))
    ]
    pairs = build_pairs(buffer, PairSettings(count=60, per_site=4, chosen_quantile=0.0), rng())
    assert len(pairs) == 60


def many(sites=4, prompts=8):
    buffer = []
    for site in range(sites):
        for prompt in range(prompts):
            improving = prompt % 2 == 0
            scores = [-0.05 if improving else -0.165, -0.17, -0.18, -0.2, None, None]
            for k, score in enumerate(scores):
                text = f" value {site} {prompt} {k}\n"
                buffer.append(
                    completion(len(buffer), text, score, prompt=f"h{site} p{prompt} =", site=f"h{site}")
                )
    return buffer


def test_a_set_has_all_kinds_and_what_one_lacks_the_others_fill():
    counts = Counter(pair.kind for pair in build_pairs(many(), PairSettings(count=64), rng()))
    assert len(counts) == 3  # no parent's own text is known here
    assert counts.total() == 64
    no_failures = [member for member in many(sites=8, prompts=8) if member.passed]
    pairs = build_pairs(no_failures, PairSettings(count=64, chosen_quantile=0.0), rng())
    assert (len(pairs), {pair.kind for pair in pairs}) == (64, {"improving"})


def test_selection_spreads_over_sites_before_it_repeats_one():
    pairs = build_pairs(many(sites=5), PairSettings(builder="plain", count=10), rng())
    assert len({pair.site for pair in pairs}) == 5
