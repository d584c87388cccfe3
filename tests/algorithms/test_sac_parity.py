"""SAC's temperature: its first value is that of Stable-Baselines3, and it has one name."""

import math

import pytest
import torch

from hindsight.algorithms import sac
from hindsight.specs.algorithms.sac import SACSpec
from hindsight.specs.cell import CellSpec
from hindsight.specs.errors import SpecError, validated
from tests.algorithms import twins
from tests.algorithms.twins import HIDDEN, N_ACTIONS, N_OBS

stable_baselines3 = pytest.importorskip("stable_baselines3")

AGENT = sac.Agent.of(N_OBS, N_ACTIONS, HIDDEN)


@pytest.mark.parametrize("ent_coef", ["auto", "auto_0.1", "auto_1e-3", 0.05])
def test_the_first_temperature_is_that_of_stable_baselines3(ent_coef):
    spec = SACSpec(hidden=HIDDEN, ent_coef=ent_coef)
    model = twins.build(stable_baselines3.SAC, spec, 1e-3, ent_coef=ent_coef)
    theirs = twins.of_sac(model)[-len(twins.linear(model.critic_target)) - 1]
    state = sac.State(AGENT, AGENT.initial_row(0, *spec.initialisation)[None], torch.ones(1))
    assert float(state.log_alpha) == pytest.approx(float(theirs.detach()), abs=1e-6)
    assert spec.learns_temperature == (model.ent_coef_optimizer is not None)


@pytest.mark.parametrize("wrong", [0, -1.0, "auto_0", "auto_x", "auto_", "often", math.inf, True])
def test_invalid_temperatures_are_reported(wrong):
    with pytest.raises(SpecError, match="ent_coef"):
        validated(SACSpec, {"ent_coef": wrong})


def test_a_temperature_has_one_name():
    """Cells are named by their specification: the default changes none, spelling makes no other."""
    names = {CellSpec(algorithm={"name": "sac", "ent_coef": e}).name for e in ("auto", "auto_1.0")}
    assert names == {CellSpec(algorithm={"name": "sac"}).name}
    others = ["auto_0.1", "auto_0.10", 0.1]
    specs = [CellSpec(algorithm={"name": "sac", "ent_coef": e}) for e in others]
    assert specs[0].hash == specs[1].hash != specs[2].hash
    assert "sac-alpha-auto-0.1-" in specs[0].name and "sac-alpha-0.1-" in specs[2].name
