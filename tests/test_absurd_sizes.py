"""Files of absurd sizes end in one sentence, at once, before they fill the memory."""

import json
import time
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from hindsight.analysis.cells import ResultError, load_cell
from hindsight.envs.episodes import load_episodes
from hindsight.io.files import DamagedError, FileError
from hindsight.specs.cell import CellSpec
from hindsight.specs.plan import read_spec
from hindsight.training.files import load, save
from hindsight.training.policies import initial_row, n_parameters
from hindsight.training.policy_files import read_policy, runs_in
from tests.analysis.synthetic import write_cell

SECONDS = 5.0


@pytest.fixture(autouse=True)
def at_once():
    began = time.monotonic()
    yield
    assert time.monotonic() - began < SECONDS


def values(**changes) -> dict:
    """A specification as plain values; `algorithm__hidden` changes a part's key."""
    found = json.loads(CellSpec().model_dump_json())
    for key, value in changes.items():
        section, _, name = key.rpartition("__")
        (found[section] if section else found)[name] = value
    return found


ABSURD = [
    ({"algorithm__hidden": [10**18]}, "specification.algorithm.hidden: 1000000000000000000 is not"),
    ({"algorithm__hidden": [10_000] * 20}, "a network of 1,9.* weights is larger"),
    ({"algorithm__hidden": [4] * 10_000}, "more than 1000 values"),
    ({"steps": 10**12}, "specification.steps: 1000000000000 is not allowed"),
    ({"steps": 10**400}, "specification.steps: 1000.* is not allowed"),
    ({"seeds": 10**9}, "specification.seeds"),
    ({"seeds": "16"}, "specification.seeds: '16' is text, not a number"),
    ({"environment__n_dims": 10**6}, "specification.environment.n_dims"),
    ({"algorithm__learning_rate": float("nan")}, "learning_rate: nan is not allowed"),
    ({"algorithm__n_steps": 10**15}, "n_steps"),
    ({"environment__title": "a" * 200_000}, "longer than 100,000 characters"),
]


@pytest.mark.parametrize(("changes", "words"), ABSURD)
def test_absurd_specifications(changes, words, tmp_path):
    path = tmp_path / "spec.json"
    path.write_text(json.dumps(values(**changes)))
    with pytest.raises(FileError, match=words) as caught:
        read_spec(path)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500
    policy = tmp_path / "policy.pt"
    save(policy, {"spec": path.read_text(), "seeds": [0], "rows": torch.zeros(1, 3)})
    with pytest.raises(FileError, match=words):
        read_policy(policy, 0)


@pytest.mark.parametrize("text", ["[" * 50_000, '{"a":' * 20_000, "[]", "7", "null", "{", ""])
def test_specifications_that_are_none(text, tmp_path):
    path = tmp_path / "spec.json"
    path.write_text(text)
    with pytest.raises(FileError) as caught:
        read_spec(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rows": torch.zeros(1, 5, dtype=torch.complex64)}, "not real numbers"),
        ({"rows": torch.zeros(1, 5, dtype=torch.float64)}, "not real numbers"),
        ({"rows": [[0.0]]}, "not real numbers"),
        ({"rows": torch.zeros(5)}, "one row of parameters per seed"),
        ({"rows": torch.zeros(2, 5)}, "one row of parameters per seed"),
        ({"rows": torch.zeros(1, 5).to_sparse()}, "policy.pt: "),
        ({"rows": torch.zeros(1, 1).expand(1, 10**12)}, "not stored in full"),
        ({"rows": torch.zeros(1, 5)}, "do not match its specification"),
        ({"seeds": ["0"]}, "seeds are not whole numbers"),
        ({"seeds": "0"}, "seeds are not whole numbers"),
        ({"seeds": [0.0]}, "seeds are not whole numbers"),
        ({"seeds": [[0]]}, "seeds are not whole numbers"),
        ({"spec": 7}, "policy.pt: "),
        ({"spec": b"\xff"}, "policy.pt: "),
    ],
)
def test_policies_that_are_none(changes, words, tmp_path):
    spec, path = CellSpec(), tmp_path / "policy.pt"
    whole = {"spec": spec.model_dump_json(), "seeds": [0], "rows": initial_row(spec)[None]}
    save(path, whole | changes)
    with pytest.raises(FileError, match=words) as caught:
        read_policy(path, 0)
    assert "\n" not in str(caught.value)


def test_a_policy_that_diverged_is_told(tmp_path):
    spec, path = CellSpec(), tmp_path / "policy.pt"
    rows = torch.stack([initial_row(spec), initial_row(spec)])
    rows[1, 3] = torch.nan
    save(path, {"spec": spec.model_dump_json(), "seeds": [0, 1], "rows": rows})
    assert runs_in(path) == [0, 1] and len(read_policy(path, 0)[1]) == n_parameters(spec)
    with pytest.raises(FileError, match="run 1 diverged in training"):
        read_policy(path, 1)


@pytest.mark.parametrize("name", ["ppo", "sac", "td3", "ddpg", "dqn"])
def test_the_length_of_a_row_is_known_beforehand(name):
    where = {"id": "BitFlipping-v0" if name == "dqn" else "PointReach-v0"}
    spec = CellSpec.model_validate(
        {"environment": where, "algorithm": {"name": name, "hidden": (4, 3)}}
    )
    assert n_parameters(spec) == len(initial_row(spec))


def bomb(path, name):
    """A small archive that holds a quarter of a gigabyte of zeros."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:  # noqa: SIM117
        with archive.open(name, "w", force_zip64=True) as file:
            for _ in range(16):
                file.write(bytes(1 << 24))
    return path


def test_an_archive_that_holds_a_thousand_times_its_size(tmp_path):
    path = bomb(tmp_path / "policy.pt", "policy/data/0")
    for read in (load, load_episodes):
        began = time.monotonic()
        with pytest.raises(DamagedError, match="is compressed, and holds 268,435,456"):
            read(path)
        assert time.monotonic() - began < 0.5


def test_an_array_of_more_numbers_than_the_file_holds(tmp_path):
    path = tmp_path / "episodes.npz"
    np.savez(path, predator_0=np.zeros((2, 3)))
    data = path.read_bytes()
    path.write_bytes(data.replace(b"(2, 3), }" + b" " * 16, b"(200000000000, 300000), }"))
    assert path.read_bytes() != data
    with pytest.raises(FileError, match="holds no episodes"):
        load_episodes(path)


@pytest.fixture
def cell(tmp_path):
    return write_cell(tmp_path / "cell.parquet", seeds=2, iterations=5)


def test_a_results_file_of_a_billion_rows(cell):
    about = pq.read_schema(cell).metadata
    rows = pa.table({"phase": pa.array(np.zeros(20_000_000, bool))})
    pq.write_table(rows.replace_schema_metadata(about), cell)
    assert cell.stat().st_size < 300_000
    with pytest.raises(ResultError, match=r"20,000,000 rows of .* are too much"):
        load_cell(cell)


@pytest.mark.parametrize(("key", "value"), [("steps", 10**12), ("seeds", "16"), ("steps", "a")])
def test_a_results_file_of_an_absurd_cell(cell, key, value):
    table = pq.read_table(cell)
    about = json.loads(table.schema.metadata[b"hindsight"])
    about["spec"][key] = value
    pq.write_table(table.replace_schema_metadata({b"hindsight": json.dumps(about)}), cell)
    with pytest.raises(ResultError) as caught:
        load_cell(cell)
    assert "\n" not in str(caught.value)
