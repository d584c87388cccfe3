"""What MKL makes of this processor."""

import ctypes
import sys
from functools import cache
from pathlib import Path

#: What MKL asks of itself before it takes its AVX-512 path.
FUNCTION = "mkl_serv_intel_cpu_true"
CPUINFO = Path("/proc/cpuinfo")


@cache
def hides_width() -> bool:
    """Whether MKL, left alone, uses half of this processor's width: AMD's with AVX-512."""
    if not CPUINFO.exists():
        return False
    said = CPUINFO.read_text(encoding="utf-8")
    return "AuthenticAMD" in said and " avx512f " in said


@cache
def is_full_width() -> bool:
    """Whether a preloaded library shows MKL the whole width (hindsight.full_width)."""
    return sys.platform == "linux" and hasattr(ctypes.CDLL(None), FUNCTION)
