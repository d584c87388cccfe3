#!/bin/sh
# Snakemake 9.27.1.
#
# --report puts outputs into the report whose inputs have changed since, with status 0 and without a
# word, though a dry run at the same moment plans to make them again.
#
# It matters where a report is made after new results, or with another --config: its figures can be of
# the results before.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile snakemake==9.27.1 pygments==2.21.0
cd "$work"
cat > Snakefile <<'END'
rule copy:
    input: "in.txt"
    output: report("out.txt", category="results")
    shell: "cp {input} {output}"
END
snakemake() { "$work/venv/bin/snakemake" "$@" > log 2>&1; }
echo old > in.txt
snakemake --cores 1 || { cat log; exit 1; }
sleep 1
echo new > in.txt
snakemake --dry-run
planned=$(grep -c '^rule copy:' log || true)
snakemake --report report.zip || { cat log; exit 1; }
shown=$("$work/venv/bin/python" -c 'if True:
    import zipfile
    with zipfile.ZipFile("report.zip") as made:
        (name,) = (x for x in made.namelist() if x.endswith("out.txt"))
        print(made.read(name).decode().strip())')
warned=$(grep -ciE 'updat|outdated|stale|newer' log || true)
echo "jobs planned $planned; --report: status 0, shows \"$shown\", lines that warn $warned"
test "$planned $shown $warned" = "1 old 0"
