"""Files that say more than numbers, or what cannot be: refused in one sentence, and nothing is run.

Each takes a lab (tests.faults.inject) in which a cell is trained, and returns what happened.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from hindsight.io.checksums import ABOUT, sealed
from tests.faults.lab import demand
from tests.faults.trainer import plan_of, summarise

EVIL = "open('harmed', 'w').close()\n"


def one_sentence(process: Any, *words: str) -> None:
    """Demand that it ends with one error, on one line, in which these words are."""
    demand(process.wait() == 1, f"was accepted: {process.said}")
    (line,) = [x for x in process.said.splitlines() if x.strip()] or [""]
    demand(line.startswith("error: "), f"no sentence: {process.said}")
    demand(all(word in line for word in words), f"{words}: {line}")


def ask(lab: Any, path: Path, *words: str) -> None:
    """Demand that a policy is refused by both commands that read it."""
    name = str(path.relative_to(lab.folder))
    one_sentence(lab.start("evaluate", name, "--episodes", "1"), *words)
    one_sentence(lab.start("watch", name, "film.gif"), *words)
    demand(not (lab.folder / "harmed").exists(), "code that a file names was run")


def a_policy_names_a_module(lab: Any) -> str:
    lab.trained()
    (lab.folder / "evil.py").write_text(EVIL)
    saved = torch.load(lab.path("policies", ".pt"), weights_only=True)
    spec = json.loads(saved["spec"]) | {"environment": {"id": "evil:X-v0"}}
    torch.save({**saved, "spec": json.dumps(spec)}, lab.folder / "evil.pt")
    ask(lab, lab.folder / "evil.pt", "evil.pt", "a file does not decide what is imported")
    return "refused, nothing imported"


def a_specification_names_a_module(lab: Any) -> str:
    (lab.folder / "evil.py").write_text(EVIL)
    spec = json.loads(lab.spec.model_dump_json()) | {"environment": {"id": "evil:X-v0"}}
    (lab.folder / "evil.json").write_text(json.dumps(spec))
    one_sentence(lab.start("cell", "evil.json"), "evil.json", "name it too: --env evil:X-v0")
    demand(not (lab.folder / "harmed").exists(), "code that a file names was run")
    return "refused, nothing imported"


ABSURD: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "hidden of 10^18": lambda x: _with(x, "algorithm", "hidden", [10**18]),
    "10^12 steps": lambda x: {**x, "steps": 10**12},
    "seeds as text": lambda x: {**x, "seeds": "2"},
}


def _with(values: dict[str, Any], part: str, key: str, value: Any) -> dict[str, Any]:
    return {**values, part: {**values[part], key: value}}


def an_absurd_policy(lab: Any) -> str:
    lab.trained()
    saved = torch.load(lab.path("policies", ".pt"), weights_only=True)
    rows, path = saved["rows"], lab.folder / "absurd.pt"
    changes: dict[str, dict[str, Any]] = {
        "complex rows": {"rows": rows.to(torch.complex64)},
        "NaN rows": {"rows": rows * torch.nan},
        "a row of 10^12 numbers": {"rows": torch.zeros(2, 1).expand(2, 10**12)},
        "seeds that are text": {"seeds": ["0", "1"]},
    }
    spec = json.loads(saved["spec"])
    changes |= {name: {"spec": json.dumps(change(spec))} for name, change in ABSURD.items()}
    told = lab.rng.choice(sorted(changes))
    torch.save({**saved, **changes[told]}, path)
    ask(lab, path, "absurd.pt")
    return f"{told}: refused at once"


def an_absurd_specification(lab: Any) -> str:
    told = lab.rng.choice(sorted(ABSURD))
    spec = ABSURD[told](json.loads(lab.spec.model_dump_json()))
    (lab.folder / "absurd.json").write_text(json.dumps(spec))
    one_sentence(lab.start("cell", "absurd.json"), "absurd.json")
    return f"{told}: refused at once"


def exchanged(lab: Any) -> str:
    """Two cells' files change places."""
    mine, paths = lab.name, []
    for lab.name in ("dqn", "ppo"):
        lab.trained()
        paths.append(lab.curves)
    lab.name = mine
    wholes = [path.read_bytes() for path in paths]
    for path, whole in zip(paths, reversed(wholes), strict=True):
        path.write_bytes(whole)
    process = lab.start(*summarise(plan_of(lab)))
    one_sentence(process, lab.curves.name, "it holds another cell")
    for path, whole in zip(paths, wholes, strict=True):
        path.write_bytes(whole)
    return "refused by name"


IMPOSSIBLE: dict[str, Callable[[pa.Table], pa.Table]] = {
    "a return that is no number": lambda table: _put(table, "return_mean", np.nan),
    "an infinite return": lambda table: _put(table, "return_mean", np.inf),
    "a return above all returns": lambda table: _put(table, "return_mean", 7.0),
    "success above 1": lambda table: _put(table, "success_rate", 1.5),
    "success below 0": lambda table: _put(table, "success_rate", -0.5),
    "a row twice": lambda table: pa.concat_tables([table.slice(0, 1), table]),
    "a step beyond the budget": lambda table: _put(table, "env_steps", 10**6),
}


def _put(table: pa.Table, name: str, value: float) -> pa.Table:
    """The table with another value in the first row, which is of an evaluation."""
    values, at = table[name].to_numpy().copy(), table.schema.get_field_index(name)
    values[0] = value
    return table.set_column(at, table.schema.field(at), pa.array(values))


def impossible(lab: Any) -> str:
    """Values that cannot be, under a seal that says that the file is as it was written."""
    lab.trained()
    table, whole = pq.read_table(lab.curves), lab.curves.read_bytes()
    about = table.schema.metadata[ABOUT].decode()
    told = lab.rng.choice(sorted(IMPOSSIBLE))
    pq.write_table(sealed(IMPOSSIBLE[told](table), about), lab.curves)
    one_sentence(lab.start(*summarise(plan_of(lab))), lab.curves.name)
    os.replace(f"{lab.curves}.damaged", lab.curves)  # it was set aside
    lab.curves.write_bytes(whole)
    return f"{told}: refused"


FAULTS: dict[str, Callable[[Any], str]] = {
    "policy: names a module": a_policy_names_a_module,
    "specification: names a module": a_specification_names_a_module,
    "policy: absurd": an_absurd_policy,
    "specification: absurd": an_absurd_specification,
    "results files: exchanged": exchanged,
    "results file: impossible values": impossible,
}
