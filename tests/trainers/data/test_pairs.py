import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.population.candidate import CandidateRecord
from trainers.data.pairs import build_pairs, group_by_prompt
from trainers.data.settings import PairSettings

BUILDERS = ("teach", "plain", "margin", "improving", "mixed", "balanced")


def completion(i, text, score, prompt="window =", parent=-0.16, hole="window", **changes):
    """A judged candidate; its round says which task scored it."""
    values = {
        "id": i, "round": 0, "island": 0, "origin": "agent", "style": "edit_line", "hole": hole, "parent_id": None,
        "prompt": prompt, "completion": text, "program": "", "program_key": None,
        "status": "ok" if score is not None else "error", "score": score, "parent_score": parent,
    }  # fmt: skip
    return CandidateRecord(**values | changes)


def rng():
    return np.random.default_rng(0)


def parent_text(record):
    return " 50" if record.parent_id is not None and record.id % 2 else None


def built(buffer, pair_settings, generator, **further):
    known = {"scale": lambda record: record.round, "parent_text": parent_text}
    return build_pairs(buffer, pair_settings, generator, **known, **further)


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
        task = draw(st.integers(0, 1))
        made.append(
            completion(
                i, text, score, prompt, parent, hole, is_copy=copy, program_key=key, round=task,
                parent_id=draw(st.sampled_from([None, 100 + i % 3])),
            )
        )  # fmt: skip
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
    repairs=st.sampled_from([0.0, 0.25, 0.6]),
    numbers=st.sampled_from([0.1, 0.5, 1.0]),
    length_ratio=st.sampled_from([0.0, 1.0, 2.0]),
    reuse=st.integers(0, 2),
)


@given(buffers(), settings_strategy, st.integers(0, 5))
def test_every_pair_keeps_the_rules(buffer, pair_settings, seed):
    pairs = built(buffer, pair_settings, np.random.default_rng(seed))
    by_id = {member.id: member for member in buffer}
    for pair in pairs:
        good = by_id[pair.chosen_id]
        passed = [m.score for m in buffer if m.passed and m.round == good.round]
        assert good.passed
        assert not good.is_copy
        assert (pair.prompt, pair.chosen) == (good.prompt, good.completion)
        assert good.score >= np.quantile(passed, pair_settings.chosen_quantile)
        assert pair.chosen.strip() != pair.rejected.strip()
        if pair.kind.startswith("improving"):
            assert good.score > good.parent_score + pair_settings.margin
        if pair.kind == "improving_parent":
            assert (pair.rejected_id, pair.rejected.rstrip()) == (good.parent_id, parent_text(good))
            assert pair.margin == good.score - good.parent_score
            continue
        bad = by_id[pair.rejected_id]
        assert (bad.prompt, bad.completion, bad.round) == (pair.prompt, pair.rejected, good.round)
        assert good.score > bad.score if bad.passed else math.isinf(pair.margin)
        assert good.program_key is None or good.program_key != bad.program_key
        assert (pair.kind in ("failed", "improving_failed", "repair")) == (not bad.passed)
        if pair.kind == "repair" or bad.passed:
            assert good.score != good.parent_score  # a copy in other words
        if pair.kind == "improving" or pair_settings.builder == "margin":
            assert pair.margin > pair_settings.margin
        if pair_settings.length_ratio:
            short, long = sorted([len(pair.chosen.strip()), len(pair.rejected.strip())])
            assert long <= pair_settings.length_ratio * short + 12


@given(buffers(), settings_strategy, st.integers(0, 5))
def test_counts_and_caps_hold_and_no_pair_comes_twice(buffer, pair_settings, seed):
    pairs = built(buffer, pair_settings, np.random.default_rng(seed))
    assert len(pairs) <= pair_settings.count
    assert len({pair.prompt for pair in pairs}) <= pair_settings.prompts
    assert sum(p.kind == "repair" for p in pairs) <= pair_settings.repairs * len(pairs) + 1e-9
    numbers = [p for p in pairs if p.chosen.strip() in ("10", "12")]
    assert len(numbers) <= pair_settings.numbers * pair_settings.count
    for key, cap in (
        (lambda p: p.prompt, pair_settings.per_prompt),
        (lambda p: p.hole, max(pair_settings.per_hole, pair_settings.count)),
        (lambda p: p.chosen.strip(), pair_settings.per_text),
        (lambda p: p.rejected.strip(), pair_settings.per_text),
        (lambda p: (p.prompt, p.chosen, p.rejected), 1),
    ):
        assert max(Counter(map(key, pairs)).values(), default=0) <= cap


