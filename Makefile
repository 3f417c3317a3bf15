# Everything here works on a fresh machine with Python 3.11 or later: the first target makes its own .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DOCS := $(VENV)/.docs
DEMO := runs/demo
SOAK := runs/soak.jsonl
HELD := pairs --data $(DEMO)/test.jsonl

.PHONY: demo test coverage soak lint bench docs reference format clean

$(STAMP): pyproject.toml setup.cfg
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e '.[test,lint,hub,fast]'
	touch $@

demo: $(STAMP)  ## train a bank offline on pairs made from templates, judge held-out ones with it, explain a decision
	@rm -rf $(DEMO)
	@echo "1. Pairs of our own making, and the offline rules judge: no model, no network, no key."
	@$(BIN)/python benchmarks/make_demo_pairs.py $(DEMO)
	@printf '\n2. Train a bank of rubrics.\n'
	@$(BIN)/svr train $(DEMO)/train.jsonl --judge rules --out $(DEMO)/trained --rounds 2
	@printf '\n3. Judge held-out pairs with it (and, for step 4, by length and with the general checks).\n'
	@$(BIN)/svr eval $(HELD) --method longest --out $(DEMO)/longest -q > /dev/null
	@$(BIN)/svr eval $(HELD) --judge rules --method vanilla --out $(DEMO)/general -q > /dev/null
	@$(BIN)/svr eval $(HELD) --judge rules --bank $(DEMO)/trained/bank --out $(DEMO)/bank -q
	@printf '\n4. Compare.\n'
	@$(BIN)/svr compare $(DEMO)/bank $(DEMO)/general $(DEMO)/longest
	@printf '\n5. Why was one of them decided so?\n'
	@$(BIN)/svr explain $(DEMO)/bank made-message-05a --data $(DEMO)/test.jsonl
	@printf '\nOffline rules judge on made pairs: this shows the machinery, not what a judge is worth.\n'
	@printf 'The run:  $(DEMO)/bank/report.html\nThe bank: $(DEMO)/trained/report.html\n'

test coverage: export PYTHONDONTWRITEBYTECODE =  # each worker and each svr that is started would compile all source anew

test: $(STAMP)  ## the tests, in about five minutes on two cores
	$(BIN)/python -m pytest -n auto -m 'not soak' -q

coverage: $(STAMP)  ## the same tests, and which lines and branches they reach; half as long again
	$(BIN)/python -m pytest -n auto -m 'not soak' --cov --cov-report=term:skip-covered -q

soak: $(STAMP)  ## the long tests, one at a time (about an hour): kills, full disks, outages; the figures of docs/reliability.md
	@rm -f $(SOAK)
	SOAK_REPORT=$(SOAK) $(BIN)/python -m pytest -m soak -q
	@$(BIN)/python tests/reliability/soak_report.py $(SOAK)

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
	$(BIN)/python -m pip install --quiet -e '.[docs]'
	touch $@

docs: $(DOCS)  ## the site, in site/, each page as Markdown beside it: opens from the disk
	$(BIN)/zensical build --clean
	@cd docs && find . -name '*.md' -exec cp --parents {} ../site/ \;
	@printf 'The site: site/index.html\n'

reference: $(STAMP)  ## docs/reference and docs/llms.txt anew, from Click, the public names and mkdocs.yml
	$(BIN)/python tests/docs/make_reference.py

clean:
	rm -rf $(VENV) build dist site .coverage* .mypy_cache .pytest_cache .ruff_cache .hypothesis
