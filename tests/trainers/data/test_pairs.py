import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainers.data.pairs import PairSettings, ScoredCompletion, build_pairs, group_by_prompt

BUILDERS = ("plain", "margin", "improving", "mixed", "balanced")


def completion(i, text, score, prompt="window =", parent=-0.16, hole="window", **changes):
    status = "ok" if score is not None else "error"
    return ScoredCompletion(i, prompt, text, status, score, parent, hole=hole, **changes)


def rng():
    return np.random.default_rng(0)


@st.composite
def buffers(draw):
    """Completions as exploration leaves them: few distinct texts and holes, ties, copies, failures."""
    count = draw(st.integers(0, 60))
    made = []
    for i in range(count):
        hole = draw(st.sampled_from(["window", "lam", "scores"]))
        score = draw(st.one_of(st.none(), st.sampled_from([-0.3, -0.16, -0.15, -0.1, -0.08])))
        text = draw(st.sampled_from([" 10\n", " 10 \n", " 12\n", " x\n", " y(\n", " z\n", " w\n"]))
        prompt = f"{hole} {draw(st.integers(0, 4))} ="
        copy = draw(st.booleans()) if score == -0.16 else False
        key = draw(st.sampled_from([None, "a", "b", "c", "d"])) if score is not None else None
        parent = draw(st.sampled_from([None, -0.16]))
        made.append(completion(i, text, score, prompt, parent, hole, is_copy=copy, program_key=key))
    return made


settings_strategy = st.builds(
    PairSettings,
    builder=st.sampled_from(BUILDERS),
    count=st.integers(1, 40),
    margin=st.sampled_from([0.0, 0.002, 0.04]),
    chosen_quantile=st.sampled_from([0.0, 0.3, 0.9]),
    per_prompt=st.integers(1, 5),
    prompts=st.integers(1, 8),
    per_hole=st.integers(1, 20),
    per_text=st.integers(1, 8),
)


@settings(deadline=None, max_examples=150)
@given(buffers(), settings_strategy, st.integers(0, 5))
def test_every_pair_keeps_the_rules(buffer, pair_settings, seed):
    pairs = build_pairs(buffer, pair_settings, np.random.default_rng(seed))
    by_id = {member.candidate_id: member for member in buffer}
    threshold = (
        np.quantile([m.score for m in buffer if m.passed], pair_settings.chosen_quantile) if pairs else 0
    )
    for pair in pairs:
        good, bad = by_id[pair.chosen_id], by_id[pair.rejected_id]
        assert good.prompt == bad.prompt == pair.prompt
        assert (good.completion, bad.completion) == (pair.chosen, pair.rejected)
        assert good.passed
        assert not good.is_copy
        assert good.score >= threshold
        assert good.score > bad.score if bad.passed else math.isinf(pair.margin)
        assert pair.chosen.strip() != pair.rejected.strip()
        assert good.program_key is None or good.program_key != bad.program_key
        assert (pair.kind in ("failed", "improving_failed")) == (not bad.passed)
        if pair.kind.startswith("improving"):
            assert good.score > good.parent_score + pair_settings.margin
        if pair.kind == "improving" or pair_settings.builder == "margin":
            assert pair.margin > pair_settings.margin


@settings(deadline=None, max_examples=150)
@given(buffers(), settings_strategy, st.integers(0, 5))
def test_counts_and_caps_hold_and_no_pair_comes_twice(buffer, pair_settings, seed):
    pairs = build_pairs(buffer, pair_settings, np.random.default_rng(seed))
    assert len(pairs) <= pair_settings.count
    assert len({pair.prompt for pair in pairs}) <= pair_settings.prompts
    for key, cap in (
        (lambda p: p.prompt, pair_settings.per_prompt),
        (lambda p: p.hole, pair_settings.per_hole),
        (lambda p: p.chosen.strip(), pair_settings.per_text),
        (lambda p: p.rejected.strip(), pair_settings.per_text),
        (lambda p: (p.prompt, p.chosen, p.rejected), 1),
    ):
        assert max(Counter(map(key, pairs)).values(), default=0) <= cap


@settings(deadline=None, max_examples=50)
@given(buffers(), settings_strategy)
def test_the_same_generator_gives_the_same_pairs(buffer, pair_settings):
    assert build_pairs(buffer, pair_settings, rng()) == build_pairs(buffer, pair_settings, rng())


