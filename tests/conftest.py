"""What all tests share.

Hypothesis measures no time: a busy machine may pause anywhere, and pytest's own timeout guards against hanging.
"""

from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")


@pytest.fixture(scope="session")
def embedded_weights() -> Path:
    """Folder of the embedded model's real weights; skips where nobody has fetched them."""
    model = pytest.importorskip(
        "agents.models.loading", reason="needs the extra `learn`", exc_type=ImportError
    )
    try:
        return model.resolve_model("embedded")
    except model.ModelMissing as missing:
        pytest.skip(str(missing))
