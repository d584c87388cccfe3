#!/bin/sh
# numpy 2.4.6.
#
# Zeros at the end of a seed do not count: default_rng([7, 0]) and default_rng([7, 0, 0]) are default_rng(7).  So [seed, worker]
# gives worker 0 the numbers of a generator that has the seed alone, and [worker, seed] with seed 0 gives worker 7 those of
# seed 7.  A spawn_key of 0 does count.
#
# It matters where environment i has [seed, i] and the agent has seed: the same numbers draw the goals of environment 0 and
# the noise of its actions.  Use SeedSequence(seed).spawn.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile numpy==2.4.6
cd "$work"
"$work/venv/bin/python" - <<'END'
import numpy as np


def drawn(seed):
    return np.random.default_rng(seed).random(1000)


alone, seen = drawn(7), {}
for seed in ([7], [7, 0], [7, 0, 0], [0, 7], [7, 1]):
    seen[str(seed)] = np.array_equal(alone, drawn(seed))
spawned = np.random.SeedSequence(7, spawn_key=(0,))
seen["SeedSequence(7, spawn_key=(0,))"] = np.array_equal(alone, drawn(spawned))
for seed, equal in seen.items():
    print(f"default_rng({seed}): {'the numbers of default_rng(7)' if equal else 'other numbers'}")
assert list(seen.values()) == [True, True, True, False, False, False]
END
