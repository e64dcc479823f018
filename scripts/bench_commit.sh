#!/usr/bin/env bash
# Measures commits, transactions and latencies beside SQLite and RocksDB and prints the table; the
# arguments go to topicdb_commit_bench (see bench/README.md).
set -euo pipefail
. "$(dirname "$0")/lib.sh"
topicdb_run_cpp_bench topicdb_commit_bench "$@"
