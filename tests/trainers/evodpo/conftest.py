"""The tiny model that phases are tried on."""

import pytest

from tests.tiny_model import save_tiny_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_tiny_model(tmp_path_factory.mktemp("tiny"))
