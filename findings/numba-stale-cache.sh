#!/bin/sh
# numba 0.68.1.
#
# A function compiled with cache=True that calls another one compiles it in.  Edit the other one, in
# another module, and the cached caller is loaded as before and computes the old result; the edited
# function, called from Python, computes the new one.  Touching the caller's file does not help, as the
# cache goes by its contents.
#
# It matters to rewards, physics and losses that compiled loops share: an edit seems to change nothing.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile numba==0.68.1 numpy==2.4.6
cd "$work"
unset NUMBA_CACHE_DIR
cat > rule.py <<'END'
import numba


@numba.njit(cache=True)
def reward(distance):
    return -1.0 if distance > 0.05 else 0.0
END
cat > episode.py <<'END'
import numba
from rule import reward


@numba.njit(cache=True)
def total(distances):
    result = 0.0
    for distance in distances:
        result += reward(distance)
    return result
END
cat > run.py <<'END'
import numpy as np
from episode import total
from rule import reward

distances = np.array([0.3, 0.2, 0.1])
print(total(distances), sum(reward(distance) for distance in distances))
END
before=$("$work/venv/bin/python" run.py)
sed 's/-1\.0/-2.0/' rule.py > edited && mv edited rule.py
edited=$("$work/venv/bin/python" run.py)
touch episode.py
touched=$("$work/venv/bin/python" run.py)
echo "return of three steps, compiled loop and plain loop: $before"
echo "after the reward was edited from -1 to -2: $edited; the loop's file touched: $touched"
test "$before / $edited / $touched" = "-3.0 -3.0 / -3.0 -6.0 / -3.0 -6.0"
