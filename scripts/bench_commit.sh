#!/usr/bin/env bash
# Measures commits, transactions and latencies beside SQLite and RocksDB and prints the table; the
# arguments go to topicdb_commit_bench (see bench/README.md).
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$topicdb_root"

compile() {
  cmake -S . -B build/bench -GNinja -DTOPICDB_BUILD_PYTHON=OFF -DTOPICDB_BUILD_BENCH=ON \
    -DCMAKE_BUILD_TYPE=Release
  cmake --build build/bench --target topicdb_commit_bench
}

scripts/system.sh
topicdb_build_environment
topicdb_step "Benchmark of commits: compiling (some minutes the first time)" \
  topicdb_logged build/logs/bench.log compile
# Beside the clone, which is on a disk: /tmp may be memory, where an fsync does nothing.
directory=$(mktemp -d build/commit-bench-XXXXXX)
trap 'rm -rf "$directory"' EXIT
build/bench/bench/cpp/topicdb_commit_bench --directory "$directory" "$@"
