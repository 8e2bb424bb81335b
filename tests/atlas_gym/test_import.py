"""Other learners import this package alone: it has to be light. Each check has its own interpreter."""

import json
import subprocess
import sys

import atlas_gym

HEAVY = ("torch", "transformers", "trl", "peft", "matplotlib", "scipy", "wandb")


def modules_after(statement):
    report = f"{statement}; import json, sys; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_importing_registers_the_environments_and_loads_nothing_heavy():
    loaded = modules_after("import atlas_gym, gymnasium; assert 'ATLAS-Bandit-v0' in gymnasium.registry")
    assert not loaded & set(HEAVY)
    assert not any(name.startswith(("atlas_gym.tasks.bandit", "atlas_gym.tasks.burgers")) for name in loaded)


def test_what_is_public_is_listed():
    assert {"make_task", "ProgramTask"} <= {*dir(atlas_gym)} <= {*atlas_gym.__all__}


def test_using_the_bandit_loads_no_torch():
    program = "def policy(context, history, t):\\n    return 0\\n"
    statement = (
        "import atlas_gym, gymnasium; env = gymnasium.make('ATLAS-Bandit-v0', horizon=20); "
        f"env.reset(seed=0); assert env.step('{program}')[4]['status'] == 'ok'; env.close()"
    )
    assert not modules_after(statement) & {"torch", "transformers", "matplotlib"}
