# Two commands matter: `make demo` shows the main job end to end, `make test` passes the tests.
# Both need Python 3.11+ with venv, and nothing else that they do not install themselves.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/ready

.PHONY: demo test check lint types imports docs proto proto-check wheel-check lock bench fuzz conform replay-real clean

demo: $(READY)
	bash docs/demo.sh

# PYTEST_OPTIONS: more options of pytest, for instance -k NAME.
PYTEST = $(BIN)/pytest -q -n auto --maxprocesses 4 --dist loadgroup $(PYTEST_OPTIONS)
test: $(READY)
	$(PYTEST)

# For daily work: lint, types, import rules, and the tests of the packages that differ from BASE.
BASE ?= HEAD
check: lint types imports
	tests=$$($(BIN)/python tests/changed.py $(BASE)); [ -z "$$tests" ] || $(PYTEST) $$tests

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# Types are checked over the installed package: the editable one hides behind an import hook.
types: $(READY) build/installed
	MYPYPATH=build/installed $(BIN)/mypy -p pcli

imports: $(READY) build/installed
	PYTHONPATH=build/installed $(BIN)/lint-imports

# The wheel, unpacked where nothing else of ours can be imported by accident.
build/installed: $(READY) $(shell git ls-files '*.py' '*.pyi' pyproject.toml)
	rm -rf build && mkdir -p build
	$(BIN)/pip -q wheel --no-deps --no-build-isolation -w build/wheel .
	$(BIN)/pip -q install --no-deps --target $@ build/wheel/*.whl
	touch $@

# The wheel as a user has it: with the core dependencies only, and called from where nothing of the tree is at hand.
ALONE = build/alone/bin
wheel-check: build/installed
	rm -rf build/alone && $(PYTHON) -m venv build/alone
	$(ALONE)/pip -q --disable-pip-version-check install --require-hashes -r requirements/core.txt
	$(ALONE)/pip -q --disable-pip-version-check install --no-deps build/wheel/*.whl
	cd build/alone && bin/pcli --version | grep -F "$$(ls ../wheel | cut -d- -f2)"
	cd build/alone && bin/pcli decode 0000000c00000008080b5a040801100a | grep -F -m 1 FLOW
	cd build/alone && bin/pcli dissect -r ../../tests/captures/java/schemas.pcap --payload | grep -F -m 1 SEND
	cd build/alone && bin/python -m pcli.cli fields message_id | grep -F -m 1 message_id
	cd build/alone && bin/pcli replay ../../tests/captures/flex/01-produce-consume.pcap | grep -F -m 1 SEND_RECEIPT

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
	$(COMPILE) pyproject.toml -o requirements/core.txt
	$(COMPILE) pyproject.toml --all-extras -o requirements/all.txt
	$(COMPILE) pyproject.toml --extra capture --extra crypto --extra tui --extra spark --group dev -o requirements/dev.txt
	$(COMPILE) --group proto -o requirements/proto.txt

bench: $(READY)
	$(BIN)/python bench/wire.py
	$(BIN)/python bench/dissect.py
	$(BIN)/python bench/client.py
	$(BIN)/python bench/proxy.py
	$(BIN)/python bench/observe.py
	$(BIN)/python bench/spark.py

# The mini-broker against conversations of a real one.
conform: $(READY)
	$(BIN)/python tests/conform/run.py

# All captures, played to a real broker that is fresh: make replay-real URL=pulsar://localhost:6650 ADMIN=http://localhost:8080
replay-real: $(READY)
	PCLI_REAL_URL=$(URL) PCLI_REAL_ADMIN=$(ADMIN) $(BIN)/pytest -s tests/replay/player/test_corpus.py -k real

# 10^5 mutated captures, mutated conversations with the mini-broker, and visits to it; the tests do 10^3 of each.
fuzz: $(READY)
	PCLI_FUZZ=100000 $(BIN)/pytest -q tests/codec/capture/test_mutated.py tests/minibroker/fuzz \
	  tests/minibroker/test_scale.py

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
