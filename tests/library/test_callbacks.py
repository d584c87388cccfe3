"""Optional outputs of `hindsight train`: best and intermediate policies, TensorBoard."""

import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pandas as pd
import pytest
import torch

import hindsight
from hindsight import DQN, PPO
from hindsight.io.checkpoints import load, save
from hindsight.io.checksums import about
from hindsight.library.callbacks import KeepBest, KeepOnTheWay
from hindsight.specs.cell import CellSpec
from hindsight.specs.code import file_name
from hindsight.specs.errors import SpecError
from hindsight.training.cell import train_cell
from hindsight.training.evaluate import evaluate_policy
from tests.training import small

SPEC = CellSpec.model_validate(
    {
        **small.SPEC.model_dump(),
        "environment": {"n_dims": 2, "prey": "attract"},
        "first_seed": 2,
        "steps": 64 * 8,
        "early_end": None,
        "evaluation": {"points": 8, "episodes": 20},
    }
)


def best_of(spec: CellSpec, root: Path) -> Path:
    return root / "best" / f"{file_name(spec)}.safetensors"


def kept(spec: CellSpec, root: Path, **how: Any) -> dict[str, Any]:
    """What the file of the best policies holds after a training."""
    best = KeepBest(best_of(spec, root), spec)
    path = train_cell(spec, root, small.EAGER, callbacks=[best], **how)
    best.add_reused(about(path).get("reused"))
    return load(best.path)


def test_the_best_policy_is_that_of_the_best_evaluation(tmp_path):
    saved, best = kept(SPEC, tmp_path), best_of(SPEC, tmp_path)
    (path,) = (tmp_path / "cells").rglob("*.parquet")
    assert saved["seeds"] == [2, 3, 4]
    for seed, rows in pd.read_parquet(path).query("phase == 'evaluation'").groupby("seed"):
        own = rows.sort_values(["success_rate", "return_mean", "env_steps"]).iloc[-1]
        at = saved["seeds"].index(seed)
        assert saved["steps"][at] == own.env_steps
        assert saved["scores"][at] == pytest.approx([own.success_rate, own.return_mean])
    # It is a policy file like any other; where later evaluations were worse, not the last policy.
    assert evaluate_policy(best, n_episodes=5, run=2).returns.shape == (5,)
    last = load(tmp_path / "policies" / f"{file_name(SPEC)}.safetensors")
    early = [i for i, steps in enumerate(saved["steps"]) if steps < SPEC.steps]
    assert early, "in these settings some run is best before its end"
    assert not any(torch.equal(saved["rows"][i], last["rows"][i]) for i in early)


def test_the_best_do_not_depend_on_what_was_there_before(tmp_path):
    """Here a file of another cell, a damaged one, a run that is reused, and an interruption."""
    once = SPEC.evaluation.model_copy(update={"episodes": 1})  # so that a run seems to be perfect
    other = SPEC.model_copy(update={"evaluation": once, "hindsight": None})
    assert (1.0, 1.0) in map(tuple, kept(other, tmp_path)["scores"])
    best_of(other, tmp_path).rename(best_of(SPEC, tmp_path))
    first = SPEC.model_copy(update={"seeds": 1})
    best_of(first, tmp_path).write_bytes(b"no policy")
    kept(first, tmp_path)

    def interrupt(progress):
        if progress.steps > 0.7 * progress.of:
            raise small.Interruption

    with pytest.raises(small.Interruption):
        kept(SPEC, tmp_path, tell=interrupt)
    kept(first, tmp_path / "reused")
    found = kept(SPEC, tmp_path)
    assert min(found["steps"]) <= 0.75 * SPEC.steps, "some run is best before the interruption"
    rows = found.pop("rows")
    for name, atol in (("reused", 0), ("undisturbed", 1e-7)):  # fewer runs may round differently
        other = kept(SPEC, tmp_path / name)
        torch.testing.assert_close(other.pop("rows"), rows, rtol=0, atol=atol)
        assert other == found


def test_the_best_of_another_cell_are_not_taken_over(tmp_path):
    """Though their file has the name of the cell whose runs are reused."""
    first = SPEC.model_copy(update={"seeds": 2})
    other = first.model_copy(update={"hindsight": None})
    kept(first, tmp_path)
    kept(other, tmp_path)
    best_of(other, tmp_path).replace(best_of(first, tmp_path))
    assert kept(SPEC, tmp_path)["seeds"] == [4]


