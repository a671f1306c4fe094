# Two commands matter: `make demo` shows the main job end to end, `make test` passes the tests.
# Both need Python 3.11+ with venv, and nothing else that they do not install themselves.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/ready

.PHONY: demo test lint types walls docs proto proto-check wheel-check lock bench fuzz clean

demo: $(READY)
	bash docs/demo.sh

test: $(READY)
	$(BIN)/pytest -q

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# Types are checked over the installed package: the editable one hides behind an import hook.
types: $(READY) build/installed
	MYPYPATH=build/installed $(BIN)/mypy -p pcli

walls: $(READY)
	PYTHONPATH=build/installed $(BIN)/lint-imports

# The wheel, unpacked where nothing else of ours can be imported by accident.
build/installed: $(READY) $(shell git ls-files '*.py' '*.pyi' pyproject.toml)
	rm -rf build && mkdir -p build
	$(BIN)/pip -q wheel --no-deps --no-build-isolation -w build/wheel .
	$(BIN)/pip -q install --no-deps --target $@ build/wheel/*.whl
	touch $@

wheel-check: build/installed
	cd build && PYTHONPATH=installed ../$(BIN)/python -P -m pcli.cli --version

# The generated code of codec/proto; proto-check fails when it is not what the .proto gives.
proto: $(VENV)-proto/ready
	PATH="$(CURDIR)/$(VENV)-proto/bin:$$PATH" python -m grpc_tools.protoc -I codec/proto \
	  --python_out=$(or $(OUT),codec/proto) --mypy_out=quiet:$(or $(OUT),codec/proto) codec/proto/pulsar_api.proto

proto-check:
	rm -rf build/proto && mkdir -p build/proto
	$(MAKE) proto OUT=build/proto
	cmp build/proto/pulsar_api_pb2.py codec/proto/pulsar_api_pb2.py
	cmp build/proto/pulsar_api_pb2.pyi codec/proto/pulsar_api_pb2.pyi

# The tables in docs/ that are made from the code; a test holds them fresh.
docs: $(READY)
	$(BIN)/python docs/generate.py

# Locks with hashes and without hosts; UV is uv's command.
UV ?= uv
COMPILE = $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
          --no-emit-index-url --no-emit-find-links
lock:
	$(COMPILE) pyproject.toml --all-extras -o requirements/all.txt
	$(COMPILE) pyproject.toml --extra capture --extra crypto --group dev -o requirements/dev.txt
	$(COMPILE) --group proto -o requirements/proto.txt

bench: $(READY)
	$(BIN)/python bench/wire.py
	$(BIN)/python bench/dissect.py

# 10^5 mutated captures; the tests do 10^3.
fuzz: $(READY)
	PCLI_FUZZ=100000 $(BIN)/pytest -q tests/codec/capture/test_fuzz.py

clean:
	rm -rf build $(VENV) $(VENV)-proto

$(READY): requirements/dev.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip -q --disable-pip-version-check install --require-hashes -r requirements/dev.txt
	$(BIN)/pip -q --disable-pip-version-check install --no-deps --no-build-isolation -e .
	touch $@

$(VENV)-proto/ready: requirements/proto.txt
	$(PYTHON) -m venv $(VENV)-proto
	$(VENV)-proto/bin/pip -q --disable-pip-version-check install --require-hashes -r requirements/proto.txt
	touch $@
