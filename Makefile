# Everything a newcomer runs. Each target sets up what it needs: a virtual environment in .venv, and in it
# what the requirements files pin. Paths are relative, since make cannot quote the clone's own.

.DEFAULT_GOAL := help
.PHONY: help demo run test test-again check docs simulate chaos-smoke chaos chaos-jobs chaos-mutants bench bench-report set-up set-up-dev set-up-bench

PYTHON := .venv/bin/python
# Where compiled modules may not be kept, each process compiles all of ours: the tests start a thousand.
export PYTHONDONTWRITEBYTECODE :=
# What is handed to the command: make demo ARGS="--exit --pages 2000"
ARGS ?=
# What is handed to pytest: make test PYTEST_ARGS="-k pause". Two processes share the tests, each with a database of its
# own: the clusters of more would want more connections than the embedded server has.
PYTEST_ARGS ?=
# What chooses the main while chaos reigns: make chaos-smoke COORDINATION=zookeeper
COORDINATION ?= database

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 14

demo: set-up ## crawl a synthetic site with a small cluster, and watch it in the browser
	@exec $(PYTHON) manage.py demo $(ARGS)

run: set-up ## start managers, workers and the web server on the configured database
	@exec $(PYTHON) manage.py run $(ARGS)

test: set-up-dev ## run all tests that this machine can run
	$(PYTHON) -m pytest -n logical --maxprocesses 2 --dist worksteal $(PYTEST_ARGS) tests/unit tests/simulation tests/integration tests/acceptance

test-again: set-up-dev ## run those tests that failed last time once more, one after another
	$(PYTHON) -m pytest -n0 --last-failed --last-failed-no-failures none --maxfail 3 $(PYTEST_ARGS) tests

check: set-up-dev ## look at format, types, import rules, templates, migrations
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m ruff check .
	$(PYTHON) -m mypy .
	$(PYTHON) -c "from importlinter.cli import lint_imports_command; lint_imports_command()"
	$(PYTHON) -m djlint --check --lint templates
	$(PYTHON) manage.py makemigrations --check
	$(PYTHON) manage.py check --fail-level WARNING
	@if command -v node >/dev/null; then \
	  for script in static/js/*.js; do \
	    [ ! -e "$$script" ] || node --input-type=module --check <"$$script" || { echo "in $$script" >&2; exit 1; }; \
	  done; \
	fi

docs: set-up-dev ## compile the documentation to var/docs, which the web server serves at /manual/
	@$(PYTHON) -m sphinx -W --keep-going -q -b html -c docs/site -d var/doctrees . var/docs && echo "var/docs/docs/index.html"

simulate: set-up-dev ## live thousands of random histories of a cluster, without processes: ARGS="--replay SEED" tells one
	@exec $(PYTHON) -m tests.simulation $(ARGS)

chaos-smoke: set-up-dev ## let faults fall upon a crawling cluster for two minutes, and look from outside what came of it
	@exec $(PYTHON) -m tests.chaos.run --seconds 110 --coordination $(COORDINATION) $(ARGS)

chaos: set-up-dev ## the same for forty minutes; figures go to var/chaos.json
	@exec $(PYTHON) -m tests.chaos.run --seconds 2400 --coordination $(COORDINATION) $(ARGS)

chaos-jobs: set-up-dev ## cut off, freeze, kill, close and start processes with distributed jobs at random, for a minute in either store
	@CRAWLCTL_CHAOS_SECONDS=60 $(PYTHON) -m pytest -n0 -q tests/acceptance/distributed/test_chaos.py tests/acceptance/distributed/test_processes_chaos.py $(PYTEST_ARGS)

chaos-mutants: set-up-dev ## switch off one safeguard at a time, and see that chaos catches it
	@exec $(PYTHON) -m tests.chaos.mutants $(ARGS)

bench: set-up-dev set-up-bench ## measure beside Scrapy; figures go to var/bench.json
	@exec $(PYTHON) -m tests.benchmarks.bench $(ARGS)

bench-report: set-up-dev ## measure turns of jobs, removals, new jobs beside long ones, decisions and moves of groups, pace, crawls of many hosts, nodes, reports, files, latency, processes, what the queue costs as it grows, growth of runs
	@$(PYTHON) -m tests.benchmarks.transitions
	@$(PYTHON) -m tests.benchmarks.newcomer
	@$(PYTHON) -m tests.benchmarks.decisions
	@$(PYTHON) -m tests.benchmarks.coordination
	@$(PYTHON) -m tests.benchmarks.moves
	@$(PYTHON) -m tests.benchmarks.pace
	@$(PYTHON) -m tests.benchmarks.fairness
	@$(PYTHON) -m tests.benchmarks.wide
	@$(PYTHON) -m tests.benchmarks.life
	@$(PYTHON) -m tests.benchmarks.reports
	@$(PYTHON) -m tests.benchmarks.files
	@$(PYTHON) -m tests.benchmarks.pages
	@$(PYTHON) -m tests.benchmarks.latency
	@$(PYTHON) -m tests.benchmarks.processes
	@$(PYTHON) -m tests.benchmarks.queue_cost
	@$(PYTHON) -m tests.benchmarks.growth --plot docs/growth.svg

# Scrapy's pins must not bend ours, so it lives apart.
set-up-bench: REQUIREMENTS := requirements-bench.txt
set-up-bench: ENVIRONMENT := .venv-bench
set-up-dev: REQUIREMENTS := requirements-dev.txt
set-up: REQUIREMENTS := requirements.txt
set-up set-up-dev: ENVIRONMENT := .venv
set-up set-up-dev set-up-bench:
	@command -v python3 >/dev/null || { echo "crawlctl needs Python 3.11 or newer: there is no python3 here." >&2; exit 1; }
	@python3 tools/set_up.py $(ENVIRONMENT) $(REQUIREMENTS)