def test_the_best_of_a_training_with_other_packages_are_forgotten(tmp_path):
    best = best_of(SPEC, tmp_path)
    saved = kept(SPEC, tmp_path)
    assert KeepBest(best, SPEC).runs.keys() == set(saved["seeds"])
    save(best, saved | {"versions": saved["versions"] | {"torch": "2.0.0"}})
    assert not KeepBest(best, SPEC).runs
    # No evaluation of today's has replaced them.
    KeepBest(best, SPEC).add_reused({"cell": SPEC.name, "seeds": [2]})
    assert load(best)["seeds"] == saved["seeds"]


def test_intermediate_policies_are_those_of_their_step(tmp_path):
    train_cell(SPEC, tmp_path, callbacks=[KeepOnTheWay(tmp_path / "way", SPEC, 200)])
    steps = {int(path.stem) for path in (tmp_path / "way").glob("*.safetensors")}
    assert steps == {256, 448}  # the first iterations to pass 200 and 400
    saved = load(tmp_path / "way/256.safetensors")
    assert saved["seeds"] == [2, 3, 4] and saved["steps"] == [256] * 3
    # The same as if training had ended there.
    short = SPEC.model_copy(update={"steps": 256})
    train_cell(short, tmp_path)
    rows = load(tmp_path / "policies" / f"{file_name(short)}.safetensors")["rows"]
    torch.testing.assert_close(saved["rows"], rows, rtol=0, atol=1e-6)


def test_intermediate_policies_are_written_before_the_first_episode_ends(tmp_path):
    values = SPEC.model_dump() | {"environment": {"max_steps": 1000}}
    spec = CellSpec.model_validate(values)
    train_cell(spec, tmp_path, callbacks=[KeepOnTheWay(tmp_path / "way", spec, 64)])
    first = tmp_path / "way/64.safetensors"
    assert load(first)["seeds"] == [2, 3, 4]
    assert evaluate_policy(first, n_episodes=1).length_mean > 0
    assert hindsight.load(first).parameters(3).isfinite().all()


def test_tensorboard_has_the_curves_under_the_names_of_stable_baselines3(tmp_path, monkeypatch):
    made: list[Mock] = []

    def writer(folder: str, purge_step: int) -> Mock:
        assert Path(folder) == tmp_path / model.spec.name / f"run_{len(made)}"
        assert purge_step == 64
        made.append(Mock())
        return made[-1]

    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", Mock(SummaryWriter=writer))
    settings: Any = {"n_steps": 64, "evaluate_every": 64, "evaluation_episodes": 5, "hidden": (8,)}
    model = PPO("PredatorPrey-v0", prey="attract", seeds=3, **settings)
    rows = model.learn(512, tensorboard=tmp_path).curves()
    scalars: list[dict[str, dict[int, float]]] = []
    for one in made:
        one.close.assert_called_once_with()
        scalars.append({})
        for tag, value, step in (call.args for call in one.add_scalar.call_args_list):
            scalars[-1].setdefault(tag, {})[step] = value
    names = {
        "train": {"return_mean": "rollout/ep_rew_mean", "episode_length": "rollout/ep_len_mean",
                  "approx_kl": "train/approx_kl", "value_loss": "train/value_loss",
                  "clip_fraction": "train/clip_fraction",
                  "policy_loss": "train/policy_gradient_loss", "episodes": "time/episodes"},
        "evaluation": {"return_mean": "eval/mean_reward", "success_rate": "eval/success_rate",
                       "episode_length": "eval/mean_ep_length"},
    }  # fmt: skip
    for (seed, phase), own in rows.groupby(["seed", "phase"]):
        for column, tag in names[str(phase)].items():
            told = own.set_index("env_steps")[column].dropna().to_dict()
            assert scalars[int(seed)][tag] == pytest.approx(told, rel=1e-6), tag
    entropy = rows[(rows.seed == 1) & (rows.phase == "train")].set_index("env_steps").policy_entropy
    assert scalars[1]["train/entropy_loss"] == pytest.approx((-entropy).to_dict())
    assert scalars[0]["time/total_timesteps"] == {s: s for s in range(64, 513, 64)}
    assert all(value > 0 for value in scalars[0]["time/fps"].values())


def test_without_the_package_nothing_is_trained(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    model = DQN("BitFlipping-v0", env_kwargs={"n_bits": 4}, seeds=1, hidden=(8,))
    with pytest.raises(SpecError, match="pip install tensorboard"):
        model.learn(1000, tensorboard=tmp_path)
    assert model.num_timesteps == 0
    assert not list(tmp_path.iterdir())