@given(buffers(), settings_strategy, st.sets(st.integers(0, 60)), st.integers(0, 4))
def test_what_was_rejected_often_enough_is_not_rejected_again(buffer, pair_settings, ids, phases):
    pairs = built(buffer, pair_settings, rng(), rejected_before=dict.fromkeys(ids, phases))
    again = {p.rejected_id for p in pairs if p.kind != "improving_parent"} & ids
    assert not again or pair_settings.reuse == 0 or phases < pair_settings.reuse


@given(buffers(), settings_strategy)
def test_the_same_generator_gives_the_same_pairs(buffer, pair_settings):
    assert built(buffer, pair_settings, rng()) == built(buffer, pair_settings, rng())


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
        "numbers": 1.0,
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
    against_valid |= {("improving", 1, 2)}
    assert kinds("improving") == against_valid
    assert kinds("mixed") == against_valid | {("improving_failed", good, 6) for good in (1, 2)}
    assert kinds("improving", margin=0.03) == {("improving", 1, bad) for bad in (2, 3, 4, 5)}


def test_a_threshold_keeps_poor_programs_from_being_chosen():
    assert ("failed", 5, 6) in kinds("plain")
    chosen = {chosen for _, chosen, _ in kinds("plain", chosen_quantile=0.5)}
    assert chosen == {1, 2}


def test_teaching_pairs_beat_the_parent_or_repair():
    against_valid = {("improving", 1, bad) for bad in (2, 3, 4, 5)} | {
        ("improving", 2, bad) for bad in (3, 4, 5)
    }
    against_failed = {("improving_failed", good, 6) for good in (1, 2)}
    assert kinds("teach", repairs=0.0) == against_valid | against_failed
    assert kinds("teach", repairs=0.5) == against_valid | against_failed | {
        ("repair", good, 6) for good in (4, 5)
    }


def test_an_improving_edit_is_preferred_to_the_parents_own_text():
    edit = completion(1, " 10\n", -0.10, parent_id=7)
    (pair,) = built([edit], PairSettings(numbers=1.0), rng())
    assert (pair.kind, pair.rejected, pair.rejected_id) == ("improving_parent", " 50\n", 7)
    assert pair.margin == pytest.approx(0.06)


def test_the_parent_in_other_words_is_never_chosen_over_what_runs():
    still = completion(1, " 50 + 0\n", -0.16)
    worse, broken = completion(2, " 60\n", -0.18), completion(3, " (\n", None)
    options = {"chosen_quantile": 0.0, "repairs": 0.9}
    assert build_pairs([still, worse, broken], PairSettings(**options), rng()) == []
    plain = build_pairs([still, worse], PairSettings(builder="plain", **options), rng())
    assert plain == []


def test_without_a_gain_nothing_is_repaired_either():
    buffer = [completion(1, " 60\n", -0.18), completion(2, " (\n", None)]
    assert build_pairs(buffer, PairSettings(chosen_quantile=0.0), rng()) == []


def test_large_gains_come_before_small_ones():
    gains = [0.003, 0.02, 0.05, 0.008]
    buffer = []
    for i, gain in enumerate(gains):
        buffer += [
            completion(2 * i, f" y * {i}\n", -0.16 + gain, prompt=f"p{i} ="),
            completion(2 * i + 1, f" z * {i}\n", -0.17, prompt=f"p{i} ="),
        ]
    chosen = [
        p.chosen_id // 2 for p in build_pairs(buffer, PairSettings(count=2, chosen_quantile=0.0), rng())
    ]
    assert chosen == [2, 1]


