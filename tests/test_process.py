"""A badly started process reports it in one sentence, or works all the same."""

import os
import resource
import sys
from pathlib import Path

import pytest

from tests.support.commands import program
from tests.support.configuration import ROOT

HINDSIGHT = str(Path(sys.executable).parent / "hindsight")
TRAIN = ("train", "hidden=8", "--seeds", "1", "--steps", "2048")


def test_without_standard_error_messages_go_to_standard_output(tmp_path):
    closed = ["sh", "-c", 'exec "$0" "$@" 2>&-', HINDSIGHT]
    refused = program(*closed, "train", "prey=statc", cwd=tmp_path)
    assert refused.returncode == 1
    assert refused.stdout.startswith("error: environment.prey: 'statc' is not allowed")
    trained = program(*closed, *TRAIN, cwd=tmp_path)
    assert "results/cells" in trained.stdout and trained.returncode == 0
    # No results file took the closed stream's descriptor, to which messages would be written.
    (curves,) = tmp_path.rglob("*.parquet")
    assert curves.read_bytes()[:4] == b"PAR1"
    none = ["sh", "-c", 'exec "$0" "$@" <&- 2>&- 1>&-', HINDSIGHT, *TRAIN, "--again"]
    assert program(*none, cwd=tmp_path).returncode == 0


@pytest.mark.parametrize("command", [TRAIN, ("watch", "a.safetensors", "a.gif"), ("replicate",)])
def test_too_little_address_space_is_reported_before_a_library_aborts(tmp_path, command):
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (900 << 20, 900 << 20))

    told = program(HINDSIGHT, *command, cwd=tmp_path, preexec_fn=limit)
    assert told.returncode == 1 and told.stdout == ""
    (line,) = told.stderr.splitlines()
    assert line.startswith("error: this process may use 943 MB of address space, but needs about")


AT_HOME = """
import os
from hindsight.io.startup import have_home
have_home()
print(os.environ["HOME"])
open(os.path.expanduser("~/x"), "w")
"""


@pytest.mark.parametrize("home", ["/proc/none", "/etc/passwd", "file"])
def test_an_unusable_home_is_replaced(tmp_path, home):
    (tmp_path / "file").touch()
    told = program(sys.executable, "-c", AT_HOME, cwd=tmp_path, env={"HOME": home})
    assert told.returncode == 0, told.stderr
    lent = Path(told.stdout.strip())
    assert told.stderr == f"HOME {home} cannot be used; caches go to {lent} for now\n"
    assert not lent.exists()


@pytest.mark.parametrize("caches", ["/proc/none", "file", "file/below"])
def test_an_unusable_folder_for_caches_is_left_out(tmp_path, caches):
    (tmp_path / "file").touch()
    code = AT_HOME + "assert 'XDG_CACHE_HOME' not in os.environ\n"
    home = {"HOME": str(tmp_path), "XDG_CACHE_HOME": caches}
    told = program(sys.executable, "-c", code, cwd=tmp_path, env=home)
    assert told.returncode == 0, told.stderr
    assert told.stderr == f"XDG_CACHE_HOME {caches} cannot be used; caches go to ~/.cache\n"


def test_a_usable_home_stays(tmp_path):
    told = program(sys.executable, "-c", AT_HOME, env={"HOME": str(tmp_path)})
    assert (told.stdout, told.stderr) == (f"{tmp_path}\n", "")


def test_a_notebooks_backend_stops_neither_models_nor_films(tmp_path):
    """A model, its training and its module import no matplotlib; a film is drawn without one.

    A notebook sets MPLBACKEND for every process that it starts; neither of these is installed here.
    """
    code = (
        "import sys; from hindsight import SAC; import hindsight.library.train; "
        "model = SAC('PointReach-v0', seeds=1); "
        "assert 'matplotlib' not in sys.modules; model.film('film.gif', episodes=1)"
    )
    env = {**os.environ, "MPLBACKEND": "module://matplotlib_inline.backend_inline"}
    ran = program(sys.executable, "-c", code, cwd=tmp_path, env=env)
    assert ran.returncode == 0 and (tmp_path / "film.gif").stat().st_size > 1000, ran.stderr
    policy = next((ROOT / "results/published/policies").glob("random-static-*/ppo*.safetensors"))
    env["MPLBACKEND"] = "no-such-backend"
    ran = program(HINDSIGHT, "watch", policy, "hunt.gif", cwd=tmp_path, env=env)
    assert "hunt.gif: 3 episodes" in ran.stdout, ran.stderr
