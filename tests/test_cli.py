"""The commands that a user types, without Snakemake."""

import os
import re
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest
import typer
import yaml

from hindsight import load
from hindsight.cli.common import app
from hindsight.cli.library import _is_typed
from hindsight.io.checksums import about
from hindsight.io.files import DamagedError, FileError
from hindsight.library.train import outcome, policy_called, spec_of, to_come
from hindsight.pipeline.replicate import _as_yaml
from hindsight.specs.errors import SpecError
from hindsight.training.policy_files import PolicyFile
from hindsight.training.watch import animate
from tests.support.commands import hindsight, program

SMALL = ["hidden=8", "--seeds", "2", "--steps", "4096", "prey=repel", "n_dims=2"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    installed = str(Path(sys.executable).parent / "hindsight")
    result = program(installed, "train", "--her", "final", *SMALL, cwd=folder)
    assert result.returncode == 0, result.stderr
    (folder / "told.txt").write_text(result.stdout)
    return folder


def test_evaluate_prints_return_and_success(trained):
    (policy,) = (trained / "results/policies").rglob("*.safetensors")
    told = [
        hindsight("evaluate", str(policy), "--episodes", "3", *more, cwd=trained)
        for more in ([], ["--run", "1"], ["max_steps=5"], ["--random"])
    ]
    assert all(result.returncode == 0 for result in told), told[0].stderr
    both, one, short, random = (result.stdout.splitlines() for result in told)
    for lines in (both, short, random):
        assert [line.split(":")[0] for line in lines] == ["run 0", "run 1", "2 runs"]
    assert one == both[1:2]
    assert all(line.endswith("length 21.0") for line in both[:2])
    assert all(line.endswith("length 6.0") for line in short[:2])


def test_watch_films_the_newest_policy_without_further_words(trained):
    told = hindsight("watch", "last", "--episodes", "1", cwd=trained)
    assert told.stdout.startswith("episodes.gif: 1 episode, "), told.stderr
    assert (trained / "episodes.gif").stat().st_size > 1000


def test_curves_in_a_policys_place_are_refused_and_stay_where_they_are(trained):
    (curves,) = (trained / "results/cells").rglob("*.parquet")
    for name, *out in (["evaluate"], ["watch", "a.gif"], ["export", "a.pt2"]):
        told = hindsight(name, str(curves.relative_to(trained)), *out, cwd=trained)
        assert told.returncode == 1 and "holds curves; policies are" in told.stderr
        assert curves.exists()


def test_a_film_in_another_format_is_refused():
    with pytest.raises(FileError, match=r"^a\.avi: an animation must be a \.gif or \.mp4 file$"):
        animate([], Path("a.avi"))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ("train hidden=64,x", "algorithm.hidden.1: 'x'"),
        ("train fidelity=released --her final inside=0.98",
         "error: inside=0.98 has no effect with strategy final, fidelity released"),
        ("train --env PointReach-v0 prey=repel n_dims=5",
         "error: prey=repel: unknown option 'prey'; PointReach-v0 has action_scale"),
        ("train --her none k=4", "k=4: 'k' needs hindsight: set a strategy (her)"),
        ("train --her final k=4 n_sampled_goal=2", "k and n_sampled_goal are the same: give one"),
        ("train seed=1", "unknown option 'seed'; did you mean 'first_seed'?"),
        ("train --algorithm sac name=td3", "unknown option 'name'; sac has actor_learning_rate"),
        ("train steps=9", "'steps' is given by `steps` in a preset or `select`, by --steps"),
        ("train --steps -5", "error: steps: -5 is not allowed"),
        ("train PPO", "error: 'PPO' is not key=value"),
        ("train fidelity=released", "fidelity has no effect here"),
        ("train --her final clone=true vf_coef=1", "vf_coef=1 has no effect with id PredatorPrey"),
        ("train --workers 2", "--workers has no effect on PredatorPrey-v0"),
        ("train prey=static prey=repel", "prey is given twice"),
        ("train --her final strategy=future", "strategy is not a key here; use --her"),
        ("plan", "there is no config.yaml here: the replication runs in a clone"),
        ("cell none.json", "none.json"),
    ],
)  # fmt: skip
def test_mistakes_are_reported_in_one_sentence(tmp_path, arguments, named):
    result = hindsight(*arguments.split(), cwd=tmp_path)
    assert result.returncode == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ") and named in line
    assert not list(tmp_path.rglob("*.parquet"))


