"""The pool that a run's configuration asks for."""

from atlas_gym.evaluation import EvaluatorPool, Pool
from trainers.loop.config import RunConfig
from trainers.store.plain import SettingsError


def make_pool(config: RunConfig) -> Pool:
    """Evaluators for a run, on this machine or on a Ray cluster.

    Raises:
        SettingsError: Ray is asked for and not installed, or there is no cluster at the address.
    """
    if config.evaluator == "pool":
        return EvaluatorPool(workers=config.workers)
    from atlas_gym.evaluation.ray import RayEvaluatorPool

    try:
        return RayEvaluatorPool(workers=config.workers, address=config.ray_address)
    except (ModuleNotFoundError, ConnectionError) as error:
        raise SettingsError(f"evaluator: ray cannot be had: {error}") from error
