# All commands of developers. Each target first creates .venv with the packages that the requirements files pin.
# Paths are relative, because make cannot quote the path of the clone.

.DEFAULT_GOAL := help
# `make check` runs these checks in parallel, the longest first. Each is also a target, such as `make check-types`.
CHECKS := $(addprefix check-, types english packages templates migrations settings imports lint format scripts)

.PHONY: help demo run test test-again coverage check $(CHECKS) docs catalogues simulate chaos-smoke chaos chaos-partitions chaos-moves chaos-jobs chaos-mutants bench bench-report set-up set-up-dev set-up-bench

PYTHON := .venv/bin/python
# The tests start a thousand processes. Without stored bytecode, each of them would compile all modules.
export PYTHONDONTWRITEBYTECODE :=
# Arguments of the command: make demo ARGS="--exit --pages 2000"
ARGS ?=
# Arguments of pytest: make test PYTEST_ARGS="-k pause"
PYTEST_ARGS ?=
# A part of the tests: make test TESTS=tests/unit
TESTS ?= tests/unit tests/simulation tests/integration tests/acceptance
# Processes that share the tests, each with its own database. Many tests wait for daemons, so there are three processes
# for each core. The connections of the embedded server suffice for eight.
PROCESSES ?= $(shell n=$$(getconf _NPROCESSORS_ONLN); echo $$((n < 3 ? 3 * n : 8)))
PYTEST := -m pytest -n $(PROCESSES) --dist worksteal
# The store that elects the main manager in chaos runs: make chaos-smoke COORDINATION=zookeeper
COORDINATION ?= database

