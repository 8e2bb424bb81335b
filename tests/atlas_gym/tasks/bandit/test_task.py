from dataclasses import replace

import numpy as np
import pytest

from atlas_gym.evaluation.channel import CandidateError
from atlas_gym.tasks.bandit.driver import HEADER, LOADED
from atlas_gym.tasks.bandit.task import WORST_GAUSSIAN, BanditTask

TASK = BanditTask.from_keywords(horizon=40, replicas=3, arms=4, dimension=3).at(2)


class FakeWorker:
    """A channel whose other end answers step t with answer(t)."""

    def __init__(self, answer, loaded=LOADED):
        self.answer, self.loaded, self.messages = answer, loaded, []

    def send(self, data):
        self.header = HEADER.unpack(data)

    def receive(self, n):
        return self.loaded

    def exchange(self, data, n):
        self.messages.append(np.array(data))
        return bytes(self.answer(len(self.messages) - 1))


def test_the_score_is_the_mean_expected_regret_of_what_was_chosen():
    instances = TASK.drawn()
    answers = np.random.default_rng(0).integers(4, size=(40, 3))
    judgement = TASK.judge(FakeWorker(lambda t: answers[t].tolist()))
    regrets = []
    for t in range(40):
        for r in range(3):
            means = instances.contexts[t, r] @ instances.theta[t, r]
            regrets.append(means.max() - means[answers[t, r]])
    assert judgement.score == pytest.approx(-np.mean(regrets), abs=1e-12)
    assert judgement.metrics["best_arm_share"] == pytest.approx(np.mean(np.array(regrets) == 0))


def test_to_know_theta_costs_less_than_uniform_play():
    uniform, informed = TASK.reference_scores().values()
    assert uniform < informed <= 0


@pytest.mark.parametrize(
    ("constants", "said"),
    [
        ({"drift": "none"}, "does not move"),
        ({"variation_budget": 0.0}, "does not move"),
        ({"drift": "jumps"}, "jumps by"),
        ({"drift": "rotation"}, "moves by"),
    ],
)
def test_the_diagnosis_tells_the_drift_in_words(constants, said):
    task = BanditTask.from_keywords(**{"horizon": 40, "replicas": 3, "arms": 4, **constants}).at(2)
    assert said in task.judge(FakeWorker(lambda t: [0] * 3)).diagnosis


def test_the_worker_gets_this_step_and_the_rewards_of_its_last_choices_and_no_more():
    instances = TASK.drawn()
    worker = FakeWorker(lambda t: [t % 4, 0, 1])
    TASK.judge(worker)
    assert worker.header == (3, 4, 3, 40, TASK.program_seed)
    assert worker.messages[0][:3].tolist() == [0.0, 0.0, 0.0]
    for t, message in enumerate(worker.messages):
        np.testing.assert_array_equal(message[3:], instances.contexts[t].ravel())
        if t:
            expected = [instances.rewards[t - 1, r, arm] for r, arm in enumerate([(t - 1) % 4, 0, 1])]
            assert message[:3].tolist() == expected


def test_normalized_score_is_1_under_full_information():
    instances = TASK.drawn()
    told = np.einsum("trkd,trd->trk", instances.contexts[1:], instances.theta[:-1]).argmax(-1)
    informed = np.concatenate([[[0, 0, 0]], told])
    scores = []
    for first in range(4):
        informed[0] = first
        scores.append(TASK.judge(FakeWorker(lambda t: informed[t].tolist())).metrics["normalized_score"])
    assert np.mean(scores) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("answer", [[4, 0, 0], [0, 0, 255]])
def test_an_arm_that_does_not_exist_ends_the_evaluation(answer):
    with pytest.raises(CandidateError, match=f"arm {max(answer)} of 4"):
        TASK.judge(FakeWorker(lambda t: answer))


def test_unbounded_regret_is_cut_off(monkeypatch):
    enormous = replace(TASK.drawn(), contexts=1e6 * TASK.drawn().contexts)
    monkeypatch.setattr(BanditTask, "drawn", lambda self: enormous)
    worst = enormous.means.argmin(axis=-1)
    assert replace(TASK, contexts="gaussian").judgement(worst).score == WORST_GAUSSIAN
