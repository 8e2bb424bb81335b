"""Threads that wait for a server, and what is made of its reply."""

import json
import threading
import time
from collections import Counter

import pytest

from atlas_gym.agents.engines.http import read_reply
from atlas_gym.agents.engines.threads import in_threads


def test_work_never_exceeds_its_hands_and_every_result_arrives_once():
    lock, running, most = threading.Lock(), [0], [0]

    def work():
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.005)
        with lock:
            running[0] -= 1
        return "x"

    found = list(in_threads([work] * 7, hands=3))
    assert Counter(found) == {(place, "x"): 1 for place in range(7)}
    assert 1 < most[0] <= 3


def test_an_exception_is_the_caller_s():
    def fail():
        raise KeyError("gone")

    with pytest.raises(KeyError, match="gone"):
        list(in_threads([fail], hands=2))
    assert list(in_threads([], hands=2)) == []


@pytest.mark.parametrize(
    ("said", "text"), [("a = 1\r\nb\r\n", "a = 1\nb\n"), ("a = 1\r", "a = 1"), ("a\rb", "a\ufffdb")]
)
def test_line_ends_of_other_systems_are_no_control_characters(said, text):
    body = json.dumps({"choices": [{"text": said}]}).encode()
    assert read_reply(body, "", lambda choice: choice["text"], prompt=0, most=9).text == text
