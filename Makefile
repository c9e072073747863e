# Needs python3 (3.11 or newer) and make; everything else is set up in .venv on first use.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
RUN_STAMP := $(VENV)/.ready-to-run
DEV_STAMP := $(VENV)/.ready-to-develop
# more than there are cores: many tests wait for processes
JOBS ?= 5
WHEEL ?=
# a folder in which .ci/prepare-wheel has set up what the tests of a wheel need
PREPARED ?=
# a seed: only a share of what takes long, another one for each seed
DRAW ?=
# of the tests on a machine that boots: those whose names pytest -k finds
STORY ?=

.DEFAULT_GOAL := help
.PHONY: help demo test test-vm test-slurm test-kubernetes thorough elsewhere terraform lint soak mutants mutants-all planted bench docs wheel lock release wheels clean

help: ## show these lines
	@sed -n 's/^\([a-z-]*\):.*## /  make \1#/p' $(MAKEFILE_LIST) | tr '#' '\t' | expand -t 20

demo: $(RUN_STAMP) ## see it decide, without a GPU or a cloud account
	@$(VENV)/bin/costguard demo

test: $(if $(WHEEL),,$(DEV_STAMP)) ## run the tests, four minutes or so (WHEEL=dist/x.whl: against that wheel, in an environment of its own)
ifeq ($(WHEEL),)
	$(PY) -m pytest -n $(JOBS) --dist worksteal -m "not thorough" --session-timeout=1200
else
	PYTHON="$(PYTHON)" JOBS="$(JOBS)" .ci/test-wheel "$(WHEEL)" $(PREPARED)
endif

thorough: JOBS := $(if $(DRAW),5,8) # each collects all tests: few drawn ones are not worth more
thorough: $(DEV_STAMP) ## the tests that take long: a simulated year, stories of drivers, every refusal of every cloud, more random cases
	$(PY) -m pytest -n $(JOBS) --dist worksteal -m thorough --session-timeout=1200 $(if $(DRAW),--share $(DRAW):0/16)
	COSTGUARD_HYPOTHESIS=thorough $(PY) -m pytest -q -n $(JOBS) --dist worksteal -m hypothesis --session-timeout=1200 $(if $(DRAW),--share $(DRAW):0/6)

test-vm: $(DEV_STAMP) $(if $(WHEEL),,wheel) ## boot a small machine and try the service in it (QEMU; the first time it builds an image, for two minutes; STORY=gcp: those alone; CLOUD=gcp: an image for that cloud alone; SUITE=trixie: Debian 13)
	image=$$($(PY) -m tests.vm.image $(or $(WHEEL),$$(ls dist/*.whl)) $(if $(CLOUD),--cloud $(CLOUD)) $(if $(SUITE),--suite $(SUITE))) && COSTGUARD_VM_IMAGE="$$image" $(PY) -m pytest -q tests/vm $(if $(STORY),-k "$(STORY)") --session-timeout=5400

test-slurm: $(DEV_STAMP) ## beside a real Slurm on this machine (root; slurmctld slurmd slurm-client munge iproute2 of Debian): three minutes
	$(PY) -m pytest -q tests/slurm --session-timeout=1200

test-kubernetes: $(DEV_STAMP) ## beside a real Kubernetes API on this machine (kube-apiserver kube-controller-manager etcd kubectl: tests/kubernetes/README.md): two minutes
	$(PY) -m pytest -q tests/kubernetes --session-timeout=1200

elsewhere: $(DEV_STAMP) ## tests under another boot time, zone, language, user and load than this machine's
	JOBS="$(JOBS)" DRAW="$(DRAW)" .ci/elsewhere

terraform: $(DEV_STAMP) ## check the Terraform modules, with terraform and its providers; says what it could not check
	.ci/terraform

lint: $(DEV_STAMP) ## style, types and import contracts
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy --strict $(wildcard costguard providers tests bench release terraform)
	$(VENV)/bin/lint-imports

soak: $(DEV_STAMP) ## ten simulated machine-years with crashes and clock jumps
	$(PY) -m tests.simulation.soak

mutants: $(DEV_STAMP) ## break rules on purpose, and functions by chance, and see the tests fail (SEED=… draws again)
	DRAW="$(DRAW)" $(PY) -m tests.mutants.run
	$(if $(DRAW),,$(PY) -m tests.mutants.generated --count 8 --within 15)

planted: $(DEV_STAMP) ## plant bugs that nobody tuned for, and see after how many simulated days the simulation notices
	$(PY) -m tests.simulation.planted

mutants-all: $(DEV_STAMP) ## break functions in every way there is (hours); a table by file
	$(PY) -m tests.mutants.generated --all

bench: $(DEV_STAMP) ## what the resident processes cost (PARTS="beside replay" measures only those)
	$(PY) bench/run.py $(PARTS)

docs: $(RUN_STAMP) ## write the generated pages again
	$(PY) -m costguard.config.reference docs/configuration.md
	$(PY) -m costguard.engine.docs_page > docs/engine.md
	$(PY) -m terraform.generate
	$(PY) -m release.film > docs/demo.svg

wheel: $(VENV)/bin/python ## build dist/*.whl
	rm -rf dist
	$(PY) -m pip wheel --quiet --no-deps --wheel-dir dist .
	@ls dist/*.whl

lock: $(DEV_STAMP) ## write anew which versions of libraries the tests ran with (asks the index for their checksums)
	$(PY) -m release.lock

release: $(DEV_STAMP) ## dist/ with wheel, sdist, lock, SBOM and checksums of the last commit; twice gives the same bytes
	rm -rf dist
	$(PY) -m release dist

wheels: $(DEV_STAMP) ## dist/wheels/ for images and machines without a package index: all that costguard needs (CLOUD=aws, gcp or azure)
	$(PY) -m release.wheels dist/wheels $(or $(CLOUD),$(error name a cloud: make wheels CLOUD=aws))

clean: ## remove what make made
	rm -rf $(VENV) dist build

$(VENV)/bin/python:
	@command -v $(PYTHON) >/dev/null || { echo "error: no $(PYTHON) in PATH; install Python 3.11 or newer, or name one: make PYTHON=/path/to/python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("error: costguard needs Python 3.11 or newer, and $(PYTHON) is " + sys.version.split()[0] + "; name another one: make PYTHON=/path/to/python3.12")'
	@echo "Setting up $(VENV) (once)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "error: $(PYTHON) cannot make a virtual environment; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@$(PY) -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'

$(RUN_STAMP): pyproject.toml $(VENV)/bin/python
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-compile --editable . # what is imported is compiled then
	@$(PY) -m compileall -q costguard
	@touch $@

$(DEV_STAMP): pyproject.toml $(RUN_STAMP)
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-compile --group dev
	@touch $@
