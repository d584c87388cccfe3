"""Records of what derived files were made of: the digests of code, inputs and outputs.

A derived file (tables, figures, verdicts, pages, episodes) is believed only if its record holds
today's code and versions of packages, its inputs as they are, and the file itself as it is. File
times do not count, nor what Snakemake remembers.
"""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hindsight.io.checksums import file_sha256
from hindsight.io.files import DamagedError, FileError, as_json, write_if_changed
from hindsight.io.fingerprint import STAGES, import_all, of_stage

#: The record of a folder of tables, in that folder.
RECORD = "record.json"
#: A record's key for the digest of all that it holds.
SEAL = "sha256"
#: Packages that compute and draw what is derived.
PACKAGES = ("matplotlib", "numpy", "pandas", "scipy")
#: Where other records lie, by the path of the job's first output.
RECORDS = Path("results/records")


def record_of(output: str | Path) -> Path:
    """Path of the record of a job whose first output this is, relative to the project's folder."""
    path = Path(output)
    return path if path.name == RECORD else RECORDS / f"{str(path).lstrip('/')}.json"


@cache
def versions() -> dict[str, str]:
    """The installed versions of `PACKAGES`."""
    return {name: version(name) for name in PACKAGES}


def read_record(path: Path) -> dict[str, Any]:
    """Read a record; empty if there is none, or it is damaged."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        whole = found.pop(SEAL) == _seal(found) and isinstance(found["outputs"], dict)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}
    return found if whole else {}


def _seal(record: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


class Digests(dict[str, str]):
    """SHA-256 of files by path, each read once; "" for what is no file."""

    def __init__(self, texts: Mapping[Path, str] | None = None) -> None:
        """`texts`: what files will contain that are not written yet."""
        of = {str(path): text.encode() for path, text in (texts or {}).items()}
        super().__init__({path: hashlib.sha256(data).hexdigest() for path, data in of.items()})

    def __missing__(self, name: str) -> str:
        path = Path(name)
        self[name] = file_sha256(path) if path.is_file() else ""
        return self[name]


def is_current(stage: str, outputs: Sequence[str], inputs: Sequence[str], digests: Digests) -> bool:
    """Whether a job's outputs are what today's code and packages made of today's inputs.

    Paths are as Snakemake has them.  The job's record may list more outputs, made with these.
    """
    path = record_of(outputs[0])
    found, made_of = read_record(path), {name: digests[name] for name in inputs}
    made = found.get("outputs", {})
    return (
        (found.get("code"), found.get("inputs")) == (of_stage(stage), made_of)
        and found.get("versions") == versions()
        and {*outputs} - {str(path)} <= made.keys()
        and all(digests[name] == digest for name, digest in made.items())
    )


class Making:
    """A job of a stage: its code is imported at the start, and what it makes is recorded.

    Raises:
        DamagedError: an input is not what its own record says.
        FileError: the code is not the planned one.
    """

    def __init__(self, stage: str, inputs: Collection[str], planned: str | None = None) -> None:
        """`planned`: the fingerprint of the code when the run was planned; None: any."""
        self.stage = stage
        changed = import_all(*STAGES[stage])
        self.code, self.inputs = of_stage(stage), {path: Digests()[path] for path in inputs}
        if changed or planned not in (None, self.code):
            raise FileError(
                "the source code changed after this run was planned; type the same command again"
            )
        if damaged := [file for path in inputs for file in _damaged(Path(path))]:
            why = "damaged, or changed since the workflow made it"
            raise DamagedError(f"{', '.join(map(str, damaged))}: {why}", *damaged)

    def record(self, output: Path, others: Collection[Path] = (), **more: Any) -> None:
        """Write the record of an output, and of the others made with it; `more` is data in it.

        Raises FileError, and writes nothing, if the code or an input changed meanwhile.
        """
        now = Digests()
        changed = [path for path, digest in self.inputs.items() if now[path] != digest]
        changed += map(str, import_all(*STAGES[self.stage]))
        if changed:
            raise FileError(
                f"{', '.join(changed)} changed while {output} was made; type the same command again"
            )
        path = record_of(output)
        made = [file for file in (output, *others) if file != path]
        found = {
            "stage": self.stage, "code": self.code, "versions": versions(), "inputs": self.inputs,
            "outputs": {str(file): now[str(file)] for file in made}, **more,
        }  # fmt: skip
        write_if_changed(path, as_json({**found, SEAL: _seal(found)}))


def must_be_as_made(path: Path) -> None:
    """Raise FileError if a file, or the tables beside this record, are not as they were made."""
    if damaged := _damaged(path):
        where = path.parent if path.name == RECORD else damaged[0]
        raise FileError(f"{where}: is not whole, or not as the workflow made it; run that again")


def _damaged(path: Path) -> list[Path]:
    """What a job made beside this file, or this file, if it is not as the record says.

    A file without a record is not damaged, unless it should be the record itself.
    """
    found = read_record(record_of(path))
    made = found.get("outputs", {})
    elsewhere = {Path(name).parent.name for name in made} - {path.parent.name}
    if path.name == RECORD and (elsewhere or not made):
        return [path]
    beside = {path.with_name(Path(name).name): digest for name, digest in made.items()}
    return [file for file, digest in beside.items() if Digests()[str(file)] != digest]
