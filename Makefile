# Every target installs what it needs, inside this folder only.
# The first of these that runs: a version manager has names of versions that are not chosen, which only print an error.
PYTHON ?= $(shell for name in python3.11 python3.12 python3.13 python3.14 python3; do $$name -c '$(IS_SUPPORTED)' 2>/dev/null && command -v $$name && break; done)
IS_SUPPORTED := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))
RUN    := .venv-run
DEV    := .venv
PY     := $(DEV)/bin/python
PACKAGES := barnabas broker client config controller coordinator metadata protocol relay replication runtime security storage tools web
FAST   := tests/architecture tests/config tests/coordinator tests/runtime tests/protocol/records tests/storage/segments
SEEDS  ?= 200
INTEROP := -o addopts="--strict-markers --strict-config --import-mode=importlib" --timeout 600
# One process runs all of these, for they share one JVM.
SPARK_TESTS := tests/interop/spark
# Most of their time the tests of interop wait for processes to start: a third one uses what two leave of two cores.
INTEROP_PROCESSES ?= 3
CASES  ?= 100000
ARGS   ?=
# Where tests are marked serial.
SERIAL := tests/robustness
PROCESSES ?= auto
# Options such as -k may select tests of one of two calls only: pytest's exit code for no tests is 5.
MAY_BE_NONE = $(if $(ARGS),|| test $$? -eq 5)

# Each of many processes would compile all modules again otherwise, where the environment forbids to keep bytecode.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup run cli test test-parallel test-serial test-fast format lint types coverage bench bench-spark spark-cluster interop \
  interop-clients interop-spark interop-long fuzz sim docs pictures cluster cluster-secure example-spark lock clean

help: ## Show what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

# pip shows its progress on a terminal; elsewhere, as in the log of a build server, each installation is one line.
define install
	@echo "Installing $(2) into $(1)" >&2
	@$(1)/bin/python -m pip install $$(test -t 2 && test -z "$$CI" || echo --quiet) --disable-pip-version-check --require-hashes -r $(2) >&2
	@touch $(3)
endef

# A virtual environment is complete when its stamp is newer than its lock file.
define venv
	@test -n "$(PYTHON)" && $(PYTHON) -c '$(IS_SUPPORTED)' 2>/dev/null || { echo "Python 3.11, 3.12, 3.13 or 3.14 is needed$(if $(PYTHON),: $(PYTHON) is none of them); PYTHON=... chooses one" >&2; exit 1; }
	@test -x $(1)/bin/python || $(PYTHON) -m venv $(1)
	$(call install,$(1),$(2),$(1)/.stamp)
endef

$(RUN)/.stamp: requirements/runtime.txt
	$(call venv,$(RUN),$<)

$(DEV)/.stamp: requirements/dev.txt
	$(call venv,$(DEV),$<)

$(DEV)/.spark: requirements/spark.txt $(DEV)/.stamp
	$(call install,$(DEV),$<,$@)

setup: $(RUN)/.stamp $(DEV)/.stamp ## Make both virtual environments
	@:

$(RUN)/.web: requirements/web.txt $(RUN)/.stamp
	$(call install,$(RUN),$<,$@)

# The page of a cluster, on http://localhost:8082, beside its brokers.
PAGE := --override barnabas.web.enable=true

run: $(RUN)/.web ## Start a broker on localhost:9092 with its data in ./data, and its page (ARGS="--override name=value")
	@exec $(RUN)/bin/python -m barnabas.cli start --override broker.id=0 --override log.dirs=./data $(PAGE) $(ARGS)

$(RUN)/.cli: requirements/cli.txt $(RUN)/.stamp
	$(call install,$(RUN),$<,$@)
	@printf '#!/bin/sh\nexec "%s" -I "%s" "$$@"\n' "$(CURDIR)/$(RUN)/bin/python" "$(CURDIR)/barnabas/cli.py" > $(RUN)/bin/barnabas
	@chmod +x $(RUN)/bin/barnabas

cli: $(RUN)/.cli ## The command line for any cluster: .venv-run/bin/barnabas topics list
	@$(RUN)/bin/barnabas --help

