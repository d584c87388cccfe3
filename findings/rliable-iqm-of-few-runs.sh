#!/bin/sh
# rliable 1.2.0, arch 7.2.0, pandas 2.3.3, scipy 1.17.1.
#
# The interquartile mean, aggregate_iqm, leaves out int(n / 4) of n scores at each end, and no part of a score.  Of three it
# leaves out none: it is their mean, outlier and all.  Of five it takes three, of seven five (71%), of eight four.  So the share
# changes with the number of runs, and one more run below the result can raise it: 0, 1, 1 have 0.667, and with 0.5 0.75.
#
# It matters to figures for single tasks with 3 to 7 runs, and to arms with different numbers of runs.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile rliable==1.2.0 pandas==2.3.3 arch==7.2.0 scipy==1.17.1 numpy==2.4.6
cd "$work"
"$work/venv/bin/python" -W ignore - <<'END'
import numpy as np
from rliable.metrics import aggregate_iqm


def iqm(*scores):
    return float(aggregate_iqm(np.array(scores, float)[:, None]))  # runs, one task


taken = {}
for n in (3, 4, 5, 6, 7, 8, 12):
    scores = np.arange(n)
    raised = scores + (scores == n // 2)  # the run in the middle
    taken[n] = round(1 / (iqm(*raised) - iqm(*scores)))
    outlier = iqm(1, *[0] * (n - 1))
    print(f"{n} runs: the mean of {taken[n]} ({taken[n] / n:.0%}); one at 1, the others at 0: {outlier:.3f}")
    assert (outlier > 0) == (n == 3)
assert taken == {3: 3, 4: 2, 5: 3, 6: 4, 7: 5, 8: 4, 12: 6}

before, after = iqm(0, 1, 1), iqm(0, 1, 1, 0.5)
print(f"runs 0, 1, 1: {before:.3f}; and a fourth, 0.5: {after:.3f}")
assert 0.5 < before < after
END
