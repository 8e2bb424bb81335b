"""ATLAS-Bandit-v0 for Gymnasium: documentation and construction; the behaviour is in the shared bases."""

from atlas_gym.envs.program_env import ProgramEnv
from atlas_gym.envs.vector_env import ProgramVectorEnv
from atlas_gym.tasks.bandit.problem import BanditProblem


class BanditEnv(ProgramEnv):
    """
    ## Description
    A program plays a linear contextual bandit whose hidden parameter drifts. In each of T steps it sees K
    context vectors x and chooses one; the reward is ⟨θ_t, x⟩ plus Gaussian noise, and the unit vector θ_t
    moves by V/T per step (Eq. 17 of the ATLAS paper). The environment runs the program in a confined process
    and scores its regret.

    >>> import gymnasium as gym
    >>> import atlas_gym
    >>> env = gym.make("ATLAS-Bandit-v0")
    >>> observation, info = env.reset(seed=0)
    >>> program = "def policy(context, history, t):\\n    return 0\\n"
    >>> observation, reward, terminated, truncated, info = env.step(program)
    >>> info["status"], terminated
    ('ok', True)
    >>> -0.6 < reward == info["score"] < -0.4
    True
    >>> env.step("def policy(context, history, t):\\n    return 7\\n") # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    gymnasium.error.ResetNeeded: ...
    >>> env.close()

    ## Action Space
    `Source(65536)`: the text of a Python module that defines `policy(context, history, t)`.

    | Argument  | Content                                                                             |
    |-----------|-------------------------------------------------------------------------------------|
    | `context` | float64 array (K, d): the context vectors of this step                              |
    | `history` | the past: (x, arm, reward) per step; arrays `.contexts` (n, d), `.arms`, `.rewards` |
    | `t`       | the step, from 0; equal to `len(history)`                                           |
    | returns   | the arm, an integer in 0 … K − 1                                                    |

    ## Observation Space
    `Source`: the task in words, the limits, the best program so far (or one to start from) and, after a
    step, the feedback on the last program: where it lost regret, or the error it raised.

    ## Rewards
    The score: minus the mean expected regret per step, averaged over the replicas; at most 0. A program that
    fails gets the worst score, −3 (−11 with Gaussian contexts), below any that a program can reach.

    `info` has the same keys at every reset and step: `status` (ok, invalid, error, timeout, memory,
    violation, crashed, screened), `score` (None unless ok), `normalized_score` (0 is uniformly random play, 1 full
    information: being told θ_{t−1} in every step), `metrics`, `feedback`, `incumbent`, `incumbent_score`,
    `task_seed` and `turn`.

    ## Starting State
    `reset(seed=s)` poses the task of seed `s`: contexts, θ and noise of every replica. The same seed gives
    the same task on one machine; on another only with the same `ATLAS_GYM_SECRET`, so that programs cannot
    recompute the hidden state from the seed. A reset without seed poses the next task of the stream.

    ## Episode End
    After `turns` programs, by default one, the episode is terminated. It is never truncated.

    ## Arguments

    | Keyword             | Default         | Meaning                                                        |
    |---------------------|-----------------|----------------------------------------------------------------|
    | `preset`            | `"default"`     | `default`, `paper`, `noisy`, `rotation`, `jumps`, `stationary` |
    | `arms`, `dimension` | 5, 5            | K and d                                                        |
    | `horizon`           | 2000            | T                                                              |
    | `noise`             | 0.2             | σ, standard deviation of the reward's noise                    |
    | `variation_budget`  | 400.0           | V, length of θ's path                                          |
    | `drift`             | `"random_walk"` | or `rotation`, `jumps`, `none`                                 |
    | `jump_length`       | 1.0             | length of a jump, for drift `jumps`                            |
    | `contexts`          | `"unit"`        | or `gaussian`: not normalised                                  |
    | `replicas`          | 5               | independent bandits per evaluation                             |
    | `limits`            | `Limits()`      | wall-clock and CPU time, memory, source and error length       |
    | `turns`             | 1               | programs per episode                                           |
    | `split`             | `"train"`       | or `held_out`, for confirmation: other tasks than in training  |
    | `start`             | `"named"`       | program shown first; or `inlined`, `scratch`                   |
    | `task_seed`         | None            | pose this task in every episode                                |
    | `confinement`       | `"default"`     | or `unconfined`, or the layers that must be achieved           |
    | `render_mode`       | None            | `ansi`, `rgb_array`                                            |

    `reset(options={"incumbent": program})` evaluates a program and shows it as the best so far.

    ## Version History
    * v0: initial version
    """

    problem_type = BanditProblem


class BanditVectorEnv(ProgramVectorEnv):
    """ATLAS-Bandit-v0 for a batch of programs on a pool; keywords of `BanditEnv` and `ProgramVectorEnv`."""

    problem_type = BanditProblem