def test_what_the_present_policy_wrote_is_rejected_first():
    buffer = []
    for i, failed in enumerate(
        [3, 40, -5, 41]
    ):  # an earlier policy's, the present one's, a lesson, the present one's
        buffer += [
            completion(10 + i, f" y * {i}\n", -0.1, prompt=f"p{i} ="),
            completion(failed, f" z({i}\n", None, prompt=f"p{i} ="),
        ]
    few = PairSettings(count=2, chosen_quantile=0.0, repairs=0.0)
    pairs = build_pairs(buffer, few, rng(), fresh_from=30)
    assert {pair.rejected_id for pair in pairs} == {40, 41}
    every = build_pairs(buffer, PairSettings(count=9, chosen_quantile=0.0, repairs=0.0), rng(), fresh_from=30)
    assert {pair.rejected_id for pair in every} == {3, 40, -5, 41}


def test_a_thousand_pairs_can_be_had_of_an_accumulated_buffer():
    sites = [f"site {i}" for i in range(9)]
    buffer = [
        completion(1000 * p + i, f" {p} {i} {'+' if i % 2 else '('}\n", -0.1 - 0.001 * i if i % 2 else None,
                   prompt=f"p{p} =", hole=sites[p % 9])
        for p in range(150)
        for i in range(8)
    ]  # fmt: skip
    for count in (256, 1000):
        wide = PairSettings(count=count, prompts=150, chosen_quantile=0.0)
        assert len(build_pairs(buffer, wide, rng())) == count


def test_scales_of_different_tasks_are_not_compared():
    fine = [completion(i, f" f{i}\n", -0.10 - 0.01 * i, prompt="a =", parent=-0.2) for i in range(4)]
    coarse = [
        completion(10 + i, f" c{i}\n", 900.0 - i, prompt="b =", parent=890.0, round=1) for i in range(4)
    ]
    pairs = built(fine + coarse, PairSettings(chosen_quantile=0.5, count=100), rng())
    assert {p.prompt for p in pairs} == {"a =", "b ="}


def test_a_style_with_one_site_may_fill_the_phase():
    buffer = []
    for i in range(40):
        buffer += [
            completion(3 * i, f" body {i} a\n", -0.1, prompt=f"p{i}", hole="whole function"),
            completion(3 * i + 1, f" body {i} b\n", -0.2, prompt=f"p{i}", hole="whole function"),
            completion(3 * i + 2, f" body {i} c(\n", None, prompt=f"p{i}", hole="whole function"),
        ]
    pairs = build_pairs(buffer, PairSettings(count=60, per_hole=4, chosen_quantile=0.0), rng())
    assert len(pairs) == 60


def test_numbers_have_no_more_than_their_share():
    buffer = []
    for i in range(30):
        buffer += [
            completion(2 * i, f" {i}\n", -0.1, prompt=f"p{i}"),
            completion(2 * i + 1, f" {i}.5\n", -0.2, prompt=f"p{i}"),
        ]
    assert len(build_pairs(buffer, PairSettings(count=20, chosen_quantile=0.0), rng())) == 5


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
    counts = Counter(
        pair.kind for pair in build_pairs(many(), PairSettings(builder="balanced", count=64), rng())
    )
    assert counts == {"score": 16, "failed": 16, "improving": 16, "improving_failed": 16}


def test_what_one_kind_lacks_the_others_fill():
    no_parent = [replace(member, parent_score=None) for member in many(holes=8, prompts=8)]
    pairs = build_pairs(no_parent, PairSettings(builder="balanced", count=64), rng())
    assert len(pairs) == 64
    assert {pair.kind for pair in pairs} == {"score", "failed"}


def test_selection_spreads_over_holes_before_it_repeats_one():
    pairs = build_pairs(many(holes=5), PairSettings(builder="plain", count=10), rng())
    assert len({pair.hole for pair in pairs}) == 5


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
    [
        {"builder": "best"},
        {"count": 0},
        {"per_text": 0},
        {"margin": -1.0},
        {"chosen_quantile": 1.5},
        {"repairs": 1.0},
        {"length_ratio": 0.5},
    ],
)
def test_impossible_settings_are_errors(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        PairSettings(**bad)


def test_groups_come_in_the_order_of_their_first_member():
    assert group_by_prompt(["b", "a", "b", "c", "a"]) == [[0, 2], [1, 4], [3]]
