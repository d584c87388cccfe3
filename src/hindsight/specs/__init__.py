"""Specifications of runs, cells and experiments; the only package that reads configuration."""

from collections.abc import Callable
from typing import Any

#: Imports what tries other people's environments, `envs.gymnasium.facts`; `hindsight` sets it,
#: since this package imports nothing from above it.
trials: Callable[[], Any]
