"""MKL's full width on AMD cores, on request.

PyTorch's CPU build multiplies with MKL, which asks for the processor's vendor and takes its AVX-512
path on Intel's only.  A preloaded library of one function answers that question as an Intel
processor would: products then run up to twice as fast.  MKL's maker does not support that.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from hindsight.files import write_whole
from hindsight.processor import FUNCTION, hides_width, is_full_width
from hindsight.specs.errors import SpecError

SOURCE = f"int {FUNCTION}(void) {{ return 1; }}\n"
COMPILERS = ("cc", "gcc", "clang")
#: In the environment of a process that was started anew for the sake of the library.
ASKED = "HINDSIGHT_FULL_WIDTH"


def multiply_at_full_width() -> None:
    """Start this process anew with the library, if that widens its products; call it before torch
    is imported.

    The process stays the same one: its number, its ignored signals, and its end with its parent.
    Raises SpecError where the library cannot be made or loaded.
    """
    if not hides_width():
        return
    preloaded = os.environ.get("LD_PRELOAD", "")
    if (library := os.environ.pop(ASKED, None)) is not None:
        # What this process starts in turn is no trainer.
        os.environ["LD_PRELOAD"] = preloaded.removeprefix(library).removeprefix(":")
    if is_full_width():
        return
    if library is not None:
        raise SpecError(
            f"full_width: {library} could not be preloaded; leave full_width out, or set "
            "XDG_CACHE_HOME to a folder that programs may be loaded from"
        )
    library = str(built(_folder()))
    os.environ |= {ASKED: library, "LD_PRELOAD": ":".join(filter(None, (library, preloaded)))}
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _folder() -> Path:
    """Where this user's programs keep what can be made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hindsight"


def built(folder: Path) -> Path:
    """The library in this folder, compiled if it is not there; raises SpecError, FileError."""
    path = folder / f"full-width-{hashlib.sha256(SOURCE.encode()).hexdigest()[:10]}.so"
    if not path.exists():
        compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
        if compiler is None:
            raise SpecError(
                f"full_width needs a C compiler, one of {', '.join(COMPILERS)}, and this machine "
                "has none: install one, or leave full_width out"
            )
        write_whole(path, lambda beside: _compile(compiler, beside))
    return path


def _compile(compiler: str, out: Path) -> None:
    command = [compiler, "-shared", "-fPIC", "-O2", "-x", "c", "-", "-o", str(out)]
    done = subprocess.run(command, input=SOURCE, text=True, capture_output=True, check=False)
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["no word of why"])[-1]
        raise SpecError(f"full_width: {compiler} cannot compile the library: {said}")
