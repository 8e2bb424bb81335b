"""Hypothesis measures no time: a busy machine may pause anywhere, and pytest's own timeout guards against
hanging."""

from hypothesis import settings

settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")
