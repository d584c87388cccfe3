#!/bin/sh
# snakemake 9.27.1 with snakemake-executor-plugin-slurm 2.8.0 (Python 3.11 or newer).
#
# On SLURM, --cores is the most that one job gets: a rule with 8 threads asks for 2 CPUs with --cores 2,
# its {threads} are 2, and no line says that they were cut.  --jobs limits the number of jobs, and
# without --cores every job gets its threads.
#
# It matters for who takes --cores in a profile for the size of the pool, as on one machine, or copies
# a profile with `cores: 1`: training in parallel becomes training on one core, many times slower.
#
# Small stand-ins for SLURM's commands write down what they are asked for, and refuse the job.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile \
  snakemake==9.27.1 snakemake-executor-plugin-slurm==2.8.0
mkdir "$work/bin"
printf '#!/bin/sh\necho "$*" > "%s/asked"\nexit 1\n' "$work" > "$work/bin/sbatch"
printf '#!/bin/sh\necho mine\n' > "$work/bin/sshare"
for name in squeue sacct sacctmgr sinfo scancel; do
  printf '#!/bin/sh\n' > "$work/bin/$name"
done
chmod +x "$work"/bin/*
cd "$work"
cat > Snakefile <<'END'
rule train:
    output: "done"
    threads: 8
    resources: slurm_account="mine", slurm_partition="cpu", runtime=10, mem_mb=1000
    shell: "echo {threads} > {output}"
END
asked() {
  rm -rf .snakemake asked
  PATH="$work/bin:$PATH" "$work/venv/bin/snakemake" --executor slurm "$@" > told 2>&1 || true
  echo "snakemake --executor slurm $*: $(grep -oE -e '--cpus-per-task=[0-9]+' asked)," \
    "threads of the job $(sed -n 's/^ *threads: //p' told | head -1)"
}
asked --jobs 1 --cores 2 | tee capped
if grep -iE 'fewer|reduc|limit|exceed' told; then exit 1; fi
asked --jobs 1 | tee whole
grep -q -e '--cpus-per-task=2,' capped
grep -q -e '--cpus-per-task=8,' whole
