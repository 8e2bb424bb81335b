"""Who is woken by work that arrives."""

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from atlas_gym.evaluation.work_queue import Work, WorkQueue
from tests.atlas_gym.evaluation.toy import ToyTask


@pytest.mark.parametrize("put", [WorkQueue.put, WorkQueue.put_back])
def test_a_supervisor_that_pauses_keeps_no_work_from_an_idle_one(put):
    work_queue, work = WorkQueue(2), Work("a", ToyTask(), Future())
    pausing = threading.Thread(target=work_queue.pause, args=(60,))
    with ThreadPoolExecutor() as pool:
        pausing.start()
        time.sleep(0.1)  # it waits before the other does
        taken = pool.submit(work_queue.take)
        time.sleep(0.1)
        put(work_queue, work)
        try:
            assert taken.result(timeout=20) is work
        finally:
            work_queue.close()
            pausing.join()
