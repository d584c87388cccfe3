#!/bin/sh
# scipy 1.17.1, numpy 2.4.6.
#
# permutation_test counts a permutation as a tie if its statistic is within a tolerance of the observed
# one, and the tolerance is relative: if the observed statistic is 0, or 1e-16 where it should be, ties
# that rounding moved are missed.  Four paired success rates in tenths with equal means: the exact one-sided
# p is 0.6875 in whole numbers, 0.625 or 0.5 in tenths.
#
# It matters to exact tests with few seeds, whose differences often cancel.  Count successes instead.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile scipy==1.17.1 numpy==2.4.6
cd "$work"
"$work/venv/bin/python" - <<'END'
import numpy as np
from scipy.stats import permutation_test


def difference(x, y, axis):
    return x.mean(axis=axis) - y.mean(axis=axis)


seen = []
for x, y in (([7, 6, 1, 9], [8, 5, 2, 8]), ([5, 8, 9, 6], [7, 10, 7, 4])):
    for scale in (1, 10):
        arms = np.array(x) / scale, np.array(y) / scale
        how = {"permutation_type": "samples", "alternative": "greater", "n_resamples": np.inf}
        result = permutation_test(arms, difference, **how)
        seen.append(float(result.pvalue))
        print(f"{arms[0]} and {arms[1]}: statistic {result.statistic:.1e}, p = {result.pvalue}")
assert seen == [0.6875, 0.625, 0.6875, 0.5]
END
