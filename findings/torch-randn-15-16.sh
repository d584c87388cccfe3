#!/bin/sh
# torch 2.13.0, on a CPU.
#
# With one seed torch.randn(15) and the first 15 of torch.randn(16) have no number in common, in float32
# and float64: below 16 and from 16 on the numbers are made in different ways.  The first 16 of 17 share
# one, of 32 and 33 seventeen.  torch.rand(n) is always the beginning of torch.rand(m).
#
# It matters where a run is to be the same with more environments, more runs or a larger batch: noise drawn
# in one call depends on how much is drawn.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile torch==2.13.0 numpy==2.4.6
cd "$work"
"$work/venv/bin/python" -W ignore - <<'END'
import torch


def drawn(function, n, dtype):
    return function(n, generator=torch.Generator().manual_seed(0), dtype=dtype)


for n, m, equal in ((15, 16, 0), (16, 17, 1), (32, 33, 17), (8, 12, 8)):
    for dtype in (torch.float32, torch.float64):
        shared = int((drawn(torch.randn, n, dtype) == drawn(torch.randn, m, dtype)[:n]).sum())
        assert shared == equal
        assert torch.equal(drawn(torch.rand, n, dtype), drawn(torch.rand, m, dtype)[:n])
    print(f"randn({n}) and the first {n} of randn({m}): {shared} equal; rand: all")
END
