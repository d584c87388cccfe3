"""Fixtures for tests of training."""

from typing import Any

import pytest

from hindsight.algorithms import ppo_compiled
from hindsight.envs.rollout import Rollout


@pytest.fixture
def rollouts(monkeypatch: pytest.MonkeyPatch) -> list[Rollout]:
    """Every rollout that is collected."""
    log: list[Rollout] = []
    collect = ppo_compiled.collect

    def noting(*arguments: Any) -> Rollout:
        log.append(collect(*arguments))
        return log[-1]

    monkeypatch.setattr(ppo_compiled, "collect", noting)
    return log
