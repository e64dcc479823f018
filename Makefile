# Each target only calls a script or tool that also works by itself. `make` lists the targets.
# PYTHON=/path/to/python3 chooses the Python of .venv; ARGS="-k name" goes to pytest, ctest or the benchmark.
SHELL := /bin/bash
MAKEFLAGS += --no-builtin-rules --no-print-directory
.DEFAULT_GOAL := help
.NOTPARALLEL:
ARGS ?=

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: demo
demo: ## a year of New York's flights and weather as MQTT messages: stored by Spark, read back, plotted
	@scripts/demo.sh $(ARGS)

.PHONY: cluster-demo
cluster-demo: ## three sites, a load, and kill -9 of those that lead, while you watch; ARGS="--kills 10"
	@scripts/cluster_demo.sh $(ARGS)

.PHONY: dev
dev: ## make .venv the place to develop in: a changed .py is live at once, C++ is compiled on import
	@scripts/setup.sh --editable test arrow,spark,cli,serve && scripts/setup.sh --editable lint

.PHONY: test-fast
test-fast: ## what can fail most: C++ tests, and quick Python tests without a JVM and Kafka, against this folder
	@scripts/test_fast.sh $(ARGS)

.PHONY: test
test: ## all tests: C++ under ASan and UBSan, the release wheel, Python against the installed wheel
	@scripts/test.sh

.PHONY: test-long
test-long: ## the long Python tests that make test leaves out; ARGS=storage, spark or programs for one suite
	@scripts/test_long.sh $(ARGS)

.PHONY: test-s3
test-s3: ## the tests of uploads against a real S3 server, which it compiles with Cargo; 700 MB of jars, once per machine
	@scripts/test_s3.sh $(ARGS)

.PHONY: test-raft
test-raft: ## the tests of the consensus in raft/, and 10,000 simulated clusters; says so if there is no Cargo
	@scripts/raft.sh test

.PHONY: simulate
simulate: ## simulate TOPICDB_SIM_SEEDS clusters (1,000,000: an hour) in which everything fails, and check each
	@scripts/raft.sh simulate

.PHONY: test-cluster
test-cluster: ## kill and stop replicas TOPICDB_CLUSTER_ROUNDS (100) times; says so if there is no Cargo
	@scripts/cluster.sh test $(ARGS)

.PHONY: test-sites
test-sites: ## the Python tests of local databases again, with databases on three sites; ARGS=embedded or connected
	@scripts/test_sites.sh $(ARGS)

.PHONY: test-histories
test-histories: ## let sites and links fail, and check what clients were told; TOPICDB_HISTORY_SEEDS (5) times
	@scripts/histories.sh run $(ARGS)

.PHONY: test-spark-versions
test-spark-versions: ## the Spark connector with Spark 3.5 to 4.3, classic and Connect; 2.5 GB, once per machine
	@scripts/spark_versions.sh $(ARGS)

.PHONY: test-loaded
test-loaded: ## all tests on a loaded machine: at the lowest priority, beside a busy loop on each core
	@scripts/loaded.sh scripts/test.sh

.PHONY: test-cpp
test-cpp: ## C++ tests only, without sanitizers
	@scripts/cpp.sh dev $(ARGS)

.PHONY: test-aarch64
test-aarch64: ## C++ tests compiled for ARM, 64 bits, and run under qemu
	@scripts/cpp.sh aarch64 $(ARGS)

.PHONY: test-python
test-python: ## Python tests only, against the wheel installed in .venv
	@scripts/setup.sh test arrow,spark,cli,serve
	@scripts/pytest.sh $(ARGS)

.PHONY: coverage
coverage: ## which lines the C++ tests and the Python tests without a JVM and Kafka run, by folder
	@scripts/coverage.sh $(ARGS)

.PHONY: asan
asan: ## C++ and Python tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@scripts/cpp.sh asan
	@scripts/python_asan.sh $(ARGS)

.PHONY: tsan
tsan: ## C++ tests under ThreadSanitizer
	@scripts/cpp.sh tsan $(ARGS)

.PHONY: crash
crash: ## kill -9 a writing process again and again: TOPICDB_CRASH_ROUNDS times (500)
	@scripts/setup.sh test arrow,spark,cli,serve
	@TOPICDB_CRASH_ROUNDS=$${TOPICDB_CRASH_ROUNDS:-500} scripts/pytest.sh -m crash --timeout 0 $(ARGS)

.PHONY: crash-states
crash-states: ## simulate TOPICDB_CRASH_STATES crashes (1,000,000: hours), lost and torn writes included, and check each
	@scripts/setup.sh test arrow,spark,cli,serve
	@TOPICDB_CRASH_STATES=$${TOPICDB_CRASH_STATES:-1000000} TOPICDB_CRASH_KEEP=$${TOPICDB_CRASH_KEEP:-build/crash-states} \
	  scripts/pytest.sh -s -k every_state --timeout 0 $(ARGS) tests/python/care/test_crash_states.py

.PHONY: fuzz
fuzz: ## damaged input for the decoders of stored bytes: TOPICDB_FUZZ_SECONDS of it (60)
	@scripts/fuzz.sh $(ARGS)

