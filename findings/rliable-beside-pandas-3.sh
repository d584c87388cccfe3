#!/bin/sh
# rliable 1.2.0, arch 7.2.0, pandas 3.1.1.
#
# `import rliable.library`, which has the confidence intervals, raises a TypeError: arch, which it bootstraps
# with, calls a function of pandas that changed.  rliable.metrics works, and `pip check` finds no conflict.
#
# It matters to anyone who installs rliable today; pandas==2.3.3 works.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile rliable==1.2.0 pandas==3.1.1 arch==7.2.0 numpy==2.4.6
cd "$work"
"$work/venv/bin/python" -m pip check
"$work/venv/bin/python" - <<'END'
import rliable.metrics  # works

try:
    import rliable.library
except TypeError as error:
    print(f"import rliable.library: TypeError: {error}")
else:
    raise SystemExit("rliable.library can be imported")
END