BUFFER = [
    completion(1, " 10\n", -0.10),
    completion(2, " 20\n", -0.14),
    completion(3, " 50\n", -0.16, is_copy=True),
    completion(4, " 60\n", -0.18),
    completion(5, " 1e9\n", -0.50),
    completion(6, " foo(\n", None),
]


def kinds(builder, **changes):
    options = {
        "count": 100,
        "per_prompt": 100,
        "prompts": 100,
        "per_hole": 100,
        "per_text": 100,
        "chosen_quantile": 0.0,
    }
    pair_settings = PairSettings(builder=builder, **{**options, **changes})
    return {(p.kind, p.chosen_id, p.rejected_id) for p in build_pairs(BUFFER, pair_settings, rng())}


def test_plain_pairs_are_halves_and_failures():
    halves = {("score", good, bad) for good in (1, 2) for bad in (3, 4, 5)}
    failures = {("failed", good, 6) for good in (1, 2, 4, 5)}
    assert kinds("plain") == halves | failures


def test_margin_pairs_differ_by_the_margin():
    assert kinds("margin", margin=0.03) == {
        ("score", 1, 3), ("score", 1, 4), ("score", 1, 5), ("score", 2, 4), ("score", 2, 5)
    }  # fmt: skip


def test_improving_pairs_choose_what_beats_the_parent():
    against_valid = {("improving", good, bad) for good in (1, 2) for bad in (3, 4, 5)}
    assert kinds("improving") == against_valid
    assert kinds("mixed") == against_valid | {("improving_failed", good, 6) for good in (1, 2)}
    assert kinds("improving", margin=0.03) == {("improving", 1, bad) for bad in (2, 3, 4, 5)}


def test_a_threshold_keeps_poor_programs_from_being_chosen():
    assert ("failed", 5, 6) in kinds("plain")
    chosen = {chosen for _, chosen, _ in kinds("plain", chosen_quantile=0.5)}
    assert chosen == {1, 2}


def many(holes=4, prompts=8):
    buffer = []
    for hole in range(holes):
        for prompt in range(prompts):
            improving = prompt % 2 == 0
            scores = [-0.05 if improving else -0.165, -0.17, -0.18, -0.2, None, None]
            for k, score in enumerate(scores):
                text = f" value {hole} {prompt} {k}\n"
                buffer.append(
                    completion(len(buffer), text, score, prompt=f"h{hole} p{prompt} =", hole=f"h{hole}")
                )
    return buffer


def test_a_balanced_set_has_all_kinds_and_is_full():
    counts = Counter(pair.kind for pair in build_pairs(many(), PairSettings(per_hole=64), rng()))
    assert counts == {"score": 16, "failed": 16, "improving": 16, "improving_failed": 16}


def test_what_one_kind_lacks_the_others_fill():
    no_parent = [
        ScoredCompletion(**{**vars(member), "parent_score": None}) for member in many(holes=8, prompts=8)
    ]
    pairs = build_pairs(no_parent, PairSettings(), rng())
    assert len(pairs) == 64
    assert {pair.kind for pair in pairs} == {"score", "failed"}


def test_selection_spreads_over_holes_before_it_repeats_one():
    pairs = build_pairs(many(holes=5), PairSettings(builder="plain", count=10), rng())
    assert set(Counter(pair.hole for pair in pairs).values()) == {2}


def test_seeds_select_different_pairs():
    pairs = [build_pairs(many(), PairSettings(count=16), np.random.default_rng(seed)) for seed in range(2)]
    assert pairs[0] != pairs[1]


def test_nothing_to_compare_gives_no_pairs():
    assert build_pairs([], PairSettings(), rng()) == []
    failed = [completion(i, f" {i}(\n", None) for i in range(4)]
    assert build_pairs(failed, PairSettings(), rng()) == []
    alone = [completion(i, f" {i}\n", -0.1 * i, prompt=f"p{i}") for i in range(4)]
    assert build_pairs(alone, PairSettings(), rng()) == []


@pytest.mark.parametrize(
    "bad",
    [{"builder": "best"}, {"count": 0}, {"per_text": 0}, {"margin": -1.0}, {"chosen_quantile": 1.5}],
)
def test_impossible_settings_are_errors(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        PairSettings(**bad)


def test_groups_come_in_the_order_of_their_first_member():
    assert group_by_prompt(["b", "a", "b", "c", "a"]) == [[0, 2], [1, 4], [3]]
