# ARGS are passed on:  make replicate ARGS="--config preset=smoke"

PYTHON ?= python3
BIN := .venv/bin
CORES ?= all
ARGS ?=
# Which build of PyTorch to install: empty for PyPI's (on Linux with CUDA), or a folder of
# https://download.pytorch.org/whl, such as cpu.  It counts when .venv is made.
TORCH ?=

.PHONY: help docs replicate figures test verify-published test-slurm fresh lint bench faults lock

# Times are for two cores, without the set-up, which the first target does once.
help:
	@echo "make figures           redraw every published figure, table and verdict: one to four minutes"
	@echo "make replicate         train the preset of config.yaml, draw, judge: 10-20 minutes for laptop"
	@echo "make replicate ARGS=\"--config preset=smoke\"      everything, tiny: two to five minutes"
	@echo "make verify-published  retrain the first iterations of published cells, and compare"
	@echo "make test              lint, then run all tests"
	@echo "make lint              ruff, mypy, figures and claims, Snakemake's linter and formatter"
	@echo "make docs              build the documentation site in site/: a minute"
	@echo "make bench             measure speed, compared with Stable-Baselines3"
	@echo "make faults            inject about 130 faults, and write docs/survival.md"
	@echo "make fresh             try README's commands, or the Dockerfile's, on a bare Debian, as root"
	@echo "make test-slurm        test with a real SLURM on this machine, as root: ten minutes"
	@echo "make lock              pin the installed packages in the requirements*.lock and environment.yml"
	@echo "TORCH=cpu, with any of them, sets up .venv with PyTorch for CPUs: 1.7 GB instead of 5.5"

replicate: .venv/ready
	$(BIN)/hindsight replicate --cores $(CORES) -- $(ARGS)

figures: .venv/ready
	$(BIN)/hindsight replicate --cores $(CORES) --published -- $(ARGS)

# One process per core.  The tests of one file stay in one process, because they share fixtures, and the
# longest files come first (tests/conftest.py).
test: .venv/test lint
	$(BIN)/python -m pytest -n logical --maxprocesses 8 --dist loadfile --no-loadscope-reorder $(ARGS)

test-slurm: .venv/test
	$(BIN)/python -m pytest -m slurm tests/slurm --durations=0 -rs $(ARGS)

# Compare today's code with the published numbers: the first iterations of one cell of each kind.
verify-published: .venv/ready
	$(BIN)/hindsight verify-published $(ARGS)

fresh:
	tests/fresh.sh $(ARGS)

lint: .venv/test
	$(BIN)/ruff check src tests bench workflow
	$(BIN)/ruff format --check src tests bench workflow
	$(BIN)/mypy
	$(BIN)/hindsight plan > /dev/null
	$(BIN)/snakefmt --check Snakefile workflow/rules
	$(BIN)/snakemake --lint

# The documentation site has its own packages, in their own virtual environment.  Warnings are errors, so
# --quiet would hide why it failed; the variable silences only the theme's notice about its own future.
docs: .venv/docs/ready
	NO_MKDOCS_2_WARNING=1 .venv/docs/bin/mkdocs build $(ARGS)

.venv/docs/ready: pyproject.toml
	$(PYTHON) -m venv .venv/docs
	.venv/docs/bin/$(INSTALL) $$($(PYTHON) -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["docs"])')
	touch $@

bench: .venv/test
	$(BIN)/python bench/training.py $(ARGS)
	$(BIN)/python bench/replay.py
	$(BIN)/python bench/environments.py
	$(BIN)/python bench/reach.py

faults: .venv/test
	$(BIN)/python -m pytest -m faults tests/faults -n 4 --turns 8 --survival docs/survival.md $(ARGS)

# Pin what is installed here: in requirements.lock and environment.yml what the replication needs, in
# requirements-test.lock what tests, linters and benchmarks need besides.  requirements-hashes.lock adds the
# hashes of PyPI's files, and what torch needs for GPUs.
PINNED = pip freeze --exclude-editable --exclude hindsight-rl | sed "s/+cpu//; s/^cpprb==.*/& ; python_version < '3.13'/"
lock: .venv/test
	$(BIN)/$(PINNED) > .venv/pinned
	$(PYTHON) -m venv --clear .venv/lock
	.venv/lock/bin/python -m pip install --quiet --constraint .venv/pinned ".[pipeline,robots,report]"
	.venv/lock/bin/$(PINNED) > requirements.lock
	grep --invert-match --line-regexp --fixed-strings --file requirements.lock .venv/pinned > requirements-test.lock
	.venv/lock/bin/python -m pip install --quiet uv
	.venv/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --custom-compile-command "make lock" --constraint requirements.lock --extra pipeline --extra robots --extra report pyproject.toml --output-file requirements-hashes.lock
	sed -i '/^  - pip:/q' environment.yml
	sed 's/^/      - /' requirements.lock >> environment.yml

# Each package's hash is checked, but for torch, of which there are builds for CPUs and for GPUs with
# other hashes, and for what the build for GPUs needs: those are pinned by their versions.  From
# PyTorch's own index comes torch alone (--no-deps); PyPI has all that it needs.
INSTALL = python -m pip install --disable-pip-version-check
BUILDS = /^(torch|triton|(cuda|nvidia)-[a-z0-9-]+)==/,/[^\\]$$/d

# --no-compile: compiling everything would take half of the time.  What every job imports is compiled
# here, by importing it: with PYTHONDONTWRITEBYTECODE, or in a container that is removed, each job would
# compile it again.
.venv/ready: requirements.lock requirements-hashes.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, this is " + sys.version.split()[0])'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "Installing into .venv: $(if $(filter cpu,$(TORCH)),1.7 GB,5.5 GB on Linux; 1.7 GB without CUDA: make TORCH=cpu)"
	sed -E '$(BUILDS)' requirements-hashes.lock | $(BIN)/$(INSTALL) --no-compile --no-deps --require-hashes -r /dev/stdin
	$(if $(TORCH),$(BIN)/$(INSTALL) --no-compile --no-deps --index-url https://download.pytorch.org/whl/$(TORCH) $$(grep '^torch==' requirements.lock))
	$(BIN)/$(INSTALL) --no-compile -r requirements.lock
	$(BIN)/$(INSTALL) --no-deps --no-build-isolation --editable .
	env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m compileall -q src
	env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -c 'import hindsight.cli, hindsight.figures.draw, hindsight.report.build, hindsight.training.off_policy, hindsight.training.on_policy, scipy.stats, snakemake.cli'
	touch $@

.venv/test: .venv/ready requirements-test.lock
	$(BIN)/$(INSTALL) --no-compile -r requirements-test.lock
	touch $@
