#!/bin/sh
# numba 0.68.1, NumPy 2.4.6.
#
# Since NumPy 2, `x * 0.99` of float32 is float32.  Compiled by Numba, the same line is float64, for numbers and whole
# arrays: a constant is a float64 there.  Written back into a float32 array, results differ by a rounding error.
#
# It matters to updates of float32 networks that are to equal those of PyTorch or NumPy, and to speed: arrays in between
# are twice as large, and np.dot refuses a float32 and a float64 matrix together.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile numba==0.68.1 numpy==2.4.6 scipy==1.17.1
cd "$work"
"$work/venv/bin/python" -W ignore - <<'END_OF_PYTHON'
import numba
import numpy as np


def decayed(x):
    return x * 0.99


def averaged(out, x):
    for i in range(len(x)):
        out[i] = out[i] * 0.999 + x[i] * x[i] * 0.001


def multiplied(x):
    return np.dot(decayed_by_numba(x), x)


decayed_by_numba = numba.njit(decayed)
x = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)
print(f"an array: NumPy {decayed(x).dtype}, Numba {decayed_by_numba(x).dtype}")
assert (decayed(x).dtype, decayed_by_numba(x).dtype) == (np.float32, np.float64)
one = np.float32(1.5)
decayed_by_numba(one)
returns = {str(own.args[0]): str(own.return_type) for own in decayed_by_numba.nopython_signatures}
print(f"a number: NumPy {type(decayed(one)).__name__}, Numba {returns['float32']}")
assert isinstance(decayed(one), np.float32) and returns["float32"] == "float64"
found = []
for function in (averaged, numba.njit(averaged)):
    out = np.ones(4096, np.float32)
    for _ in range(20):
        function(out, x.ravel())
    found.append(out)
differ = int((found[0] != found[1]).sum())
print(f"moving averages in float32 after 20 steps: {differ} of 4096 differ")
assert differ > 100
try:
    numba.njit(multiplied)(x)
except numba.TypingError as error:
    said = next(line for line in str(error).splitlines() if "dtype" in line)
    print(f"np.dot of the product with an array of float32: TypingError: {said.strip()}")
else:
    raise AssertionError
END_OF_PYTHON
