"""Evaluation on real Ray clusters of this machine: what is lost is done again, and nothing is left behind."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from atlas_gym.evaluation import (
    EvaluatorPool,
    Judgement,
    Limits,
    Status,
    hidden_stream,
)
from tests.atlas_gym.evaluation.processes import descendants, die_out
from tests.atlas_gym.evaluation.toy import HONEST, ToyTask, play_bare

needs_ray = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="needs the extra `ray`"),
    pytest.mark.timeout(300),
]
TASK = ToyTask(limits=Limits(wall_s=5.0, cpu_s=5.0))
ENDLESS = "while True: pass"
PROGRAMS = [f"def guess(hint, t): return {k / 10} * hint" for k in range(60)]


def test_without_ray_the_error_names_the_extra(monkeypatch):
    from atlas_gym.evaluation.ray import RayEvaluatorPool

    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ModuleNotFoundError, match=r"atlas-gym\[ray\]"):
        RayEvaluatorPool(1)


def make_pool(workers=2, **options):
    from atlas_gym.evaluation.ray import RayEvaluatorPool

    return RayEvaluatorPool(workers, **options)


def both_busy(pool):
    """Two programs that run until their time is up, begun on both actors."""
    task = replace(TASK, limits=Limits(wall_s=8.0, cpu_s=20.0))
    endless = [pool.submit(ENDLESS, task) for _ in range(2)]
    while not all(future.running() for future in endless):
        time.sleep(0.01)
    return endless


def actors(of=None):
    """Process ids of the actors below a process (default: this one)."""
    found = set()
    for pid in descendants(of):
        try:
            if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"ray::NodeEvaluator"):
                found.add(pid)
        except OSError:
            pass
    return found


@pytest.fixture(scope="class")
def shared_pool():
    with make_pool() as pool:
        yield pool


class TestLocal:
    """Two workers on this machine."""

    pytestmark = needs_ray

    def test_a_killed_worker_costs_no_result_and_doubles_none(self, shared_pool, caplog):
        endless = both_busy(shared_pool)
        futures = [shared_pool.submit(program, TASK) for program in PROGRAMS]
        settled = []
        for number, future in enumerate(futures):
            future.add_done_callback(lambda _, number=number: settled.append(number))
        victim = min(actors())
        os.kill(victim, signal.SIGKILL)
        scores = [future.result().score for future in futures]
        with EvaluatorPool(2) as local:
            assert scores == [evaluation.score for evaluation in local.map(PROGRAMS, TASK)]
        assert sorted(settled) == list(range(len(PROGRAMS)))
        assert {future.result().status for future in endless} == {Status.TIMEOUT}
        assert "was lost" in caplog.text
        assert len(actors() - {victim}) == 2

    def test_hidden_streams_are_the_drivers_and_the_secret_stays_off_workers(self, shared_pool):
        secretive = SecretiveTask(limits=TASK.limits)
        expected = hidden_stream("toy", 0).random()
        assert shared_pool.evaluate(HONEST, secretive).score == expected
        seen = shared_pool.evaluate("import os\nraise ValueError(sorted(os.environ))", TASK)
        assert "LANG" in seen.detail
        assert "SECRET" not in seen.detail
        assert "RAY" not in seen.detail


@dataclass(frozen=True)
class SecretiveTask(ToyTask):
    """Scores by a stream under the secret in force, whatever the program."""

    def judge(self, channel):
        super().judge(channel)
        return Judgement(hidden_stream("toy", self.seed).random())


class TestEnds:
    """However it ends, nothing is left."""

    pytestmark = needs_ray

    def test_nothing_survives_a_killed_driver_of_its_own_cluster(self):
        with driver("workers=2") as (process, below):
            ours = actors(process.pid).union(*map(descendants, actors(process.pid)))
            assert len(ours) >= 6  # two actors with fork server and worker
            process.kill()
            assert die_out(ours, patience_s=20)
            assert die_out(below, patience_s=120)  # Ray's own agents look for their node for a minute


SCRIPT = """
import sys, time
from atlas_gym.evaluation import Limits
from atlas_gym.evaluation.ray import RayEvaluatorPool
from tests.atlas_gym.evaluation.toy import HONEST, ToyTask
pool = RayEvaluatorPool({arguments})
assert all(e.ok for e in pool.map([HONEST] * 4, ToyTask()))
running = pool.submit("while True: pass", ToyTask(limits=Limits(wall_s=200, cpu_s=200)))
while not running.running():
    time.sleep(0.01)
print("ready", flush=True)
time.sleep(200)
"""


class driver:
    """A process that uses a pool, in the middle of an evaluation, with everything below it."""

    def __init__(self, arguments):
        code = textwrap.dedent(SCRIPT.format(arguments=arguments))
        self.process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)

    def __enter__(self):
        assert self.process.stdout.readline() == b"ready\n"
        return self.process, descendants(self.process.pid)

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class TestCluster:
    """Two nodes, each with one CPU, that outlive the drivers."""

    pytestmark = needs_ray

    @pytest.fixture
    def cluster(self, monkeypatch):
        import ray
        from ray.cluster_utils import Cluster

        monkeypatch.setenv(
            "RAY_worker_niceness", "0"
        )  # at Ray's own, work waits for all else on a busy machine
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
        yield cluster
        ray.shutdown()
        cluster.shutdown()

    def test_a_lost_node_costs_no_result(self, cluster, caplog):
        node = cluster.add_node(num_cpus=1)
        with make_pool(2, address=cluster.address) as pool:
            endless = both_busy(pool)
            futures = [pool.submit(program, TASK) for program in PROGRAMS]
            cluster.remove_node(node, allow_graceful=False)
            scores = [future.result().score for future in futures]
        assert scores == [play_bare(program, TASK) for program in PROGRAMS]
        assert {future.result().status for future in endless} == {Status.TIMEOUT}
        assert "was lost" in caplog.text

    def test_a_node_may_join_later(self, cluster):
        with make_pool(2, address=cluster.address) as pool:
            assert pool.evaluate(HONEST, TASK).ok
            endless = pool.submit(ENDLESS, replace(TASK, limits=Limits(wall_s=60.0, cpu_s=60.0)))
            while not endless.running():
                os.sched_yield()
            waiting = pool.submit(HONEST, TASK)
            cluster.add_node(num_cpus=1)
            assert waiting.result(timeout=120).ok
            assert not endless.done()
        assert die_out(actors())
