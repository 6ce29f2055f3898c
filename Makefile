# Everything runs in .venv and node_modules; nothing else on the machine is touched, but for the browser
# of the tests, and npm.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OUT ?= report
OLDEST := $(VENV)-oldest

.PHONY: report pictures docs lint lint-style lint-types lint-scripts lint-files test test-ci search test-oldest net written release-check browser format clean

$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $@

# Without -e ., which would build the installed package again. What is not imported is not compiled.
EXTRAS := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile

$(VENV)/installed-test: pyproject.toml $(VENV)/installed
	$(EXTRAS) 'rlreport[test]'
	touch $@

$(VENV)/installed-integrations: $(VENV)/installed-test
	$(EXTRAS) 'rlreport[test-integrations,docs]'
	touch $@

report: $(VENV)/installed
	$(BIN)/rlreport build sample_logs/healthy -o $(OUT)/healthy --title "Sample run: healthy"
	$(BIN)/rlreport build sample_logs/reward_hacking -o $(OUT)/reward_hacking --title "Sample run: reward hacking"

$(OUT)/reward_hacking_zh: $(VENV)/installed
	$(BIN)/rlreport build sample_logs/reward_hacking -o $@ --lang zh --title "示例训练：奖励作弊" --quiet

# The pictures of the READMEs, of the second of them, and those of the gallery; light and dark.
pictures: $(VENV)/installed-test browser report $(OUT)/reward_hacking_zh
	$(BIN)/rlreport compare $(OUT)/healthy $(OUT)/reward_hacking -o $(OUT)/compare.html --quiet
	$(BIN)/python -m tests.pictures $(OUT)
	$(BIN)/python -m tests.pictures $(OUT)/reward_hacking en
	$(BIN)/python -m tests.pictures $(OUT)/reward_hacking_zh zh

# The documentation as a site, the sample reports inside.
docs: $(VENV)/installed report $(OUT)/reward_hacking_zh
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	$(BIN)/rlreport compare $(OUT)/healthy $(OUT)/reward_hacking -o $(OUT)/compare.html --quiet
	$(BIN)/rlreport index $(OUT) -o $(OUT)/index.html
	$(BIN)/python -m tests.site $(OUT) site

browser:
	tests/install-browser

# TypeScript, prettier and eslint, which check the scripts of pages.
node_modules/.package-lock.json: package-lock.json
	tests/install-script-tools

# Many tests start programs; where the environment forbids bytecode, each would compile anew.
# By file, as the tests of a file look at the same builds; three at once, as browsers wait.
PYTEST = PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n 3 --dist loadfile
# Bars of time hold where nothing else runs; only files that have some are looked at.
TIMED = $(BIN)/pytest -m timed $(shell grep -l 'mark\.timed' tests/test_*.py)

SCHEMA = $(BIN)/check-jsonschema --quiet --builtin-schema vendor

SCRIPTS = static/js tests/js eslint.config.js

# All side by side: one waits for types else.
lint: $(VENV)/installed-test node_modules/.package-lock.json
	$(MAKE) --no-print-directory -j4 lint-style lint-types lint-scripts lint-files

lint-style:
	$(BIN)/ruff format --check rlreport tools tests benchmarks
	$(BIN)/ruff check rlreport tools tests benchmarks

lint-types:
	$(BIN)/mypy -n 2

lint-scripts:
	node_modules/.bin/prettier --check --log-level warn $(SCRIPTS)
	node_modules/.bin/eslint $(SCRIPTS)
	node_modules/.bin/tsc

lint-files:
	$(SCHEMA).github-workflows .github/workflows/*.yml
	$(SCHEMA).github-actions action.yml
	$(SCHEMA).github-issue-forms .github/ISSUE_TEMPLATE/[!c]*.yml
	$(SCHEMA).dependabot .github/dependabot.yml
	$(SCHEMA).citation-file-format CITATION.cff
	$(BIN)/zizmor --offline --quiet .github/workflows .github/dependabot.yml action.yml

# COVER=1 also measures which lines the tests run. Python 3.12 and later measure with
# sys.monitoring, which costs little.
COVER ?=
ifneq ($(COVER),)
export COVERAGE_CORE := $(shell $(PYTHON) -c "import sys; print('sysmon' if sys.version_info >= (3, 12) else 'ctrace')")
# Absolute, as each test runs in an empty folder of its own, and forked processes write there else.
export COVERAGE_FILE := $(CURDIR)/.coverage
COVERED = --cov --cov-append --cov-report= --cov-fail-under=0
endif

test: lint browser
	rm -f .coverage
	$(PYTEST) -m 'not ci and not timed' $(COVERED)
	$(TIMED)

# All of them with the oldest versions that pyproject.toml allows of what reports are built with; what
# tests them is new. On the oldest Python, where these
# have wheels.
$(OLDEST)/installed: pyproject.toml
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(OLDEST)/bin/uv pip compile --quiet --resolution lowest-direct --extra remote --extra parquet \
		--extra tokenizer --extra tensorboard --extra ray pyproject.toml -o $(OLDEST)/oldest.txt
	$(OLDEST)/bin/uv pip install --quiet --python $(OLDEST)/bin/python -c $(OLDEST)/oldest.txt -e '.[test]'
	touch $@

test-oldest: $(OLDEST)/installed browser
	PYTHONDONTWRITEBYTECODE= $(OLDEST)/bin/pytest -n 3 --dist loadfile -m 'not ci and not timed'

# What CI runs after it: packaging, integrations, stores and long runs; then the floor of coverage
# over both.
test-ci: $(VENV)/installed-integrations browser
	$(PYTEST) -m 'ci and not timed' $(COVERED)
	$(if $(COVER),$(BIN)/coverage report --skip-covered)

# Tests that look for counterexamples, ten times as long.
search: $(VENV)/installed-test browser
	RLREPORT_SEARCH=10 $(PYTEST) -m 'hypothesis or search'

# What differs from the kept reports and rows of tests/data/net.
net: $(VENV)/installed-test
	$(BIN)/python -m tests.net

# All that is generated from the code: pages of the documentation, catalogues of messages, the types
# of the scripts' data, and the kept reports and rows of tests/data/net. A test fails where it was forgotten.
written: $(VENV)/installed-test
	$(BIN)/python -m tools.catalogue
	$(BIN)/python -m tools.docs
	$(BIN)/python -m tools.page_types
	$(BIN)/python -m tests.format_table
	$(BIN)/python -m tests.net --accept

# What a release needs and a change does not: a translation of every message.
release-check: $(VENV)/installed-test
	$(BIN)/python -m tools.catalogue --check

format: $(VENV)/installed-test node_modules/.package-lock.json
	$(BIN)/ruff format rlreport tools tests benchmarks
	$(BIN)/ruff check --fix rlreport tools tests benchmarks
	node_modules/.bin/prettier --write --log-level warn $(SCRIPTS)

clean:
	rm -rf $(VENV) $(OLDEST) $(OUT) dist site node_modules
