# make replicate   set up, train and draw everything of the chosen preset, and say what was reproduced
# make figures     redraw every figure, table and verdict from the published results
# make test        set up and pass the tests
# make test-slurm  start a real SLURM on this machine, as root, run the workflow through it, stop it
# make verify-published   train the beginnings of published cells again, and compare
# make bench       measure speed beside Stable-Baselines3
# make fresh       the first two on a bare Debian, as root (tests/fresh.sh)
# make faults      injure it in 260 ways and more, and write docs/survival.md
# ARGS are handed on:  make replicate ARGS="--config preset=smoke"

PYTHON ?= python3
BIN := .venv/bin
CORES ?= all
ARGS ?=

.PHONY: replicate figures test verify-published test-slurm fresh lint bench faults lock

replicate: .venv/ready
	$(BIN)/hindsight replicate --cores $(CORES) -- $(ARGS)

figures: .venv/ready
	$(BIN)/hindsight replicate --cores $(CORES) --published -- $(ARGS)

# A process per core; the tests of one file stay together, for what they share is made once.
test: .venv/ready lint
	$(BIN)/python -m pytest -n logical --maxprocesses 8 --dist loadfile $(ARGS)

test-slurm: .venv/ready
	$(BIN)/python -m pytest -m slurm tests/slurm --durations=0 -rs $(ARGS)

# Today's code against the published numbers: the first iterations of one cell of each kind.
verify-published: .venv/ready
	$(BIN)/hindsight verify-published $(ARGS)

fresh:
	tests/fresh.sh $(ARGS)

lint: .venv/ready
	$(BIN)/ruff check src tests bench workflow
	$(BIN)/ruff format --check src tests bench workflow
	$(BIN)/mypy
	$(BIN)/snakefmt --check Snakefile workflow/rules
	$(BIN)/snakemake --lint

bench: .venv/ready
	$(BIN)/python bench/ppo.py $(ARGS)
	$(BIN)/python bench/kernels.py
	$(BIN)/python bench/off_policy.py
	$(BIN)/python bench/off_policy_update.py
	$(BIN)/python bench/notebook.py
	$(BIN)/python bench/replay.py
	$(BIN)/python bench/goal_environments.py
	$(BIN)/python bench/reach.py

faults: .venv/ready
	$(BIN)/python -m tests.faults.inject --out docs/survival.md $(ARGS)

# One file pins everything: what is installed here becomes requirements.lock and environment.yml.
lock:
	$(BIN)/pip freeze --exclude-editable --exclude hindsight | sed "s/+cpu//; s/^cpprb==.*/& ; python_version < '3.13'/" > requirements.lock
	sed -i '/^  - pip:/q' environment.yml
	sed 's/^/      - /' requirements.lock >> environment.yml

.venv/ready: requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, this is " + sys.version.split()[0])'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	touch $@
