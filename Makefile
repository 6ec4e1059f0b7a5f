# Two commands matter: `make run` and `make test`. Both build a virtual environment first.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

.PHONY: run demo test test-windows test-pi check lint types contracts bench clean

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	$(BIN)/python -m compileall -q zcsyncd
	@touch $@

$(VENV)/.tested: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@

$(VENV)/.dev: $(VENV)/.tested
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

run: $(VENV)/.installed  ## the daemon in the foreground, on your own memory directories
	$(BIN)/zcsyncd run

demo: $(VENV)/.installed  ## half a minute in a throw-away home
	$(BIN)/zcsyncd run --demo

test: $(VENV)/.tested  ## the tests
	$(BIN)/python -m pytest

test-windows: $(VENV)/.installed  ## the Windows part on a Windows Python under Wine (docs/windows.md tells what it needs)
	tests/windows/run.sh $(BIN)/python

test-pi: $(VENV)/.tested  ## the plugin in a real pi and a real omp; PI_HOSTS=DIR keeps their packages (1.1 GB)
	tests/plugins/pi/run.sh $(BIN)/python $(PI_HOSTS)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy --platform linux
	$(BIN)/mypy --platform darwin
	$(BIN)/mypy --platform win32

contracts: $(VENV)/.dev
	$(BIN)/lint-imports

check: test lint types contracts  ## all that must be green

bench: $(VENV)/.dev  ## the figures of docs/benchmarks.md
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build
