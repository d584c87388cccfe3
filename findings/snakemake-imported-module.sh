#!/bin/sh
# Snakemake 9.27.1.
#
# Snakemake reruns a rule if its script has changed, even in a comment, but not if a module has changed that
# the script imports.
#
# It matters to workflows whose scripts are thin and whose package does the work: edit the package, and
# the old results count as up to date.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile snakemake==9.27.1
cd "$work"
cat > Snakefile <<'END'
rule reward:
    output: "reward.txt"
    script: "reward.py"
END
cat > reward.py <<'END'
import sys

sys.path.insert(0, ".")
from physics import REWARD

with open(snakemake.output[0], "w") as file:
    file.write(str(REWARD))
END
planned() { "$work/venv/bin/snakemake" --cores 1 --dry-run 2>&1 | grep -c '^rule reward:' || true; }
echo 'REWARD = 1' > physics.py
"$work/venv/bin/snakemake" --cores 1 > log 2>&1 || { cat log; exit 1; }
echo 'REWARD = 2' > physics.py
module=$(planned)
echo '# a comment' >> reward.py
comment=$(planned)
echo "jobs planned after an edit of the imported module: $module; after a comment in the script: $comment"
test "$module $comment" = "0 1"
