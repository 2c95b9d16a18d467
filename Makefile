# Two commands set everything up: `make demo` and `make test`. They need python3 >= 3.11 and a package registry.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 4
READY := $(VENV)/.ready
WITH_BENCH := PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
SOURCES := datamon workflows activities worker starter
.DEFAULT_GOAL := help

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "datamon needs python3 >= 3.11; set PYTHON=/path/to/it" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

# The tree that is installed, as links: mypy and import-linter do not know packages that lie elsewhere.
TREE := build/tree
$(TREE)/.ready: pyproject.toml $(wildcard datamon/*)
	@rm -rf $(TREE) && mkdir -p $(TREE)/datamon
	@ln -s $(addprefix $(CURDIR)/,$(wildcard datamon/*)) $(addprefix $(CURDIR)/,workflows activities worker starter) $(TREE)/datamon/
	@touch $@

.PHONY: setup
setup: $(READY) ## create .venv with the pinned dependencies

.PHONY: demo
demo: $(READY) ## run a whole diamond on the embedded stack and show it; KEEP=1 leaves it running
	@PATH="$(CURDIR)/$(BIN):$$PATH" KEEP="$(KEEP)" bash starter/demo.sh

.PHONY: test
test: $(READY) ## run all tests, on real servers; JOBS=0 runs them one after the other
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder $(PYTEST)

.PHONY: browser
browser: $(READY) ## install Chromium, where apt-get is, and what drives it
	@command -v chromium >/dev/null || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null; }
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,browser]'

.PHONY: test-browser
test-browser: browser ## look at the Web UI and reports in Chromium; SCREENSHOTS=docs/images keeps what is seen
	SCREENSHOTS="$(SCREENSHOTS)" $(BIN)/python -m pytest tests/browser $(PYTEST)

.PHONY: torture
torture: $(READY) ## break things for an hour, with seeds that are printed, and write docs/internals/reliability.md; TORTURE="--minutes 5" for less
	$(WITH_BENCH)
	$(BIN)/python -m tests.faults $(TORTURE)

BEFORE ?= HEAD
.PHONY: against
against: $(READY) ## compare with the code of the last commit, or of BEFORE=COMMIT, in turns; BENCH="--only commit" for less
	$(WITH_BENCH)
	rm -rf build/before && git clone --quiet . build/before && git -C build/before checkout --quiet $(BEFORE)
	$(MAKE) -C build/before setup && cd build/before && $(WITH_BENCH)
	$(BIN)/python -m bench.against build/before $(BENCH)

.PHONY: bench
bench: $(READY) ## compare with restic, s5cmd, rclone and dvc on one S3 server; BENCH="--rounds 1" for less
	$(BIN)/python -m bench.content $(BENCH)

.PHONY: scale
scale: $(READY) ## commits of up to 10 M files beside DuckDB and Spark SQL, many splits, and the chart in docs; half an hour
	$(WITH_BENCH)
	for what in merge listing "growth tiny" "growth entries" "growth splits" "growth chart" "concurrency knee" "concurrency adds" \
		"concurrency diamonds" "concurrency chart"; do \
		$(BIN)/python -m bench.$$what || missed="$$missed $$what"; done; test -z "$$missed"

.PHONY: docs
docs: $(READY) ## write docs/reference/reference.md from the code
	$(BIN)/python docs/reference.py

.PHONY: lint
lint: $(READY) $(TREE)/.ready ## check style, types and imports, the Dockerfile and the compose file
	$(BIN)/ruff check $(SOURCES) tests bench examples docs
	$(BIN)/ruff format --check $(SOURCES) tests bench examples docs
	MYPYPATH=$(TREE) $(BIN)/mypy
	cd $(TREE) && $(CURDIR)/$(BIN)/lint-imports --no-cache --config $(CURDIR)/.importlinter
	$(BIN)/hadolint Dockerfile
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.compose-spec docker-compose.yml

.PHONY: format
format: $(READY) ## put the code into the common style
	$(BIN)/ruff check --fix $(SOURCES) tests bench examples docs
	$(BIN)/ruff format $(SOURCES) tests bench examples docs

.PHONY: clean
clean: ## remove what the other targets made
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

.PHONY: help
help: ## show this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
