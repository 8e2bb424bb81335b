"""Who is woken by work that arrives."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from atlas_gym.evaluation.work_queue import Work, WorkQueue
from tests.atlas_gym.evaluation.toy import ToyTask


class Watched(threading.Condition):
    """Tells, its lock still held, that somebody begins to wait: whoever takes the lock next finds them waiting."""

    def __init__(self):
        super().__init__()
        self.waiting = threading.Semaphore(0)

    def wait(self, timeout=None):
        self.waiting.release()
        return super().wait(timeout)


@pytest.mark.parametrize("put", [WorkQueue.put, WorkQueue.put_back])
def test_a_supervisor_that_pauses_keeps_no_work_from_an_idle_one(put):
    work_queue, work = WorkQueue(2), Work("a", ToyTask(), Future())
    work_queue._changed = changed = Watched()
    with ThreadPoolExecutor() as pool:
        pool.submit(work_queue.pause, 60)
        assert changed.waiting.acquire(timeout=20)
        taken = pool.submit(work_queue.take)
        assert changed.waiting.acquire(timeout=20)
        put(work_queue, work)
        try:
            assert taken.result(timeout=20) is work
        finally:
            work_queue.close()
