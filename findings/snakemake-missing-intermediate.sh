#!/bin/sh
# snakemake 9.27.1 (Python 3.11 or newer).
#
# A rule whose input is missing does not run again if its output is there and newer than its other
# inputs, although another rule makes that input, and neither temp() nor --rerun-triggers is used.  Only
# what is asked for is looked for: the plan is empty until the missing file is itself a target.
#
# It matters for who wants a job to run again by adding an input that does not exist, or trusts that a
# deleted intermediate file is noticed: "Nothing to be done".
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile snakemake==9.27.1
cd "$work"
cat > Snakefile <<'END'
rule table:
    input: "cell", "mark"
    output: "table"
    shell: "cat {input} > {output}"

rule mark:
    output: "mark"
    shell: "echo again > {output}"
END
echo 1 > cell
run() { "$work/venv/bin/snakemake" --quiet all --cores 1 "$@"; }
planned() { "$work/venv/bin/snakemake" --dry-run "$@" 2>&1; }
run table
rm mark
echo "after the input 'mark' was deleted, asked for 'table':"
planned table | tee told | grep -i "nothing to be done"
test ! -e mark
echo "asked for 'table' and 'mark':"
planned table mark > told
grep -E "^(mark|table) +1" told | sort -u
