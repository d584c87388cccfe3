#!/bin/sh
# rliable 1.2.0, arch 7.2.0, pandas 2.3.3.
#
# get_interval_estimates(..., random_state=...) does not draw with it: two calls with a RandomState of
# the same seed give different intervals.  NumPy's global seed repeats them.
#
# It matters to intervals that are published with a seed.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile rliable==1.2.0 pandas==2.3.3 arch==7.2.0 numpy==2.4.6
cd "$work"
"$work/venv/bin/python" -W ignore - <<'END'
import numpy as np
from rliable import library, metrics

SCORES = {"arm": np.random.default_rng(0).random((8, 3))}  # runs, tasks


def interval(**arguments):
    def iqm(scores):
        return np.array([metrics.aggregate_iqm(scores)])

    _, intervals = library.get_interval_estimates(SCORES, iqm, reps=200, **arguments)
    return intervals["arm"].ravel()


given = [interval(random_state=np.random.RandomState(0)) for _ in range(2)]
seeded = [(np.random.seed(0), interval())[1] for _ in range(2)]
print(f"random_state=RandomState(0), twice: {given[0].round(3)}, {given[1].round(3)}")
print(f"np.random.seed(0), twice: {seeded[0].round(3)}, {seeded[1].round(3)}")
assert (given[0] != given[1]).all() and (seeded[0] == seeded[1]).all()
END
