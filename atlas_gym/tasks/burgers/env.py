"""ATLAS-Burgers-v0 for Gymnasium: documentation and construction; the behaviour is in the shared bases."""

from atlas_gym.envs.program_env import ProgramEnv
from atlas_gym.envs.vector_env import ProgramVectorEnv
from atlas_gym.tasks.burgers.problem import BurgersProblem


class BurgersEnv(ProgramEnv):
    """
    ## Description
    A program computes the training loss of a physics-informed neural network (PINN) for the viscous Burgers
    equation u_t + u u_x = ν(t) u_xx on [−1, 1] × [0, 1], with u(x, 0) = −sin πx and u(±1, t) = 0 (Eq. 18 of
    the ATLAS paper). The viscosity falls from ν₀ to ν₁, so that the smooth initial wave sharpens into a
    shock. The environment trains fresh networks with the program's loss, the program itself in a confined
    process, and scores the solution.

    >>> import gymnasium as gym
    >>> import atlas_gym
    >>> env = gym.make("ATLAS-Burgers-v0", steps=20, replicas=1)
    >>> observation, info = env.reset(seed=0)
    >>> program = '''
    ... def pinn_loss_strategy(residuals, ic_err, bc_err, extras):
    ...     return torch.mean(residuals**2) + torch.mean(ic_err**2) + torch.mean(bc_err**2)
    ... '''
    >>> observation, reward, terminated, truncated, info = env.step(program)
    >>> info["status"], terminated
    ('ok', True)
    >>> reward == info["score"] == -info["metrics"]["relative_l2"]
    True
    >>> env.close()

    ## Action Space
    `Source(65536)`: the text of a Python module that defines
    `pinn_loss_strategy(residuals, ic_err, bc_err, extras)`.

    | Argument    | Content                                                                                        |
    |-------------|------------------------------------------------------------------------------------------------|
    | `residuals` | float64 tensor (n_residual,): u_t + u u_x − ν u_xx at the collocation points                   |
    | `ic_err`    | float64 tensor (n_initial,): u(x, 0) + sin πx                                                  |
    | `bc_err`    | float64 tensor (n_boundary,): u(±1, t)                                                         |
    | `extras`    | dict: `epoch`, `n_epochs`, and at the collocation points, detached, `x`, `t`, `nu`, `u`, `u_x` |
    | returns     | scalar tensor, the loss                                                                        |

    The function is called once per epoch and replica, and at the end once more, with the last epoch's number, at
    held-out points. Module-level variables keep their values within a training, so that running averages and
    attention weights work; each replica runs the program in a namespace of its own. The default type of new
    tensors is float64.

    ## Observation Space
    `Source`: the task in words, the limits, the best program so far (or one to start from) and, after a step,
    the feedback on the last program: which error stayed large and where the solution is wrong, or what the
    program raised.

    ## Rewards
    The score: minus the relative L2 error of u against a reference solution on a 101 × 201 grid, averaged
    over the replicas and cut off at −10. A program that fails, or whose loss or gradient is not finite at
    some epoch, gets the worst score, −11. `metric="residual"` scores the mean squares of the three errors at
    held-out points, and `metric="nvl"` the paper's own measure, the program's own loss at held-out points.
    The last one **can be gamed**, e.g. by `0 * residuals.mean()`: it is there to reproduce the paper, not to
    trust.

    `info` has the same keys at every reset and step: `status` (ok, invalid, error, timeout, memory,
    violation, crashed, screened), `score` (None unless ok), `normalized_score` (1 − relative L2 error: 0 is u = 0, 1
    the exact solution), `metrics` (all three metrics, the three mean squares, the best and the worst
    replica's relative L2 error), `feedback`, `incumbent`, `incumbent_score`, `task_seed` and `turn`.

    ## Starting State
    `reset(seed=s)` poses the task of seed `s`: every replica's initial network, collocation and held-out
    points. The same seed gives the same task on one machine; on another only with the same
    `ATLAS_GYM_SECRET`.

    ## Episode End
    After `turns` programs, by default one, the episode is terminated. It is never truncated.

    ## Arguments

    | Keyword                         | Default                | Meaning                                              |
    |---------------------------------|------------------------|------------------------------------------------------|
    | `preset`                        | `"default"`            | or `paper` (`metric="nvl"`), `constant`, `linear`    |
    | `schedule`                      | `"geometric"`          | ν(t) = ν₀ (ν₁/ν₀)^t; or `linear`, `constant` (ν₁)    |
    | `nu0`, `nu1`                    | 0.1, 0.01/π            | viscosity at t = 0 and t = 1                         |
    | `n_residual`                    | 1000                   | collocation points                                   |
    | `n_initial`, `n_boundary`       | 100, 100               | initial and boundary points                          |
    | `hidden_width`, `hidden_layers` | 32, 4                  | the network                                          |
    | `steps`, `learning_rate`        | 500, 1e-3              | Adam                                                 |
    | `replicas`                      | 3                      | trainings per evaluation                             |
    | `metric`                        | `"relative_l2"`        | or `residual`, `nvl`                                 |
    | `backend`                       | `"auto"`               | `compiled` kernel, `torch`, or whichever can be had  |
    | `device`                        | `"cpu"`                | where torch trains all replicas at once, e.g. `cuda` |
    | `limits`                        | `Limits(60, 30, 1024)` | seconds of wall clock and CPU, MB of memory, …       |
    | `turns`                         | 1                      | programs per episode                                 |
    | `split`                         | `"train"`              | or `held_out`: tasks for confirmation                |
    | `start`                         | `"named"`              | program shown first; or `inlined`, `scratch`         |
    | `task_seed`                     | None                   | pose this task in every episode                      |
    | `confinement`                   | `"default"`            | or `unconfined`, or the layers that must be achieved |
    | `render_mode`                   | None                   | `ansi`, `rgb_array`                                  |

    `reset(options={"incumbent": program})` evaluates a program and shows it as the best so far.

    ## Version History
    * v0: initial version
    """

    problem_type = BurgersProblem


class BurgersVectorEnv(ProgramVectorEnv):
    """ATLAS-Burgers-v0 for a batch of programs; keywords as `BurgersEnv` and `ProgramVectorEnv`."""

    problem_type = BurgersProblem
