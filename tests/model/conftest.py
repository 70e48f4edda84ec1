"""Hypothesis without a deadline: a busy machine is no failure."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("tidewire", deadline=None)
settings.load_profile("tidewire")
