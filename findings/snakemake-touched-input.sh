#!/bin/sh
# Snakemake 9.27.1.
#
# A new time alone does not rerun a rule if the input is small, since its checksum is compared; for an
# input of more than a megabyte the time decides.
#
# It matters where data are copied or checked out anew: the same workflow reruns what reads large files
# and nothing that reads small ones.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile snakemake==9.27.1
cd "$work"
cat > Snakefile <<'END'
rule copy:
    input: "in-{size}.bin"
    output: "out-{size}.bin"
    shell: "cp {input} {output}"
END
planned() { "$work/venv/bin/snakemake" --cores 1 --dry-run "out-$1.bin" 2>&1 | grep -c '^rule copy:' || true; }
for size in 1000 2000000; do
    head -c "$size" /dev/zero > "in-$size.bin"
    "$work/venv/bin/snakemake" --cores 1 "out-$size.bin" > log 2>&1 || { cat log; exit 1; }
    before=$(planned $size)
    sleep 1
    touch "in-$size.bin"
    after=$(planned $size)
    echo "$size bytes: jobs planned $before, after touching the input $after"
    case $size in
        1000) test "$before $after" = "0 0" ;;
        *) test "$before $after" = "0 1" ;;
    esac
done