def spec_from(*words):
    """The cell of `hindsight train` with these words."""
    train = typer.main.get_command(app).commands["train"]  # type: ignore[attr-defined]
    context = train.make_context("train", [*words])
    return spec_of(context.params, [name for name in context.params if _is_typed(context, name)])


@pytest.mark.parametrize("words", [["prey=attract"], ["--her", "final"]])
def test_fidelity_is_taken_where_it_makes_a_difference(words):
    released, described = (spec_from(*words, f"fidelity={f}") for f in ("released", "described"))
    assert released != described == spec_from(*words)


def test_what_trains_otherwise_than_typed_is_reported():
    """A budget is rounded up to whole iterations, and a strategy may train as another."""

    def said(spec, her="none", steps=None):
        return "\n".join(to_come(spec, Path("results"), her, None, steps))

    spec = spec_from("--steps", "3000")
    assert spec.steps == 4096
    rounded = "3,000 steps are rounded up to 4,096, whole iterations of 2,048"
    assert rounded in said(spec, steps=3000) and "rounded" not in said(spec, steps=4096)
    tested = spec_from("--env", "PointReach-v0", "evaluation_episodes=1000")
    share = re.search(r"\((\d+)% of it for 20 evaluations of 1000 ep", said(tested))
    assert share and 50 < int(share[1]) < 100
    for fidelity, told in (("described", True), ("released", False)):
        spec = spec_from("--her", "future", f"fidelity={fidelity}")
        same = "future is the same as episode with fidelity described"
        assert (same in said(spec, "future")) == told
        assert ("is the same as" in said(spec, "future")) == told


def test_train_prints_what_will_come_and_what_came_out(trained):
    told = (trained / "told.txt").read_text().splitlines()
    (curves,) = (trained / "results").rglob("*.parquet")
    (policy,) = (trained / "results/policies").rglob("*.safetensors")
    assert re.match(
        r"Training PPO with hindsight \(final, described\) on PredatorPrey-v0: 2 runs × 4,096 "
        r"steps, about \d+ s on one core if none ends early \(\d+% of it for 2 evaluations of 20 "
        r"episodes\)",
        told[0],
    )
    assert str(curves.relative_to(trained)) in told[1] and "checkpoints/" in told[1]
    assert "random-repel-n2" in str(curves) and not list(trained.rglob("progress/**/*.json"))
    table = pd.read_parquet(curves)
    assert table.seed.nunique() == 2 and (table.phase == "evaluation").sum() == 2 * 2
    last = table[table.phase == "evaluation"].groupby("seed").tail(1)
    ends = dict(
        line.split(None, 1) for line in told[2:] if not line.startswith((" ", "final", "t"))
    )
    assert f"final return   {last.return_mean.mean():.3f} (" in "\n".join(told)
    assert "last evaluations, without exploration noise" in "\n".join(told)
    assert f"success rate   {last.success_rate.mean():.0%}, in the same evaluations" in told
    assert (
        "solved         0 of 2 runs: 95% success over 100 training episodes, with exploration noise"
    ) in told
    assert ends["policy"] == str(policy.relative_to(trained))
    best = ends["best"].removeprefix("policy ").split()[0]
    assert best == ends["policy"].replace("policies", "best")
    assert (trained / best).exists()
    # The command that it suggests works.
    command = next(line for line in told if line.startswith("use it")).split()[3:]
    assert hindsight(*command, "--episodes", "1", cwd=trained).returncode == 0
    assert command == ["evaluate", policy.stem.split("-")[-2]]


