"""Threads that work off jobs."""

import threading
import time
from collections import Counter

from agents.engines.crew import Job, run_jobs


def test_jobs_never_exceed_their_hands_and_follow_each_other():
    lock, running, most, done = threading.Lock(), [0], [0], []

    def work():
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.005)
        with lock:
            running[0] -= 1
        return "x"

    def then(result, depth):
        done.append(depth)
        return [Job(work, lambda r: then(r, depth - 1))] if depth else []

    run_jobs([Job(work, lambda r: then(r, 2)) for _ in range(5)], hands=3)
    assert Counter(done) == {2: 5, 1: 5, 0: 5}
    assert most[0] <= 3
