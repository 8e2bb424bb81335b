"""A model folder may bring code of its own, which must not run."""

import json
import sys

import pytest

from atlas_gym.agents.engines.open_engine import tokenizer_of
from atlas_gym.agents.engines.settings import EngineSettings, VLLMSettings
from atlas_gym.agents.models.loading import load_model
from atlas_gym.agents.models.policy import Policy
from tests.tiny_model import save_tiny_model

CODE = "import pathlib\npathlib.Path({mark!r}).touch()\nfrom transformers import LlamaConfig as Own\n"


@pytest.fixture
def hostile(tmp_path, monkeypatch):
    """A model whose configuration and tokenizer are classes in a file beside them; whoever is asked says yes."""
    folder = save_tiny_model(tmp_path / "model")
    (folder / "own.py").write_text(CODE.format(mark=str(tmp_path / "ran")))
    for name, classes in (
        ("config.json", {"AutoConfig": "own.Own", "AutoModelForCausalLM": "own.Own"}),
        ("tokenizer_config.json", {"AutoTokenizer": ["own.Own", None]}),
    ):
        values = json.loads((folder / name).read_text())
        values |= {"auto_map": classes, "model_type": "own", "tokenizer_class": "Own"}
        (folder / name).write_text(json.dumps(values))
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    monkeypatch.setattr(sys.stdin, "readline", lambda *_: "y\n", raising=False)
    yield folder
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "load",
    [load_model, Policy.load, lambda folder: tokenizer_of(EngineSettings(), str(folder))],
    ids=range(3),
)
def test_no_code_of_a_model_folder_runs(hostile, load):
    with pytest.raises(Exception, match=r"trust_remote_code|own"):
        load(hostile)


@pytest.mark.parametrize("trust", [True, False])
def test_vllm_cannot_be_told_to_run_it(trust):
    with pytest.raises(ValueError, match=r"vllm\.extra must not hold trust_remote_code"):
        VLLMSettings(extra={"trust_remote_code": trust})
