#!/usr/bin/env bash
# Everything a change must pass: the C++ tests, plain and under the sanitizers, the release wheel in
# an environment of its own, and the Python tests against the installed wheel.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$topicdb_root"

topicdb_say "make test: about 10 minutes on two cores the first time, then as long as the tests take;" \
  "12 more where RocksDB is not yet in $(topicdb_cache_dir)"
scripts/setup.sh test arrow,spark,cli,serve
scripts/cpp.sh dev
scripts/cpp.sh asan
scripts/wheel.sh
topicdb_say "Python tests against the installed wheel ($(topicdb_minutes $SECONDS) so far); those with Spark aside"
# Spark waits for its tasks more than it computes; in turn they would take a third longer.
spark_log=build/logs/spark_tests.log
scripts/pytest.sh -m "spark and not slow and not wheel" "$@" >"$spark_log" 2>&1 &
spark=$!
trap 'kill "$spark" 2>/dev/null || true' EXIT
scripts/pytest.sh -m "not spark and not slow and not wheel" "$@"
trap - EXIT
if ! wait "$spark"; then
  cat "$spark_log" >&2
  topicdb_fail "failed: the tests with Spark (whole log: $spark_log)"
fi
tail -n 1 "$spark_log"
