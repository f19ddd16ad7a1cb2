# The front door. Each command first installs and builds what it needs, once;
# the work is in scripts/.
PYTHON := .venv/bin/python
# The build folders of one checkout share what ccache keeps.
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1

.PHONY: demo chat test test-all test-fast test-aarch64 test-python soak bench bench-kernels wheel lint format product build clean

demo: product ## a real sentence-embedding model, eager and compiled
	$(PYTHON) examples/01_embed.py

chat: product ## a language model with its real weights answers in the terminal
	@scripts/setup.sh chat
	@$(PYTHON) examples/07_chat.py

test: build ## everything: lint, gtest, lit, pytest with a sample of crossed parameters
	$(PYTHON) scripts/test.py

test-all: build ## with all combinations of crossed parameters
	$(PYTHON) scripts/test.py --all

test-fast: build ## the subset to run after each edit, about a minute
	$(PYTHON) scripts/test.py --fast

# Rates of an emulator say nothing. It hangs where a process forks while another thread runs.
NOT_EMULATED := -MeasureMachine.*:Processes.AFork*
ARM_KERNELS := *neoverse*:*aarch64*:*EmitKernel*:*StridedLanes*:*RegionWrite*:*RowPrefetch*
ARM_ROOMS := process-test trace-test package-test cache-test fft-test machine-test runtime-test
EMULATOR := qemu-aarch64-static -L /usr/aarch64-linux-gnu -cpu max
SIDE_BY_SIDE := -n2 --dist=worksteal
test-aarch64: build ## kernels, packages, the runtime and the compiler on emulated cores of 64-bit Arm
	ANABRANCH_EMULATE=1 $(PYTHON) scripts/gtests.py build native-test
	ANABRANCH_EMULATE=1 $(PYTHON) scripts/gtests.py build kernels-test --filter='$(ARM_KERNELS)'
	cmake -G Ninja -B build-aarch64 -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake -DANABRANCH_RUNTIME_ONLY=ON -DANABRANCH_PYTHON=OFF
	ninja -C build-aarch64 -j2 $(ARM_ROOMS)
	$(PYTHON) scripts/gtests.py build-aarch64 $(ARM_ROOMS) --launcher='$(EMULATOR)' --filter='$(NOT_EMULATED)'
	ANABRANCH_EMULATE=1 $(PYTHON) -m pytest -q $(SIDE_BY_SIDE) test/python/deploy/test_aarch64*.py
	$(PYTHON) scripts/wheel.py --aarch64
	ANABRANCH_EMULATE=1 $(PYTHON) -m pytest -q $(SIDE_BY_SIDE) test/repo/aarch64

test-python: wheel ## the wheels compile models on each Python here; ARGS="--torch 2.14.1"
	$(PYTHON) scripts/run_pythons.py $(ARGS)

soak: build ## random tests in turns, SECONDS=3600 or as many as you say; ARGS=--sanitize
	$(PYTHON) scripts/soak.py --seconds $(or $(SECONDS),3600) $(ARGS)

bench: build ## interleaved with eager, Inductor and other engines; see benchmark/
	@scripts/setup.sh peers
	$(PYTHON) benchmark/run.py

bench-kernels: build ## each kernel, the best peer and the machine's limit; ARGS="linear --compare OLD.json"
	@scripts/setup.sh peers
	@ninja -C build machine-peaks
	$(PYTHON) benchmark/kernel_table.py $(ARGS)

wheel: build ## dist/: wheels for each Python here, the runtime alone, the sdist; ARGS=--aarch64
	$(PYTHON) scripts/wheel.py $(ARGS)

lint: build ## clang-format, clang-tidy, ruff, mypy
	$(PYTHON) scripts/test.py lint

format: build ## what lint asks for, done
	$(PYTHON) scripts/lint.py --fix

# What these commands need is installed before the build.
test test-all test-fast test-aarch64 soak lint format: SETUP := test
wheel: SETUP := wheel

product: ## what a user needs of the build
	@scripts/setup.sh $(SETUP)
	@ninja -C build -j2 product

build: product
	@ninja -C build -j2

clean: ## the build, not what was installed
	rm -rf build build-* dist
