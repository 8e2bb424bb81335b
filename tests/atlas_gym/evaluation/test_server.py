"""Code of a task's author that never ends does not keep an evaluator for ever."""

import signal
import subprocess
import sys

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


def test_what_others_compute_does_not_count_nor_does_waiting_for_them():
    compute = "import time\nwhile time.process_time() < 1.0: pass"
    with computing_at_most(0.5):
        subprocess.run([sys.executable, "-c", compute], check=True)