def test_policies_have_short_names(trained, tmp_path, monkeypatch):
    """The newest, and the first characters of a hash, unless several begin with them."""
    folder = tmp_path / "results/policies/chase"
    shutil.copytree(trained / "results/policies", folder.parent)
    (policy,) = folder.parent.rglob("*.safetensors")
    short = policy.stem.split("-")[-2]
    other = policy.with_name(policy.name.replace(short, short[:3] + "0000000"))
    shutil.copy(policy, other)
    os.utime(other, (0, 0))
    shutil.copy(policy, mine := folder.with_name("mine.safetensors"))
    os.utime(mine, (0, 0))
    assert policy_called(policy) == policy
    monkeypatch.chdir(tmp_path)
    assert policy_called(Path("last")).name == policy.name == policy_called(Path(short[:5])).name
    for name in (
        other.relative_to(tmp_path),
        Path(other.stem.split("-")[-2]),
    ):  # a copy under another's name
        with pytest.raises(FileError, match="holds another policy than its name says") as refused:
            PolicyFile.read(policy_called(name))
        assert not isinstance(refused.value, DamagedError)  # which a command renames
    best = Path("results/best/chase", other.name)
    best.parent.mkdir(parents=True)
    shutil.copy(policy, best)
    for name in (best, best.absolute(), Path("results/..", other.relative_to(tmp_path))):
        with pytest.raises(FileError, match="holds another policy than its name says"):
            PolicyFile.read(policy_called(name))
    with pytest.raises(SpecError, match=f"{short[:3]}: 2 policies begin with it in results/pol"):
        policy_called(Path(short[:3]))
    with pytest.raises(SpecError, match="x: there is no such policy in results/policies; `last`"):
        policy_called(Path("x"))
    told = hindsight("evaluate", "last", "--episodes", "2", "--run", "1", cwd=tmp_path)
    assert told.stdout.startswith("run 1: return")


def test_a_policy_of_other_code_or_of_another_kind_is_not_taken_for_this_one(
    trained, tmp_path, monkeypatch
):
    """Set aside and named by `train`, refused by what would use it."""
    shutil.copytree(trained / "results", tmp_path / "results")
    (policy,) = (tmp_path / "results/policies").rglob("*.safetensors")
    (best,) = (tmp_path / "results/best").rglob("*.safetensors")
    monkeypatch.chdir(tmp_path)
    other = policy.with_stem(f"{policy.stem[:-12]}{'0' * 12}")
    shutil.copy(policy, other)
    for use in (PolicyFile.read, load):
        with pytest.raises(FileError, match="holds another policy than its name says"):
            use(other)
    mine = tmp_path / "mine/policies/chase" / best.name  # a folder of the user's own
    mine.parent.mkdir(parents=True)
    shutil.copy(best, mine)
    assert PolicyFile.read(mine).seeds == PolicyFile.read(best).seeds
    whole, first = best.read_bytes(), policy.read_bytes()
    for content in (first, whole[:50], b""):
        best.write_bytes(content)
        again = hindsight("train", "--her", "final", *SMALL, cwd=tmp_path)
        assert again.returncode == 0 and "final return" in again.stdout
        assert re.search(
            r"^best policy    none: .*; set aside as \S+\.damaged$", again.stdout, re.M
        )
        assert not best.exists()


def test_settings_are_listed(tmp_path):
    told = hindsight(
        "train", "--algorithm", "td3", "--env", "FetchReach-v4", "--settings", cwd=tmp_path
    )
    assert told.returncode == 0 and "policy_delay=2 " in told.stdout
    preset = ("train", "--algorithm=sac", "--preset=robotics", "--settings")
    assert re.search(r"--her +final", hindsight(*preset, "--her=final", cwd=tmp_path).stdout)
    told = hindsight(*preset, cwd=tmp_path)
    assert {"hidden=256,256", "normalize_observations=true", "fidelity=described"} <= {
        *told.stdout.split()
    }
    assert not list(tmp_path.iterdir()), "nothing is trained"
    wrong = hindsight("train", "foo=1", cwd=tmp_path)
    said = "unknown option 'foo'; hindsight train --algorithm ppo --settings lists them"
    assert said in wrong.stderr


