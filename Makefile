# Everything a person or a machine does here. Needs GNU make and Python 3.11 or newer; fetches the rest.
# ARGS passes options on:   make test ARGS="tests/sync -x"

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help setup demo test check fix bench chaos test-matrix clean

define HELP
make setup        fetch uv and the locked dependencies into .tools and .venv
make demo         producers, a group and a Spark pipeline on a Postgres of its own, live, with a summary
make test         run the tests in their short forms, several at once; ARGS="-n 0" one after the other
make check        lint, types, imports, generated files, acceptance numbers
make fix          fix what can be fixed: lint, format, generated files
make bench        measure the log, groups, Spark, the outbox, queues and the portable API against their baselines; WHAT=groups measures one
make chaos        run the long forms of the tests
make test-matrix  run the tests on PostgreSQL 14 to 18
make clean        remove what make has fetched or made
endef

# PYTHON=/path/to/python make setup   chooses another one; .venv keeps the one it was made with.
setup := sh tools/setup.sh

help:
	$(info $(HELP))
	@:

setup:
	@$(setup) --next

demo:
	@$(setup)
	@.venv/bin/trunkline demo $(ARGS)

test:
	@$(setup)
	@.venv/bin/pytest -n auto $(ARGS)

check:
	@$(setup)
	@.venv/bin/python -m tools.check $(ARGS)

fix:
	@$(setup)
	@.venv/bin/python -m tools.check --fix

WHAT := log groups spark outbox queues portable
bench:
	@$(setup)
	@status=0; for name in $(WHAT); do .venv/bin/trunkline bench $$name $(ARGS) || status=$$?; done; exit $$status

chaos:
	@$(setup)
	@.venv/bin/pytest tests -m chaos $(ARGS)

test-matrix:
	@$(setup)
	@.venv/bin/python -m tools.matrix $(ARGS)

clean:
	rm -rf .venv .tools .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
