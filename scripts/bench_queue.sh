#!/usr/bin/env bash
# Measures the buffer queue beside plain writing and reading of records and prints the table; the
# arguments go to topicdb_queue_bench (see bench/README.md).
set -euo pipefail
. "$(dirname "$0")/lib.sh"
topicdb_run_cpp_bench topicdb_queue_bench "$@"
