# Everything here works on a fresh machine with Python 3.11 or later: the first target makes its own .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet  # setuptools warns at length of editable installs
ALONE := $(VENV)/.package
STAMP := $(VENV)/.installed
DOCS := $(VENV)/.docs
DEMO := runs/demo
HELD := pairs --data $(DEMO)/test.jsonl

.PHONY: demo test coverage soak lint bench docs reference release-check format clean

$(ALONE): pyproject.toml setup.cfg  # the package, which is all that the demo needs
	$(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade pip
	$(PIP) -e .
	touch $@

$(STAMP): $(ALONE)
	$(PIP) -e '.[test,lint,hub,fast]'
	touch $@

demo: $(ALONE)  ## train a bank offline on pairs made from templates, judge held-out ones, explain a decision
	@rm -rf $(DEMO)
	@echo "1. Make pairs from templates."
	@$(BIN)/python benchmarks/make_demo_pairs.py $(DEMO)
	@printf '\n2. Train a bank of rubrics on them, with the offline rules judge: no model, no network, no key.\n'
	@$(BIN)/svr train $(DEMO)/train.jsonl --judge rules --out $(DEMO)/trained --rounds 2
	@printf '\n3. Judge held-out pairs with the bank; to compare, with the general checks alone and by length.\n'
	@$(BIN)/svr eval $(HELD) --judge rules --bank $(DEMO)/trained/bank --out $(DEMO)/bank -q
	@$(BIN)/svr eval $(HELD) --judge rules --method direct --out $(DEMO)/general -q > /dev/null
	@$(BIN)/svr eval $(HELD) --method longest --out $(DEMO)/longest -q > /dev/null
	@printf '\n4. The reasons for one of these decisions:\n'
	@$(BIN)/svr explain $(DEMO)/bank made-message-05a
	@printf '\n5. Was it worth it?\n'
	@$(BIN)/python benchmarks/demo_end.py $(DEMO)
	@printf '\nThe run, as a page:   $(DEMO)/bank/report.html\nThe bank, as a page:  $(DEMO)/trained/report.html\n'
	@printf 'Is the difference chance?  $(BIN)/svr compare $(DEMO)/bank $(DEMO)/general\n'

test coverage: export PYTHONDONTWRITEBYTECODE =  # each worker and each svr that is started would compile all source anew

test: $(STAMP)  ## the tests, in less than five minutes on two cores
	$(BIN)/python -m pytest -n auto --dist worksteal -m 'not soak' -q

coverage: $(STAMP)  ## the same tests, and which lines and branches they reach; half as long again
	$(BIN)/python -m pytest -n auto --dist worksteal -m 'not soak' --cov --cov-report=term:skip-covered -q

soak: $(STAMP)  ## the long tests: all kills, faults and full disks of tests/reliability, and other slow tests
	$(BIN)/python -m pytest -m soak -q

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@for file in tests/*/conftest.py; do $(BIN)/mypy --no-error-summary $$file || exit 1; done  # all have one name

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP)  ## speed, as ratios from one run
	$(BIN)/python benchmarks/speed/run_all.py

$(DOCS): $(STAMP)
	$(PIP) -e '.[docs]'
	touch $@

docs: $(DOCS)  ## the site, in site/, each page as Markdown beside it: opens from the disk
	$(BIN)/zensical build --clean
	@cd docs && find . -name '*.md' -exec cp --parents {} ../site/ \;
	@printf 'The site: site/index.html\n'

release-check: $(STAMP)  ## wheel and sdist, installed and run on each Python here with newest and lowest dependencies
	$(PIP) uv
	$(BIN)/python benchmarks/release_check.py

reference: $(STAMP)  ## docs/reference and docs/llms.txt anew, from Click, the public names and mkdocs.yml
	$(BIN)/python tests/docs/make_reference.py

clean:
	rm -rf $(VENV) build dist site .coverage* .mypy_cache .pytest_cache .ruff_cache .hypothesis