# Three brokers that answer as a cluster of several machines does. A broker that was killed is missed after 6 s.
CLUSTER := --brokers 3 --override default.replication.factor=3 --override min.insync.replicas=2 \
  --override barnabas.internal.topics.create.enable=true --override zookeeper.session.timeout.ms=6000 \
  --override zookeeper.connection.timeout.ms=45000 --override barnabas.http.port=8092 $(PAGE) \
  --override-broker 0:broker.rack=rack1 --override-broker 1:broker.rack=rack2 --override-broker 2:broker.rack=rack3
AUTHORIZER := kafka.security.authorizer.AclAuthorizer
SECURED ?= ./cluster-secure-data
USERS ?= alice bob

cluster: $(RUN)/.web ## Three brokers on localhost:9092 to 9094 and their store, data in ./cluster-data (ZOOKEEPER=host:port/chroot takes a real one)
	@exec $(RUN)/bin/python -m barnabas.cli start $(CLUSTER) --override log.dirs=./cluster-data \
	  $(if $(ZOOKEEPER),--override zookeeper.connect=$(ZOOKEEPER)) $(ARGS)

cluster-secure: $(RUN)/.web ## The same with SASL over TLS, ACLs, generated certificates and users (USERS="carol dave")
	@$(RUN)/bin/python -m barnabas.security $(SECURED)/security $(addprefix --user ,$(USERS)) --bootstrap-server localhost:9092
	@exec $(RUN)/bin/python -m barnabas.cli start $(SECURED)/security/broker.properties $(CLUSTER) --override log.dirs=$(SECURED) \
	  --override listeners=SASL_SSL://localhost:9092 --override authorizer.class.name=$(AUTHORIZER) \
	  $(if $(ZOOKEEPER),--override zookeeper.connect=$(ZOOKEEPER)) $(ARGS)

spark-cluster: $(DEV)/.spark ## A Spark master and two workers, without Docker (needs Java)
	@exec $(DEV)/bin/python -m pipelines.spark_cluster $(ARGS)

test: lint types test-parallel test-serial ## Run the checks, the tests in a process a core, and then those that need the machine to themselves

test-parallel: $(DEV)/.stamp
	$(PY) -m pytest -m "not oracle and not serial" -n $(PROCESSES) --maxprocesses 4 --dist worksteal $(ARGS) $(MAY_BE_NONE)

test-serial: $(DEV)/.stamp
	$(PY) -m pytest $(SERIAL) -m "serial and not oracle" $(ARGS) $(MAY_BE_NONE)

test-fast: $(DEV)/.stamp ## The fast unit tests: under a minute
	$(PY) -m pytest $(FAST) $(ARGS)

format: $(DEV)/.stamp ## Sort imports and format the code
	$(DEV)/bin/ruff check --select I --fix $(or $(FILES),.)
	$(DEV)/bin/ruff format $(or $(FILES),.)

lint: $(DEV)/.stamp ## Style and layers
	$(DEV)/bin/ruff check .
	$(DEV)/bin/ruff format --check .
	$(DEV)/bin/lint-imports --no-logo

types: $(DEV)/.stamp ## mypy, strict
	$(DEV)/bin/mypy

interop: interop-clients interop-spark ## Real clients, a mixed cluster, a directory that moves, Spark; our broker alone answers (needs Java and Maven)

interop-clients: $(DEV)/.spark
	$(PY) -m pytest tests/interop tests/metadata/store --ignore=$(SPARK_TESTS) $(INTEROP) -n $(INTEROP_PROCESSES) --dist loadfile \
	  -m "(interop or oracle) and not long" $(ARGS) $(MAY_BE_NONE)

interop-spark: $(DEV)/.spark
	$(PY) -m pytest $(SPARK_TESTS) $(INTEROP) -m "not long" $(ARGS) $(MAY_BE_NONE)

interop-long: interop ## The long proofs, the same clients on Apache Kafka, and its recorded answers asked again
	$(PY) -m pytest tests/interop --ignore=$(SPARK_TESTS) $(INTEROP) -m long
	$(PY) -m pytest tests/differential tests/oracle tests/spark tests/broker tests/config tests/protocol tests/security tests/web $(INTEROP) -m oracle
	$(PY) -m pytest $(SPARK_TESTS) $(INTEROP) -m long
	$(PY) -m pytest tests/robustness -o addopts="--strict-markers --strict-config --import-mode=importlib" -m slow --timeout 1800
	$(PY) -m benchmarks.sizes
	$(MAKE) fuzz sim SEEDS=2000 ARGS=--keep-going

