"""What a task's author has done wrong is told in a line."""

import signal
import threading
import time

import pytest

from atlas_gym.mistake import authors_line, computing_at_most, in_a_line


def raised(call):
    with pytest.raises(BaseException) as found:
        call()
    return found.value


def test_the_line_is_the_last_that_is_no_librarys():
    def mistaken():
        import json

        return json.loads("{")

    text = in_a_line(raised(mistaken))
    assert text.startswith("JSONDecodeError in test_mistake.py, line ")
    assert ', return json.loads("{"): Expecting' in text


def test_an_error_of_librarys_alone_has_no_line():
    error = ValueError("odd")
    assert authors_line(error) is None
    assert in_a_line(error) == "ValueError: odd"


def forever():
    while True:
        pass


def test_what_computes_for_ever_is_ended_where_it_is():
    def endless():
        with computing_at_most(0.2):
            forever()

    before = signal.getsignal(signal.SIGPROF)
    error = raised(endless)
    assert isinstance(error, TimeoutError)
    assert "in test_mistake.py" in in_a_line(error)
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
