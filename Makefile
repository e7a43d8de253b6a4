# Each command works as the first one on a fresh machine. PYTHON=... names a Python that has PyTorch, JOBS=... the number
# of compile jobs and of test processes, ARGS=... goes to the Python program that a command starts, DIST=... is where
# packages go instead of dist/.
.DEFAULT_GOAL := help
.PHONY: help demo test test-cpp test-python bench lint build wheel sdist setup clean
.NOTPARALLEL:

DIST := dist
RUN := PYTHONPATH=python$${PYTHONPATH:+:$$PYTHONPATH} build/python

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

demo: build ## run the operator, check it against PyTorch, show the speed-up
	@$(RUN) -m tconv3d demo $(ARGS)

test: ## all tests
	@tools/test $(ARGS)

test-cpp: setup ## the C++ tests: under AddressSanitizer and UBSan, then those that compile GPU kernels
	@tools/test-cpp

test-python: build ## the Python tests
	@tools/test-python $(ARGS)

bench: build ## time tconv3d side by side with PyTorch
	@$(RUN) -m tconv3d bench $(ARGS)

lint: setup ## clang-format, ruff, mypy, warnings as errors, clang-tidy
	@tools/lint

build: setup ## build the PyTorch operators into python/tconv3d
	@tools/build build/release -DTCONV3D_BUILD_TORCH=ON -DTCONV3D_BUILD_TESTS=OFF \
		-DTCONV3D_PYTHON=$(CURDIR)/build/python -DTCONV3D_WERROR=$(if $(filter true,$(CI)),ON,OFF)
	@cmake --install build/release --component python --prefix python >build/release/install.log

wheel: setup ## a wheel for the PyTorch of the chosen Python, into dist/
	@build/python -m pip wheel --disable-pip-version-check --no-deps --wheel-dir $(DIST) .
	@ls $(DIST)/*.whl

sdist: setup ## the source distribution, into dist/
	@tools/sdist $(DIST)
	@ls $(DIST)/*.tar.gz

setup: ## choose or make the Python to work with
	@tools/setup

clean: ## remove everything that was built; .venv stays
	rm -rf build dist python/tconv3d/libtconv3d_torch.so