.PHONY: bench
bench: ## measure, and print the table
	@scripts/bench.sh $(ARGS)

.PHONY: bench-large
bench-large: ## append millions of messages: does cost stay the same, and opening, and memory?
	@scripts/setup.sh bench arrow && .venv/bin/python bench/python/large.py $(ARGS)

.PHONY: bench-last
bench-last: ## measure the newest message of each topic beside a full scan and DuckDB
	@scripts/setup.sh bench arrow && .venv/bin/python bench/python/last_values.py $(ARGS)

.PHONY: bench-frames
bench-frames: ## measure DuckDB and polars over scans, with and without pushing queries down
	@scripts/setup.sh bench arrow && .venv/bin/python bench/python/frames_bench.py $(ARGS)

.PHONY: bench-count
bench-count: ## measure counts by topic and by time beside a full read, and DuckDB over Parquet
	@scripts/setup.sh bench arrow && .venv/bin/python bench/python/count_bench.py $(ARGS)

.PHONY: bench-arrival
bench-arrival: ## measure reading by order of arrival: backfills, late data, clocks that restart; and DuckDB
	@scripts/setup.sh bench arrow && .venv/bin/python bench/python/arrival_bench.py $(ARGS)

.PHONY: bench-fresh
bench-fresh: ## measure reading right after appending, while the sealer is at work; and rocksdict
	@scripts/setup.sh bench arrow && .venv/bin/python bench/python/fresh_bench.py $(ARGS)

.PHONY: bench-pages
bench-pages: ## measure scans with and without values
	@scripts/setup.sh bench arrow && .venv/bin/python bench/python/pages_bench.py $(ARGS)

.PHONY: bench-subscribe
bench-subscribe: ## measure subscriptions: fan-out, latency, catching up
	@scripts/setup.sh bench arrow && .venv/bin/python bench/python/subscription_bench.py $(ARGS)

.PHONY: bench-serve
bench-serve: ## measure a database of a server beside one that is open here
	@scripts/setup.sh bench serve && .venv/bin/python bench/python/serve_bench.py $(ARGS)

.PHONY: bench-replay
bench-replay: ## measure replays to endpoints beside scans, and beside ingest
	@scripts/setup.sh bench arrow,replay && .venv/bin/python bench/python/replay_bench.py $(ARGS)

.PHONY: bench-bridge
bench-bridge: ## measure the MQTT bridge beside mosquitto_sub that writes a file
	@scripts/setup.sh bench arrow,replay && .venv/bin/python bench/python/bridge_bench.py $(ARGS)

.PHONY: bench-publisher
bench-publisher: ## measure topicdb.Publisher beside paho-mqtt alone
	@scripts/setup.sh bench mqtt && .venv/bin/python bench/python/publisher_bench.py $(ARGS)

.PHONY: bench-commit
bench-commit: ## measure commits, transactions and latencies beside SQLite and RocksDB
	@scripts/bench_commit.sh $(ARGS)

.PHONY: bench-cluster
bench-cluster: ## measure three replicas of a shard beside a local database, and how long a leader is missed that is killed or hands over
	@scripts/cluster.sh bench $(ARGS)

.PHONY: bench-jetstream
bench-jetstream: ## measure three sites beside three servers of NATS JetStream: appends, a leader that is killed, disk
	@scripts/setup.sh jetstream serve && mkdir -p build && .venv/bin/python bench/python/jetstream_bench.py --directory build $(ARGS)

.PHONY: bench-queue
bench-queue: ## measure the buffer queue beside plain writing and reading of records
	@scripts/bench_queue.sh $(ARGS)

.PHONY: bench-spark
bench-spark: ## measure format("topicdb") beside Spark's own Parquet
	@scripts/setup.sh bench arrow,spark,serve && .venv/bin/python bench/python/spark_bench.py $(ARGS)

.PHONY: docs
docs: ## the site of the documentation, in build/site; warnings are errors, and links are checked
	@scripts/setup.sh docs && scripts/docs.sh $(ARGS)

.PHONY: lint
lint: ## every static check: formats, clang-tidy, ruff, mypy, stubtest, shellcheck
	@scripts/setup.sh test arrow,spark,cli,serve && scripts/setup.sh lint && scripts/lint.sh

.PHONY: format
format: ## format C++ and Python
	@scripts/setup.sh lint && scripts/lint.sh --fix

.PHONY: wheel
wheel: ## sdist, and from it a wheel that needs no library of the system, in dist/; tested
	@scripts/setup.sh test arrow,spark,cli,serve && scripts/wheel.sh

.PHONY: release
release: ## check, build, commit and tag VERSION=0.2.0; ARGS=--dry-run only checks, and shows what would change
	@scripts/release.sh $(VERSION) $(ARGS)

.PHONY: setup
setup: ## only install what is needed to build and test: system packages, RocksDB, .venv
	@scripts/setup.sh test arrow,spark,cli,serve && scripts/setup.sh lint

.PHONY: clean
clean: ## remove build/, dist/ and .venv/; RocksDB stays in the user's cache
	rm -rf build dist .venv
