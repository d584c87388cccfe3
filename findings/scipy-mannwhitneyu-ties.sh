#!/bin/sh
# scipy 1.17.1, numpy 2.4.6.
#
# mannwhitneyu's default computes an exact p for few values without ties, and with ties it takes the normal approximation
# without a warning.  Success rates tie, at 1 and at 0.  Three seeds that all succeed against three that all fail get
# p = 0.047, though no way to divide six runs has a p below 0.1; 0.98, 0.99 and 1 instead of three times 1 get 0.1.
#
# It matters to comparisons of a few seeds: the clearest outcomes look significant when they cannot be.
# method=PermutationMethod() is exact with ties.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile scipy==1.17.1 numpy==2.4.6
cd "$work"
"$work/venv/bin/python" -W error - <<'END'
from math import comb

import numpy as np
from scipy.stats import PermutationMethod, mannwhitneyu

ps = []
for n in (3, 4, 5, 8):
    tied, differing = [1.0] * n, [1 - i / 100 for i in range(n)]
    exact = PermutationMethod(n_resamples=np.inf)
    p = mannwhitneyu(tied, [0.0] * n).pvalue
    without_ties = mannwhitneyu(differing, [i / 100 for i in range(n)]).pvalue
    permuted = mannwhitneyu(tied, [0.0] * n, method=exact).pvalue
    smallest = 2 / comb(2 * n, n)
    print(f"{n} runs at 1 against {n} at 0: p = {p:.5f}, without ties {without_ties:.5f},", end=" ")
    print(f"by permutations {permuted:.5f}; the smallest possible is {smallest:.5f}")
    assert p < smallest and np.allclose([without_ties, permuted], smallest)
    ps.append(p)
assert ps[0] < 0.05
END