def test_the_suggested_command_fits_how_it_was_started(trained, monkeypatch):
    """`python -m hindsight` runs a file that is no program."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "argv", ["src/hindsight/__main__.py"])
    monkeypatch.chdir(trained)
    spec = spec_from("--her", "final", *SMALL)
    told = outcome(spec, Path("results"), trained / "results")
    (line,) = (line for line in told if line.startswith("use it"))
    assert line.split()[2:5] == [sys.executable, "-m", "hindsight"]


def test_a_trained_cell_is_shown_and_retrained_only_on_request(trained, tmp_path):
    shutil.copytree(trained / "results", tmp_path / "results")
    (curves,) = (tmp_path / "results/cells").rglob("*.parquet")
    first, told = curves.stat().st_mtime_ns, (trained / "told.txt").read_text().splitlines()
    again = hindsight("train", "--her", "final", *SMALL, cwd=tmp_path)
    assert again.returncode == 0 and curves.stat().st_mtime_ns == first
    # The commands to type next name the program as it was called.
    said, before = (
        [re.sub(r"(it +|^ +)\S+ (evaluate|watch)", r"\1hindsight \2", line) for line in lines]
        for lines in (again.stdout.splitlines(), told)
    )
    assert said == ["already trained by the same code; --again retrains it", *before[2:]]
    # Where training cannot start, nothing is removed.
    files = sorted((tmp_path / "results").rglob("*.*"))
    absent = ["--tensorboard=tb"] if find_spec("tensorboard") is None else []
    for option in ("--device=cuda:9", *absent):
        refused = hindsight("train", "--her", "final", *SMALL, "--again", option, cwd=tmp_path)
        assert refused.returncode == 1
        assert sorted((tmp_path / "results").rglob("*.*")) == files
    # --again reuses no run of a file with fewer of them.
    fewer = hindsight("train", "--her", "final", *SMALL, "--seeds", "1", cwd=tmp_path)
    assert fewer.returncode == 0 and "(each run at its best evaluation)" in fewer.stdout
    (best,) = (tmp_path / "results/best").rglob("*-1seeds-*")
    best.unlink()
    # What is another cell's is not overwritten.
    (other,) = (tmp_path / "results/cells").rglob("*-1seeds-*")
    whole = shutil.copy(other, curves)
    instead = hindsight("train", "--her", "final", *SMALL, "--seeds", "2", cwd=tmp_path)
    assert "not both whole and of this training; set aside as" in instead.stdout
    assert curves.with_name(f"{curves.name}.damaged").read_bytes() == other.read_bytes()
    assert about(whole)["spec_hash"] != about(other)["spec_hash"]
    (policy,) = (tmp_path / "results/policies").rglob(f"{curves.stem}.safetensors")
    policy.write_bytes(b"?")
    instead = hindsight("train", "--her", "final", *SMALL, "--seeds", "2", cwd=tmp_path)
    for file in (curves, policy):
        assert f"{file}: curves and policies are not both whole and of" in instead.stdout
        assert file.with_name(f"{file.name}.damaged").exists()
    policy.unlink()
    instead = hindsight("train", "--her", "final", *SMALL, "--seeds", "2", cwd=tmp_path)
    assert f"{policy}: is missing, so its cell is trained again" in instead.stdout
    anew = hindsight("train", "--her", "final", *SMALL, "--again", cwd=tmp_path)
    assert anew.returncode == 0 and "already trained" not in anew.stdout
    assert "reused" not in about(curves)
    assert curves.stat().st_mtime_ns > first


@pytest.mark.parametrize(
    "value", [3e-05, 1, None, "published", [3e-4, 0.5], {"algorithms": {"preys": ["static"]}}]
)
def test_snakemake_gets_values_as_they_were_typed(value):
    """YAML takes JSON's 3e-05 for text."""
    line = _as_yaml(value)
    assert "\n" not in line and yaml.safe_load(line) == value
