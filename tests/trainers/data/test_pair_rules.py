"""What holds of every set of pairs, whatever the candidates and the settings."""

import math
from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from atlas_gym.trainers.data.settings import MARGIN, REPAIRS, PairSettings
from tests.trainers.data.completions import built, completion, parent_text, rng


@st.composite
def buffers(draw):
    """Completions as exploration leaves them: few distinct texts and sites, ties, copies, failures."""
    count = draw(st.integers(0, 60))
    made = []
    for i in range(count):
        site = draw(st.sampled_from(["window", "lam", "scores"]))
        score = draw(st.one_of(st.none(), st.sampled_from([-0.3, -0.16, -0.15, -0.1, -0.08])))
        text = draw(st.sampled_from([" 10\n", " 10 \n", " 12\n", " x\n", " y(\n", " z\n", " w\n"]))
        prompt = f"{site} {draw(st.integers(0, 4))} ="
        copy = draw(st.booleans()) if score == -0.16 else False
        key = draw(st.sampled_from([None, "a", "b", "c", "d"])) if score is not None else None
        parent = draw(st.sampled_from([None, -0.16]))
        task = draw(st.integers(0, 1))
        made.append(
            completion(
                i, text, score, prompt, parent, site, is_copy=copy, program_key=key, round=task,
                parent_id=draw(st.sampled_from([None, 100 + i % 3])),
            )
        )  # fmt: skip
    return made


settings_strategy = st.builds(
    PairSettings,
    builder=st.sampled_from(["teach", "plain"]),
    count=st.integers(1, 40),
    chosen_quantile=st.sampled_from([0.0, 0.3, 0.9]),
    per_prompt=st.integers(1, 5),
    prompts=st.integers(1, 8),
    per_site=st.integers(1, 20),
    per_text=st.integers(1, 8),
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
            assert good.score > good.parent_score + MARGIN
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
        if pair.kind == "improving":
            assert pair.margin > MARGIN
        if pair_settings.length_ratio:
            short, long = sorted([len(pair.chosen.strip()), len(pair.rejected.strip())])
            assert long <= pair_settings.length_ratio * short + 12


@given(buffers(), settings_strategy, st.integers(0, 5))
def test_counts_and_caps_hold_and_no_pair_comes_twice(buffer, pair_settings, seed):
    pairs = built(buffer, pair_settings, np.random.default_rng(seed))
    assert len(pairs) <= pair_settings.count
    assert len({pair.prompt for pair in pairs}) <= pair_settings.prompts
    assert sum(p.kind == "repair" for p in pairs) <= REPAIRS * len(pairs) + 1e-9
    numbers = [p for p in pairs if p.chosen.strip() in ("10", "12")]
    assert len(numbers) <= pair_settings.numbers * pair_settings.count
    for key, cap in (
        (lambda p: p.prompt, pair_settings.per_prompt),
        (lambda p: p.site, max(pair_settings.per_site, pair_settings.count)),
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
