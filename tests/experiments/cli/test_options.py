"""The command line of a run: complete, one spelling, answers in a line and at once."""

import subprocess
import sys

import pytest
import yaml

from atlas_gym.experiments.cli.options import FLAGS, read_arguments
from atlas_gym.experiments.cli.run import main
from atlas_gym.trainers.loop.config import RunConfig, load_config
from atlas_gym.trainers.store.plain import SettingsError, keys_of


def test_help_lists_what_most_need_and_all_of_it_every_setting_with_what_its_field_says(capsys):
    keys = [f"--{key} " for key in keys_of(RunConfig)]
    for asked, fewest, most in (("--help", 15, 25), ("--help-all", 100, len(keys))):
        with pytest.raises(SystemExit):
            read_arguments([asked])
        said = capsys.readouterr().out
        assert fewest <= sum(f"\n  {key}" in said for key in keys) <= most
    assert [key for key in keys_of(RunConfig) if f"--{key} " not in said and ".endpoint." not in key] == []
    assert "--phase.beta 0.1\n      DPO's β" in said
    assert all(f"--{name}" in said for name in FLAGS)


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        (["--phase.beta", "0.2", "--seed", "3"], {"phase": {"beta": 0.2}, "seed": 3}),
        (["--phase.beta=1e-4"], {"phase": {"beta": 1e-4}}),
        (["--tracking", "off", "--observe", "true"], {"tracking": "off", "observe": True}),
        (["--env_args.replicas", "5"], {"env_args": {"replicas": 5}}),
        (["--set", "replicas=5", "kind=a b", "--set", "noise=0.5"],
         {"env_args": {"replicas": 5, "kind": "a b", "noise": 0.5}}),
        (["--held-out-seeds=2", "--phase.learning-rate", "1"], {"held_out_seeds": 2, "phase": {"learning_rate": 1}}),
        (["--env_args.day=2020-01-01"], {"env_args": {"day": "2020-01-01"}}),
        (["--env_args.text=[a"], {"env_args": {"text": "[a"}}),
        (["--instances", "[{env_args: {noise: 0.5}}]"], {"instances": [{"env_args": {"noise": 0.5}}]}),
        (["--agent.styles", "{edit_line: 1}"], {"agent": {"styles": {"edit_line": 1.0}}}),
        (  # nested parameters of a sweep, as W&B's agent writes them
            ["--phase={'beta': 2e-05, 'packed': False}", "--phase.epochs=2"],
            {"phase": {"beta": 2e-05, "packed": False, "epochs": 2}},
        ),
        ([], {}),
    ],
)  # fmt: skip
def test_only_what_is_said_is_set(words, settings):
    assert read_arguments(words)[1] == settings


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--phse.beta", "1"], "unknown setting --phse.beta; did you mean --phase.beta?"),
        (["--resumee"], "did you mean --resume?"),
        (["--zqxj"], "unknown setting --zqxj; atlas run --help-all lists all"),
        (["--beta", "1"], "did you mean --phase.beta?"),
        (["--policy.temperature", "1"], "did you mean --sampling.temperature or --agent.temperature?"),
        (["--set", "horizon"], "'horizon' is not NAME=VALUE"),
        (["phase.beta=1"], "phase.beta=1 stands alone; settings are written --phase.beta 0.2"),
        (["--phase.beta", "fast"], "phase.beta must be a valid number, not 'fast'"),
        (["--device", "tpu"], "device must be 'auto', 'cpu' or 'cuda', not 'tpu'"),
        (["--observe"], "--observe needs a value"),
        (["--phase={'betta': 1}"], "unknown setting phase.betta; did you mean phase.beta"),
        (["--phase={beta"], "phase must be a mapping"),
    ],
)
def test_a_mistake_is_answered_in_a_line_that_names_the_setting(words, says):
    with pytest.raises(SettingsError) as refused:
        load_config(None, read_arguments(words)[1])
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_without_a_configuration_it_is_the_main_job_unless_task_or_method_are_others(capsys):
    def printed(*words):
        assert main([*words, "--print-settings"]) == 0
        return capsys.readouterr().out

    assert (
        printed("--seed=3")
        == printed("--config=default", "--seed=3")
        != printed("--config=plain", "--seed=3")
    )
    for other in ("--method=search", "--env=ATLAS-TSP-v0"):
        assert printed(other) == printed("--config=plain", other)


def test_settings_that_are_printed_are_a_configuration(tmp_path, capsys):
    assert main(["--config", "paper", "--phase.beta", "0.3", "--print-settings"]) == 0
    printed = capsys.readouterr().out
    assert yaml.safe_load(printed)["phase"]["beta"] == 0.3
    (tmp_path / "mine.yaml").write_text(printed)
    assert main(["--config", str(tmp_path / "mine.yaml"), "--print-settings"]) == 0
    assert capsys.readouterr().out == printed


@pytest.mark.parametrize(
    "words", [["--help"], ["--phse.beta", "1"], ["--config", "default", "--print-settings"]]
)
def test_an_answer_waits_for_nothing_heavy(words):
    code = (
        f"import sys; from atlas_gym.experiments.run import main\n"
        f"try: main({words})\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'transformers', 'wandb', 'rich'}\n"
        "sys.exit(' '.join(heavy & sys.modules.keys()) or None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
