# Two commands matter: `make demo` shows the main job end to end, `make test` passes the tests.
# Both need Python 3.11 or newer with venv. They install everything else themselves.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/ready

.PHONY: demo test test-all fresh check lint types imports docs site man proto proto-check wheel-check dist executable lock audit bench fuzz fuzz-coverage conform differential simulate mutants scenarios ecosystem crash replay-real clean

demo: $(READY)
	bash docs/demo.sh

# PYTEST_OPTIONS: more options of pytest, for instance -k NAME.
PYTEST = $(BIN)/pytest -q -n auto --maxprocesses 4 --dist loadscope --no-loadscope-reorder $(PYTEST_OPTIONS)
test: $(READY)
	$(PYTEST) -m "not slow"

# With the slow tests: whole corpora, many generated cases, and processes that are killed.
test-all: $(READY)
	$(PYTEST)

# `make demo` and `make test` on a new Debian without compilers, Java and capture tools. It needs root and debootstrap.
# FRESH_OPTIONS: more options of tests/fresh/run.sh, for instance --python PREFIX, or --executable FILE for the executable
# on a Debian without Python.
fresh:
	bash tests/fresh/run.sh $(FRESH_OPTIONS)

# For daily work: lint, types, import rules, and the tests of the packages that differ from BASE.
BASE ?= HEAD
check: lint types imports
	tests=$$($(BIN)/python tests/changed.py $(BASE)); [ -z "$$tests" ] || $(PYTEST) -m "not slow" $$tests

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# mypy checks the installed package, because it does not follow the import hook of an editable install.
types: $(READY) build/installed
	MYPYPATH=build/installed $(BIN)/mypy -p pcli

imports: $(READY) build/installed
	PYTHONPATH=build/installed $(BIN)/lint-imports