# The first page of the compiled documentation.
MANUAL := var/docs/docs/index.html
# Compiled texts of the pages in all languages except English.
CATALOGUES := $(patsubst %.po,%.mo,$(wildcard locale/*/LC_MESSAGES/django.po))
COMPILE := $(PYTHON) -m sphinx -W --keep-going -q -b html -c docs/site -d var/doctrees . var/docs

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 14

demo: set-up $(CATALOGUES) $(MANUAL) ## crawl a synthetic site with a small cluster, and watch it in the browser
	@exec $(PYTHON) manage.py demo $(ARGS)

run: set-up $(CATALOGUES) $(MANUAL) ## start a manager, workers, a task worker and the web server on the configured database
	@exec $(PYTHON) manage.py run $(ARGS)

test: set-up-dev ## run all tests that this machine can run
	$(PYTHON) -m tests.support.in_memory $(PYTHON) $(PYTEST) $(PYTEST_ARGS) $(TESTS)

test-again: set-up-dev ## run the tests that failed last time again, one after another
	$(PYTHON) -m pytest -n0 --last-failed --last-failed-no-failures none --maxfail 3 $(PYTEST_ARGS) tests

# Acceptance tests start daemons, which a measurement would slow down.
coverage: set-up-dev ## run all tests except acceptance tests, and fail if their coverage is below the minimum
	@mkdir -p var/coverage && rm -f var/coverage/*
	COVERAGE_FILE="$$PWD/var/coverage/data" $(PYTHON) -m coverage run $(PYTEST) $(PYTEST_ARGS) tests/unit tests/simulation tests/integration
	@COVERAGE_FILE="$$PWD/var/coverage/data" $(PYTHON) -m coverage combine --quiet
	@COVERAGE_FILE="$$PWD/var/coverage/data" $(PYTHON) -m coverage report --skip-covered

check: set-up-dev ## check format, lint, types, imports, packages, templates, migrations, settings, scripts and plain English
	@$(MAKE) --no-print-directory --jobs $$(getconf _NPROCESSORS_ONLN) --output-sync=target --keep-going $(CHECKS)

check-format:
	$(PYTHON) -m ruff format --check .

check-lint:
	$(PYTHON) -m ruff check .

check-types:
	$(PYTHON) -m mypy .

check-imports:
	$(PYTHON) -c "from importlinter.cli import lint_imports_command; lint_imports_command()"

check-packages:
	$(PYTHON) -m deptry .

check-templates:
	$(PYTHON) -m djlint --check --lint templates

check-migrations:
	$(PYTHON) manage.py makemigrations --check

check-settings:
	$(PYTHON) manage.py check --fail-level WARNING

check-english:
	$(PYTHON) -m tools.plain_english

check-scripts:
	@if command -v node >/dev/null; then \
	  for script in static/js/*.js; do \
	    [ ! -e "$$script" ] || node --input-type=module --check <"$$script" || { echo "in $$script" >&2; exit 1; }; \
	  done; \
	fi

docs: set-up-dev ## compile the documentation to var/docs; the web server serves it at /manual/
	@$(COMPILE) && echo "$(MANUAL)"

# `make demo` and `make run` compile the manual if a source has changed. Without the manual, “Help” shows the sources.
$(MANUAL): $(wildcard *.md) $(shell find docs static/css -type f) | set-up
	@$(COMPILE) && touch $@ || echo "The documentation could not be compiled. Help shows its sources." >&2

$(CATALOGUES): %.mo: %.po | set-up
	@$(PYTHON) tools/compile_catalogues.py

catalogues: set-up-dev ## add new texts of the pages to the catalogues of the languages, for their translators
	$(PYTHON) -m tools.catalogues update

simulate: set-up-dev ## simulate thousands of random histories of a cluster, without processes; ARGS="--replay SEED" prints one
	@exec $(PYTHON) -m tests.simulation $(ARGS)

chaos-smoke: set-up-dev ## inject faults into a crawling cluster for two minutes, and check the result from outside
	@exec $(PYTHON) -m tests.chaos.run --seconds 110 --coordination $(COORDINATION) $(ARGS)

chaos: set-up-dev ## inject faults for forty minutes; figures go to var/chaos.json
	@exec $(PYTHON) -m tests.chaos.run --seconds 2400 --coordination $(COORDINATION) $(ARGS)

chaos-partitions: set-up-dev ## kill processes and servers of two partitions, stop and restore them, 200 times, and compare the documents
	@exec $(PYTHON) -m tests.chaos.partitions $(ARGS)

chaos-moves: set-up-dev ## restore databases that give or receive slots, before, during and after moves, and compare the documents
	@exec $(PYTHON) -m tests.chaos.restored_moves $(ARGS)

chaos-jobs: set-up-dev ## inject faults into processes with distributed jobs, for a minute in each store
	@CRAWLCTL_CHAOS_SECONDS=60 $(PYTHON) -m pytest -n0 -q tests/acceptance/distributed/test_chaos.py tests/acceptance/distributed/test_processes_chaos.py $(PYTEST_ARGS)

chaos-mutants: set-up-dev ## switch off one safeguard at a time, and check that the chaos test finds the defect
	@exec $(PYTHON) -m tests.chaos.mutants $(ARGS)

bench: set-up-dev set-up-bench ## compare with Scrapy; figures go to var/bench.json
	@exec $(PYTHON) -m tests.benchmarks.bench $(ARGS)

bench-report: set-up-dev ## run most other benchmarks (docs/benchmarks.md); draws docs/growth.svg
	@$(PYTHON) -m tests.benchmarks.transitions
	@$(PYTHON) -m tests.benchmarks.newcomer
	@$(PYTHON) -m tests.benchmarks.decisions
	@$(PYTHON) -m tests.benchmarks.coordination
	@$(PYTHON) -m tests.benchmarks.moves
	@$(PYTHON) -m tests.benchmarks.pace
	@$(PYTHON) -m tests.benchmarks.fairness
	@$(PYTHON) -m tests.benchmarks.wide
	@$(PYTHON) -m tests.benchmarks.life
	@$(PYTHON) -m tests.benchmarks.thousand
	@$(PYTHON) -m tests.benchmarks.partitions
	@$(PYTHON) -m tests.benchmarks.reports
	@$(PYTHON) -m tests.benchmarks.files
	@$(PYTHON) -m tests.benchmarks.pages
	@$(PYTHON) -m tests.benchmarks.latency
	@$(PYTHON) -m tests.benchmarks.tasks
	@$(PYTHON) -m tests.benchmarks.authorities
	@$(PYTHON) -m tests.benchmarks.search_access
	@$(PYTHON) -m tests.benchmarks.exports
	@$(PYTHON) -m tests.benchmarks.processes
	@$(PYTHON) -m tests.benchmarks.queue_cost
	@$(PYTHON) -m tests.benchmarks.cluster_history
	@$(PYTHON) -m tests.benchmarks.run_samples
	@$(PYTHON) -m tests.benchmarks.freshness
	@$(PYTHON) -m tests.benchmarks.freshness_cost
	@$(PYTHON) -m tests.benchmarks.growth --plot docs/growth.svg

# Scrapy has its own environment, so that its pins do not change ours.
set-up-bench: REQUIREMENTS := requirements-bench.txt
set-up-bench: ENVIRONMENT := .venv-bench
set-up-dev: REQUIREMENTS := requirements-dev.txt
set-up: REQUIREMENTS := requirements.txt requirements-docs.txt
set-up set-up-dev: ENVIRONMENT := .venv
set-up set-up-dev set-up-bench:
	@command -v python3 >/dev/null || { echo "crawlctl needs Python 3.11 or newer, and this machine has no python3." >&2; exit 1; }
	@python3 tools/set_up.py $(ENVIRONMENT) $(REQUIREMENTS)
