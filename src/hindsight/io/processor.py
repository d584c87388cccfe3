"""The kernels that OpenBLAS uses on this processor."""

import os
from pathlib import Path

#: What OpenBLAS's AVX-512 kernels need.
AVX512 = {"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"}
#: AMD's family of Zen 5.
ZEN5 = 26


def choose_kernels(about: Path = Path("/proc/cpuinfo")) -> None:
    """Have OpenBLAS use AVX-512 on AMD's Zen 5 and newer, unless OPENBLAS_CORETYPE is set.

    Their family is missing from its list of processors up to version 0.3.31, and it falls back to
    kernels with half the width (OpenMathLib/OpenBLAS#6029): PPO would train at two thirds of its
    speed.  It reads the variable when it is loaded, so this comes before NumPy and SciPy.
    """
    try:
        with about.open(encoding="utf-8", errors="replace") as file:
            first = file.read(8192).partition("\n\n")[0]
    except OSError:  # not Linux
        return
    pairs = (line.partition(":") for line in first.splitlines())
    found = {name.strip(): value.strip() for name, _, value in pairs}
    family = found.get("cpu family", "")
    is_new = found.get("vendor_id") == "AuthenticAMD" and family.isdigit() and int(family) >= ZEN5
    if is_new and set(found.get("flags", "").split()) >= AVX512:
        os.environ.setdefault("OPENBLAS_CORETYPE", "SkylakeX")