# The wheel, unpacked into a folder of its own.
build/installed: $(READY) $(shell git ls-files '*.css' '*.html' '*.js' '*.lua' '*.proto' '*.py' '*.pyi' pyproject.toml)
	rm -rf build/lib build/bdist.* build/wheel $@ && mkdir -p build
	$(BIN)/pip -q wheel --no-deps --no-build-isolation -w build/wheel .
	$(BIN)/pip -q install --no-deps --target $@ build/wheel/*.whl
	touch $@

# The wheel as a user installs it: only the core dependencies, and commands that run outside the source tree.
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

# What a release publishes: the source distribution and the wheel, in dist.
dist: $(READY)
	rm -rf dist build/lib build/bdist.*
	$(BIN)/python -c "from setuptools import build_meta; build_meta.build_sdist('dist'); build_meta.build_wheel('dist')"

# pcli with its Python and all extras but Spark in one file, build/executable/pcli (executable/README.md).
executable: $(VENV)-executable/ready build/installed
	$(VENV)-executable/bin/pip -q --disable-pip-version-check install --no-deps --force-reinstall build/wheel/*.whl
	$(VENV)-executable/bin/python executable/build.py build/executable

# The generated code of codec/proto. proto-check fails if it differs from what the .proto generates.
proto: $(VENV)-proto/ready
	PATH="$(CURDIR)/$(VENV)-proto/bin:$$PATH" python -m grpc_tools.protoc -I codec/proto \
	  --python_out=$(or $(OUT),codec/proto) --mypy_out=quiet:$(or $(OUT),codec/proto) codec/proto/pulsar_api.proto

proto-check:
	rm -rf build/proto && mkdir -p build/proto
	$(MAKE) proto OUT=build/proto
	cmp build/proto/pulsar_api_pb2.py codec/proto/pulsar_api_pb2.py
	cmp build/proto/pulsar_api_pb2.pyi codec/proto/pulsar_api_pb2.pyi

# The parts of docs/ that are generated from the code. A test fails if they are out of date.
docs: $(READY)
	$(BIN)/python docs/generate.py
	PCLI_WRITE_DOCS=1 $(BIN)/pytest -q -p no:xdist tests/replay/player/test_corpus.py -k table_in_the_docs

# The site, in build/site. It contains Mermaid, so that it makes no requests to other hosts.
site: $(READY) $(VENV)-site/ready build/mermaid.min.js
	$(BIN)/python docs/site_source.py build/site-source
	cp build/mermaid.min.js build/site-source/pages
	$(VENV)-site/bin/zensical build --strict -f build/site-source/zensical.toml
	rm -rf build/site && mv build/site-source/site build/site

MERMAID        := 12.3.0
MERMAID_SHA256 := be0684e8d20bfc874df12c0f04927a5c482f57f2200eec54cca52a4583fd4040
build/mermaid.min.js: Makefile
	mkdir -p build
	cd build && npm pack --silent mermaid@$(MERMAID) > mermaid.txt
	cd build && echo "$(MERMAID_SHA256)  mermaid-$(MERMAID).tgz" | sha256sum -c --quiet
	tar -xzOf build/mermaid-$(MERMAID).tgz package/dist/mermaid.min.js > $@.new && mv $@.new $@

# Manual pages, in build/man: man -l build/man/pcli-diagnose.1
man: $(READY)
	$(BIN)/python -m pcli.cli.command_reference build/man

# Lock files with hashes and without index hosts. UV is the command of uv.
UV ?= uv
COMPILE = $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
          --no-emit-index-url --no-emit-find-links
EXECUTABLE := tables report hdfs capture crypto otel prometheus tui
lock:
	$(COMPILE) pyproject.toml -o requirements/core.txt
	$(COMPILE) pyproject.toml --extra crypto -o requirements/broker.txt
	$(COMPILE) pyproject.toml --all-extras -o requirements/all.txt
	$(COMPILE) pyproject.toml --extra capture --extra crypto --extra otel --extra prometheus --extra tui --extra connect --extra hdfs --group dev -o requirements/dev.txt
	$(COMPILE) --group proto -o requirements/proto.txt
	$(COMPILE) --group fuzz -o requirements/fuzz.txt
	$(COMPILE) --group audit -o requirements/audit.txt
	$(COMPILE) pyproject.toml $(EXECUTABLE:%=--extra %) --group executable -o requirements/executable.txt
	$(COMPILE) --group site -o requirements/site.txt

bench: $(READY)
	$(BIN)/python bench/wire.py
	$(BIN)/python bench/dissect.py
	$(BIN)/python bench/client.py
	$(BIN)/python bench/proxy.py
	$(BIN)/python bench/observe.py
	$(BIN)/python bench/export.py
	$(BIN)/python bench/browse.py
	$(BIN)/python bench/spark.py

# Recorded conversations of a real broker, replayed against the mini-broker.
conform: $(READY)
	$(BIN)/python tests/conform/run.py

# Generated plans against a real broker and the mini-broker of its version (tests/scenarios). REAL is 4 (Pulsar 4.2.4), 5
# (5.0.1, with scalable topics unless PLANS=classic) or the script that starts a broker. URL and ADMIN name a running one.
SEEDS ?= 100
START ?= 0
differential: $(READY)
	PYTHONPATH=tests $(BIN)/python -m scenarios.differential --seeds $(SEEDS) --start $(START) $(if $(RESUME),--resume) \
	  $(if $(REAL),--real $(REAL)) $(if $(PLANS),--plans $(PLANS)) $(if $(URL),--url $(URL) --admin $(ADMIN)) $(DIFFERENTIAL_OPTIONS)

# Generated plans in one process under virtual time, with faults, checked by invariants (tests/simulation).
simulate: $(READY)
	PYTHONPATH=tests $(BIN)/python -m simulation.command --seeds $(SEEDS) --start $(START) $(if $(RESUME),--resume) \
	  $(SIMULATION_OPTIONS)

# Defects of the broker, each simulated until an invariant that concerns it is violated.
mutants: $(READY)
	PYTHONPATH=tests $(BIN)/python -m simulation.command --mutants --seeds $(or $(LIMIT),500) --start $(START)

# Generated problems with the Python client: the findings of `pcli diagnose` compared with the expectation. BROKER is real or mini.
BROKER ?= mini
scenarios: $(READY)
	PYTHONPATH=tests $(BIN)/python -m scenarios.diagnosis.command --seeds $(SEEDS) --start $(START) --broker $(BROKER) \
	  $(if $(RESUME),--resume) $(if $(REAL),--real $(REAL)) $(if $(URL),--url $(URL) --admin $(ADMIN)) $(SCENARIO_OPTIONS)

# Tools, frameworks and connectors of Pulsar against a broker (tests/ecosystem). KEEP is a folder for their captures.
ecosystem: $(READY)
	ECOSYSTEM_BROKER=$(BROKER) ECOSYSTEM_KEEP=$(KEEP) REAL=$(REAL) $(BIN)/pytest -q -p no:xdist tests/ecosystem \
	  $(ECOSYSTEM_OPTIONS)

# Official clients against `pcli broker --data`, which is killed TRIALS times (tests/crash). SCALABLE=1: V5 clients on
# scalable topics of a broker of Pulsar 5.
TRIALS ?= 30
crash: $(READY)
	PYTHONPATH=tests $(BIN)/python -m crash.command --trials $(TRIALS) --start $(START) $(if $(RESUME),--resume) \
	  $(if $(SCALABLE),--scalable)

# Replays of all captures against a new real broker: make replay-real URL=pulsar://localhost:6650 ADMIN=http://localhost:8080
replay-real: $(READY)
	PCLI_REAL_URL=$(URL) PCLI_REAL_ADMIN=$(ADMIN) $(BIN)/pytest -s tests/replay/player/test_corpus.py -k real

# 10^5 mutated captures, mutated conversations with the mini-broker, and connections to it; the tests run 10^3 of each.
fuzz: $(READY)
	PCLI_FUZZ=100000 $(BIN)/pytest -q tests/codec/capture/test_mutated.py tests/minibroker/fuzz \
	  tests/minibroker/test_scale.py

# Coverage-guided fuzzing with atheris (tests/fuzz), MINUTES for each of TARGETS. The inputs found are kept in build/fuzz.
MINUTES ?= 10
TARGETS ?= frames captures filters batches schemas rest conversations
fuzz-coverage: $(READY)
	$(BIN)/pip -q --disable-pip-version-check install --require-hashes -r requirements/fuzz.txt
	mkdir -p build/fuzz
	for target in $(TARGETS); do \
	  $(BIN)/python -m tests.fuzz.coverage $$target build/fuzz/$$target -max_total_time=$$(( $(MINUTES) * 60 )) \
	    -artifact_prefix=build/fuzz/$$target- -verbosity=0 -print_final_stats=1 || exit 1; \
	done

# Known vulnerabilities of the locked requirements. CI does not run it, because without internet access pip-audit reports
# "No known vulnerabilities found" without a check.
audit: $(VENV)-audit/ready
	for file in core all dev; do $(VENV)-audit/bin/pip-audit --strict --disable-pip -r requirements/$$file.txt || exit 1; done

clean:
	rm -rf build $(VENV) $(VENV)-proto $(VENV)-audit $(VENV)-executable $(VENV)-site

$(READY): requirements/dev.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip -q --disable-pip-version-check install --no-compile --require-hashes -r requirements/dev.txt
	$(BIN)/pip -q --disable-pip-version-check install --no-deps --no-build-isolation -e .
	touch $@

$(VENV)-proto/ready: requirements/proto.txt
	$(PYTHON) -m venv $(VENV)-proto
	$(VENV)-proto/bin/pip -q --disable-pip-version-check install --require-hashes -r requirements/proto.txt
	touch $@

$(VENV)-site/ready: requirements/site.txt
	$(PYTHON) -m venv $(VENV)-site
	$(VENV)-site/bin/pip -q --disable-pip-version-check install --require-hashes -r requirements/site.txt
	touch $@

$(VENV)-executable/ready: requirements/executable.txt
	$(PYTHON) -m venv $(VENV)-executable
	$(VENV)-executable/bin/pip -q --disable-pip-version-check install --require-hashes -r requirements/executable.txt
	touch $@

$(VENV)-audit/ready: requirements/audit.txt
	$(PYTHON) -m venv $(VENV)-audit
	$(VENV)-audit/bin/pip -q --disable-pip-version-check install --require-hashes -r requirements/audit.txt
	touch $@
