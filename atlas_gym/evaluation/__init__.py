"""Evaluation of programs whose authors have every reason to cheat.

    with EvaluatorPool(workers=2) as pool:                  # or ConfinedEvaluator(), in this process;
                                                            # on a cluster: ray_pool.RayEvaluatorPool
        evaluation = pool.evaluate(program, task)           # never raises because of the program;
                                                            # InfrastructureError if the machine fails
        evaluation.status, evaluation.score, evaluation.detail

## How it is built

    trusted process                 fork server                      worker
    hidden state, clock, score      imports once, kills overdue      one program, then gone
        task.judge(channel)  <---------------- bytes ---------------->  driver.serve(load, pipe)

A task's `judge` and its driver's `serve` are the two halves of one conversation of fixed-size messages. The
hidden state (parameters, noise, networks, test sets) exists in the trusted process only. The fork server is a
fresh interpreter with an environment made from nothing; it never sees a program, a seed or a secret, so the
workers forked from it hold none either. Nothing that a worker says is unpickled.

## Threat model

The adversary is the program: any text, written by somebody or something that knows this package's source and
the task's seed. It may do whatever Python and C code can do in its worker, and replace everything there.

It must not be able to

- get a score other than by its answers: read hidden state, redraw it from the seed (`hidden_streams`), patch what
  computes the score, forge messages. The worker computes no score; a forged answer is just an answer, one too
  many is a violation, and every claim of failure costs the score.
- harm the machine: files, network, other processes, memory, time. See `confinement` for the layers, `seccomp`
  for the calls that remain. When a fork server starts, `probe` lets a worker try to break each layer; what
  held is reported in `Evaluation.layers`, and less than the required minimum raises `ConfinementError`.
- outlast its evaluation or change a later one: every program gets a worker of its own, which ends with it, by
  the watchdog if need be; nobody a worker could start survives, as it can start nobody.
- hurt the reader: error texts are bounded and printable.

Taken for granted: the kernel enforces what it accepts; the installed packages are honest; other programs of
the same user do not help the adversary.

Not prevented: reading the interpreter, the installed packages and the system's libraries; learning that a
file exists (Landlock does not hide names and sizes); measuring time and guessing from it what shares the
processor; using the granted time and memory in full; text in an error message that is meant to persuade a
language model (it is as long as `Limits.error_chars` at most).

What weakens it, and has to be asked for by name: a minimum without `landlock` lets programs read what the
user may read, the secret of the streams and, for ordinary users, the trusted process's memory included;
`UnconfinedEvaluator` keeps only the separate process and the resource limits; the secret "public" makes
hidden states guessable. On other systems than Linux only the unconfined evaluator exists.
"""

from atlas_gym.evaluation.channel import CandidateError, Channel, ChannelClosed
from atlas_gym.evaluation.evaluator import ConfinedEvaluator, Evaluator, UnconfinedEvaluator, make_evaluator
from atlas_gym.evaluation.handles import ConfinementError, EvaluatorError, InfrastructureError
from atlas_gym.evaluation.hidden_streams import hidden_stream
from atlas_gym.evaluation.pool import EvaluatorPool, Pool, PoolStatistics
from atlas_gym.evaluation.protocols import Task
from atlas_gym.evaluation.result import Evaluation, Judgement, Limits, Status

__all__ = [
    "CandidateError",
    "Channel",
    "ChannelClosed",
    "ConfinedEvaluator",
    "ConfinementError",
    "Evaluation",
    "Evaluator",
    "EvaluatorError",
    "EvaluatorPool",
    "InfrastructureError",
    "Judgement",
    "Limits",
    "Pool",
    "PoolStatistics",
    "Status",
    "Task",
    "UnconfinedEvaluator",
    "hidden_stream",
    "make_evaluator",
]
