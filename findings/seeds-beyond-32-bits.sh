#!/bin/sh
# torch 2.13.0 on a CPU, jax 0.10.2, NumPy 2.4.6.
#
# Seeds that differ only above their lowest 32 bits give the same random numbers: in PyTorch on a CPU always, though the
# generator reports the whole seed, and in JAX unless jax_enable_x64 is set.  So 5 and 5 + 2**32 are one run, and -1 is
# 2**32 - 1.  NumPy uses every bit.
#
# It matters to seeds put together as `run << 32 | stream`: all runs are the same.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile torch==2.13.0 jax==0.10.2 numpy==2.4.6
cd "$work"
JAX_PLATFORMS=cpu "$work/venv/bin/python" -W ignore - <<'END_OF_PYTHON'
import jax
import numpy as np
import torch


def of_torch(seed):
    return torch.rand(4, generator=torch.Generator().manual_seed(seed)).numpy()


def of_jax(seed):
    return np.asarray(jax.random.uniform(jax.random.key(seed), 4))


def of_numpy(seed):
    return np.random.default_rng(seed).random(4)


def equal(draw):
    return [np.array_equal(draw(5), draw(5 + run * 2**32)) for run in (1, 2, 3)]


assert torch.Generator().manual_seed(5 + 2**32).initial_seed() == 5 + 2**32
assert np.array_equal(of_torch(-1), of_torch(2**32 - 1))
found = {"torch": equal(of_torch), "jax": equal(of_jax), "numpy": equal(of_numpy)}
jax.config.update("jax_enable_x64", True)
found["jax, jax_enable_x64"] = equal(of_jax)
for name, same in found.items():
    print(f"{name}: seed 5 and 5 + run * 2**32 draw the same for runs 1, 2 and 3: {same}")
assert list(found.values()) == [[True] * 3, [True] * 3, [False] * 3, [False] * 3]
END_OF_PYTHON
