#!/bin/sh
# Snakemake 9.27.1.
#
# An output marked update() is not deleted before its job.  If the job fails, its old content is put back,
# with the time of now: newer than the input that had made it stale.  The next run says that nothing is to
# be done.
#
# It matters to every rule that adds to a file it keeps: after one failure, old content passes for new.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile snakemake==9.27.1
cd "$work"
cat > Snakefile <<'END'
rule total:
    input: "numbers.txt"
    output: update("total.txt")
    shell: "echo half-written >> {output}; test ! -e broken; cp {input} {output}"
END
snakemake() { "$work/venv/bin/snakemake" --cores 1 "$@" > log 2>&1; }
echo old > numbers.txt
snakemake
echo new > numbers.txt
touch -t 202001010000 total.txt
touch broken
if snakemake; then echo "the job did not fail"; exit 1; fi
rm broken
snakemake
echo "input: $(cat numbers.txt); output after a failed job and a second run: $(cat total.txt)"
grep 'Nothing to be done' log
test "$(cat total.txt)" = old
