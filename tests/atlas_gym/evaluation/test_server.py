"""Code of a task's author that never ends does not keep an evaluator for ever."""

import signal
import threading
import time

import pytest

from atlas_gym.evaluation.server import computing_at_most
from atlas_gym.mistake import in_a_line


def forever():
    while True:
        pass


def test_what_computes_for_ever_is_ended_where_it_is():
    def endless():
        with computing_at_most(0.2):
            forever()

    before = signal.getsignal(signal.SIGPROF)
    with pytest.raises(TimeoutError, match=r"own code has computed for 0\.2 s") as raised:
        endless()
    assert "in test_server.py" in in_a_line(raised.value)
    assert (signal.getsignal(signal.SIGPROF), signal.getitimer(signal.ITIMER_PROF)) == (before, (0.0, 0.0))


def test_waiting_is_no_computing():
    with computing_at_most(0.2):
        time.sleep(0.4)


def test_other_threads_are_left_alone():
    done = []

    def work():
        with computing_at_most(1e-6):
            done.append(sum(range(100_000)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done
