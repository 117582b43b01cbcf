# Everything a contributor runs. `make` alone lists it.

PYTHON ?= python3
UV     ?= uv
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
PIP    := $(BIN)/python -m pip --disable-pip-version-check -qq

# The tests start hundreds of processes; without bytecode each would compile everything anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint style format bench bench-long bench-peers models mutants simulate torture lock clean

help: ## Show this list
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## Make .venv with the pinned packages and this project (PYTHON=python3.12 picks another Python)

$(STAMP): requirements-dev.txt pyproject.toml apps/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "onceward needs Python 3.11 or newer; try: make setup PYTHON=python3.12"; exit 1; }
	@test -x $(BIN)/python || { echo "setup    $(VENV), $$($(PYTHON) --version)"; $(PYTHON) -m venv $(VENV); }
	@echo "setup    pinned packages"
	@$(PIP) install --require-hashes -r requirements-dev.txt
	@echo "setup    onceward and onceward-apps, editable"
	@$(PIP) install --no-deps --no-build-isolation -e . -e apps
	@touch $@

demo: setup ## See jobs found on an invented web, one of two workers killed: half a minute; WEB=1 opens the dashboard on it
	@$(BIN)/onceward-jobs demo $(if $(WEB),--web)

test: style ## Lint, then run the tests on SQLite and PostgreSQL
	@echo "test     pytest, and mypy beside it, which uses one core"
	@$(BIN)/mypy --no-error-summary > $(VENV)/types.txt 2>&1 & types=$$!; \
		$(BIN)/python -m pytest -q -n 4 --dist loadgroup -m "not torture and not alone"; tests=$$?; \
		wait $$types || { echo "lint     mypy"; cat $(VENV)/types.txt; exit 1; }; exit $$tests
	@echo "test     pytest, what is measured in real time and wants the machine for itself"
	@$(BIN)/python -m pytest -q -m "alone and not torture" $$(grep -rl --include='test_*.py' 'mark\.alone' tests)

lint: style ## Check style, format, types and layers
	@echo "lint     mypy"
	@$(BIN)/mypy --no-error-summary

style: setup
	@echo "lint     ruff check"
	@$(BIN)/ruff check --quiet .
	@echo "lint     ruff format"
	@$(BIN)/ruff format --check --quiet . || { echo "not formatted; run: make format"; exit 1; }
	@echo "lint     prose"
	@$(BIN)/python -m tests.prose
	@echo "lint     import-linter"
	@report=$$($(BIN)/lint-imports --no-logo 2>&1) || { echo "$$report"; exit 1; }

format: setup ## Format, and fix what can be fixed safely
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format .

bench: setup ## Measure, in about 10 minutes; writes bench/results/ and docs/reference/performance.md
	@$(BIN)/python -m bench --save

bench-long: setup ## The same with millions of rows and a snapshot held for 10 minutes: about an hour
	@$(BIN)/python -m bench --long --save

bench-peers: setup ## Measure other task queues beside this one, in about 20 minutes; installs them into bench/.peers
	@$(BIN)/python -m bench.peers --save

models: setup ## Check the models of the protocols with Spin, also in larger worlds: a few minutes
	@$(BIN)/python -m tests.models --larger

mutants: setup ## Put known mistakes into copies of the source, one by one, and see that a test finds each: about half an hour
	@$(BIN)/python -m tests.mutants

simulate: setup ## Run simulated worlds: SEEDS=1000 or 5000-5999, PROCESSES=2, MINUTES=10; SEED=123 tells the history of one
	@$(BIN)/python -m tests.simulation $(if $(SEED),--seed $(SEED)) $(if $(SEEDS),--seeds $(SEEDS)) \
		$(if $(PROCESSES),--processes $(PROCESSES)) $(if $(MINUTES),--minutes $(MINUTES))

torture: setup ## Run the long fault tests for MINUTES=60 and add what they count to docs/reference/proof.md; installs Debian packages they need, if root
	@$(BIN)/python -m tests.proof $(if $(MINUTES),--minutes $(MINUTES))

lock: ## Resolve the requirements files anew (needs uv; UPGRADE=--upgrade takes newer versions)
	@$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes $(UPGRADE) \
		--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
		--no-emit-package onceward --extra postgres --extra speed --extra web --extra mcp --extra otel --extra tui --extra documents --extra jobfinder --extra llm \
		pyproject.toml apps/pyproject.toml requirements-dev.in -o requirements-dev.txt
	@$(PYTHON) tests/lowest.py tools > .lowest-tools.in
	@$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes $(UPGRADE) --resolution lowest-direct \
		--no-emit-index-url --no-emit-find-links --no-annotate --custom-compile-command "make lock" \
		--no-emit-package onceward --extra postgres --extra speed --extra web --extra mcp --extra otel --extra tui --extra documents --extra jobfinder --extra llm --extra aws \
		pyproject.toml apps/pyproject.toml .lowest-tools.in -o requirements-lowest.txt
	@rm .lowest-tools.in
	@for wanted in bench/peers/requirements/*.in; do \
		case $$wanted in */oban.in) python=3.12 ;; *) python=3.11 ;; esac; \
		$(UV) pip compile --quiet --universal --python-version $$python --generate-hashes $(UPGRADE) \
			--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
			$$wanted -o $${wanted%.in}.txt || exit 1; \
	done
	@! grep -nE '://|^(-|--)[a-z]' requirements-dev.txt requirements-lowest.txt bench/peers/requirements/*.txt \
		|| { echo "a requirements file names an address"; exit 1; }

clean: ## Remove what the tools left behind, .venv included
	@rm -rf $(VENV) bench/.peers build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache htmlcov .coverage .coverage.*
	@find src apps tests bench -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
