# Every target does its own set-up, once: bin/setup. "make help" lists them.
SHELL := /bin/bash
PYTHON := .venv/bin/python
ENV := PYTHONPATH=include:plugins:.
PENSTOCK := .venv/bin/penstock

ON_A_CLUSTER = law0_on_spark.py generations_on_spark.py correct_and_audit.py shards_on_spark.py \
	at_the_same_moment.py preload_in_intervals.py undeclared_on_spark.py owed_history.py

.PHONY: help setup docs demo up down status lint test test-all soak clean

help: ## this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' Makefile | expand -t 20

setup: ## virtual environment, jars, the command .venv/bin/penstock
	@bin/setup

demo: setup ## the whole loop on the flights of 2013
	@$(PENSTOCK) demo --setup-seconds "$$(cat .venv/setup-seconds)"

up: setup ## start PostgreSQL and Airflow
	@$(PENSTOCK) up

down: ## stop everything
	@if [ -x $(PENSTOCK) ]; then $(PENSTOCK) down; else echo "Nothing runs: nothing is set up."; fi

status: ## what runs and how it is
	@if [ -x $(PENSTOCK) ]; then $(PENSTOCK) status || true; else echo "Nothing is set up. Start it: make up"; fi

docs: setup ## docs/reference from the models
	$(ENV) $(PYTHON) docs/generate_reference.py

lint: setup ## style, types, rings
	$(ENV) $(PYTHON) -m ruff check .
	$(ENV) $(PYTHON) -m ruff format --check .
	$(ENV) $(PYTHON) -m mypy -p penstock.core -p penstock.config -p penstock.control
	$(ENV) .venv/bin/lint-imports

.venv/spark.jsa: requirements.txt tests/archive.py | setup
	@$(ENV) PENSTOCK_SYNC=false $(PYTHON) -m tests.archive || echo "no archive of Spark's classes: tests go without"

test: lint .venv/spark.jsa ## lint and the tests that fit into minutes
	$(ENV) $(PYTHON) -m pytest -n 2 --dist loadscope --no-loadscope-reorder -m "not all"

test-all: lint .venv/spark.jsa ## lint and every test, those of the loop on a cluster, too
	$(ENV) $(PYTHON) -m pytest
	$(ENV) PENSTOCK_TEST_NODES=2 $(PYTHON) -m pytest tests/e2e/test_loop.py \
		$(addprefix tests/spark/test_,$(ON_A_CLUSTER))

soak: setup ## MINUTES=n [SEED=s] [INTO=folder]: a pipeline under random faults, then the balance
	$(ENV) $(PYTHON) -m tests.soak --minutes $(or $(MINUTES),2) $(if $(SEED),--seed $(SEED)) \
		$(if $(INTO),--into $(INTO))

clean: down ## remove what set-up made; data in .penstock stay
	rm -rf .venv jars/*.jar