coverage: $(DEV)/.stamp ## Tests with a report of what they reach
	$(DEV)/bin/coverage run -m pytest $(ARGS)
	$(DEV)/bin/coverage report

bench: $(DEV)/.stamp ## Ours and Apache Kafka, alternately, on this machine (needs Java and Maven)
	$(PY) -m benchmarks $(ARGS)

bench-spark: $(DEV)/.spark ## Spark reads through its own connector, through ours and from log files (ARGS="--share 0.1" is the small form)
	$(PY) -m benchmarks.spark_reads $(ARGS)

fuzz: $(DEV)/.stamp ## Mutated and truncated input (CASES=100000)
	$(PY) -m tests.fuzz.messages --cases $(CASES)
	$(PY) -m tests.fuzz.records --cases $(CASES)
	$(PY) -m tests.fuzz.key_stores --cases $(CASES)
	$(PY) -m tests.fuzz.store_server --cases $(CASES)
	$(PY) -m tests.fuzz.group_members --cases $(CASES)

sim: $(DEV)/.stamp ## Simulated histories (SEEDS=200)
	PYTHONHASHSEED=0 $(PY) -m tests.simulation --seeds $(SEEDS) $(ARGS)
	PYTHONHASHSEED=0 $(PY) -m tests.simulation --cluster --seeds $(SEEDS) $(ARGS)
	PYTHONHASHSEED=0 $(PY) -m tests.simulation --storage --seeds $(SEEDS) $(ARGS)
	PYTHONHASHSEED=0 $(PY) -m tests.simulation --ranges --seeds $(SEEDS) $(ARGS)
	PYTHONHASHSEED=0 $(PY) -m tests.simulation --store --seeds $(SEEDS) $(ARGS)
	PYTHONHASHSEED=0 $(PY) -m tests.simulation --cluster --store --seeds $(SEEDS) $(ARGS)
	PYTHONHASHSEED=0 $(PY) -m tests.simulation --transactions --seeds $(SEEDS) $(ARGS)
	PYTHONHASHSEED=0 $(PY) -m tests.simulation --cluster --transactions --seeds $(SEEDS) $(ARGS)
	PYTHONHASHSEED=0 $(PY) -m tests.simulation --groups --seeds $(SEEDS) $(ARGS)
	PYTHONHASHSEED=0 $(PY) -m tests.simulation --shares --seeds $(SEEDS) $(ARGS)
	PYTHONHASHSEED=0 $(PY) -m tests.simulation --relay --seeds $(SEEDS) $(ARGS)

docs: $(DEV)/.stamp ## Write the generated pages again
	$(PY) -m config.document > docs/settings.md
	$(PY) -m broker.observability.document > docs/metrics.md
	$(PY) -m benchmarks.ratio_chart
	$(PY) deploy/grafana/dashboard.py > deploy/grafana/dashboards/barnabas.json
	$(PY) deploy/grafana/dashboard.py clients > deploy/grafana/dashboards/clients.json

pictures: $(DEV)/.stamp ## Make the pictures of docs/web.md again (needs Chromium)
	BARNABAS_ARTEFACTS=docs/pictures $(PY) -m pytest tests/web/browser/test_pictures.py

example-spark: $(DEV)/.spark ## Two Spark jobs on a broker of their own, in two minutes (needs Java)
	$(PY) -m pipelines.example

lock: $(DEV)/.stamp ## Write the lock files again from pyproject.toml
	@$(PY) -m pip install --quiet uv
	for extra in runtime cli web dev spark; do \
	  $(DEV)/bin/uv pip compile --universal --generate-hashes --python-version 3.11 --no-header --quiet --upgrade \
	    $$(test $$extra = runtime || echo --extra $$extra) $$(test $$extra != dev || echo --extra web) pyproject.toml -o requirements/$$extra.txt; done

clean: ## Remove what these targets made, but no data
	rm -rf $(RUN) $(DEV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .cache
