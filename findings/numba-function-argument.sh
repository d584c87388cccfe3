#!/bin/sh
# numba 0.68.1.
#
# A compiled function that is passed as an argument to one with cache=True defeats the cache: every
# process compiles anew and writes a further file, which none will ever find.  With an explicit signature
# that says FunctionType it is compiled once and found.
#
# It matters to loops that take a reward or a network as a function: each start costs the compilation, and
# the cache folder grows without end.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile numba==0.68.1 numpy==2.4.6
cd "$work"
unset NUMBA_CACHE_DIR
cat > loop.py <<'END'
import sys

from numba import float64, njit, types


def total(function, x):
    return function(x) + function(x + 1)


@njit(float64(float64), cache=True)
def square(x):
    return x * x


signature = float64(types.FunctionType(float64(float64)), float64)
compiled = njit(cache=True)(total) if sys.argv[1] == "plain" else njit(signature, cache=True)(total)
compiled(square, 2.0)
print(sum(compiled.stats.cache_hits.values()), end=" ")
END
for how in plain typed; do
    seen=
    for _ in 1 2 3; do
        seen="$seen$(PYTHONPATH=. "$work/venv/bin/python" -c "import loop" $how)"
        seen="$seen$(find . -name 'loop.total-*.nbc' | wc -l | tr -d ' '); "
    done
    echo "$how, three processes: cache hits, files: $seen"
    case $how in
        plain) test "$seen" = "0 1; 0 2; 0 3; " ;;
        typed) test "$seen" = "0 4; 1 4; 1 4; " ;;
    esac
done
