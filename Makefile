# The front door. Each command first installs and builds what it needs, once;
# the work is in scripts/.
PYTHON := .venv/bin/python
# The build folders of one checkout share what ccache keeps.
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1

.PHONY: demo test test-fast bench wheel lint format build clean

demo: build ## a real sentence-embedding model, eager and compiled
	$(PYTHON) examples/01_embed.py

test: build ## everything: lint, gtest, lit, pytest
	$(PYTHON) scripts/test.py

test-fast: build ## the subset to run after each edit, under a minute
	$(PYTHON) scripts/test.py --fast

bench: build ## interleaved with eager, Inductor and other engines; see benchmark/
	@scripts/setup.sh peers
	$(PYTHON) benchmark/run.py

wheel: build ## dist/: a wheel that carries its LLVM
	$(PYTHON) scripts/wheel.py

lint: build ## clang-format, clang-tidy, ruff, mypy
	$(PYTHON) scripts/test.py lint

format: build ## what lint asks for, done
	$(PYTHON) scripts/lint.py --fix

build:
	@scripts/setup.sh
	@ninja -C build -j2

clean: ## the build, not what was installed
	rm -rf build build-* dist
