# Everything here works on a fresh machine with Python 3.11 or later: the first target makes its own .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test soak lint bench format clean

$(STAMP): pyproject.toml setup.cfg
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e '.[test,lint,hub,fast]'
	touch $@

demo: $(STAMP)  ## judge the shipped sample offline, compare it with a blind baseline, and explain a decision
	$(BIN)/svr eval rubricbench --sample --judge rules --out runs/demo-rules
	$(BIN)/svr eval rubricbench --sample --method longest --out runs/demo-longest
	$(BIN)/svr compare runs/demo-rules runs/demo-longest
	$(BIN)/svr explain runs/demo-rules sample_if_01

test: $(STAMP)  ## the tests, in about five minutes on two cores
	$(BIN)/python -m pytest -n auto -m 'not soak' --cov --cov-report=term:skip-covered -q

soak: $(STAMP)  ## the same with the long ones
	$(BIN)/python -m pytest -n auto -q

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP)  ## speed, as ratios from one run
	$(BIN)/python benchmarks/speed/run_all.py

clean:
	rm -rf $(VENV) build dist .coverage* .mypy_cache .pytest_cache .ruff_cache .hypothesis
