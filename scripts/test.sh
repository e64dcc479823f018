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
topicdb_say "Python tests against the installed wheel ($(topicdb_minutes $SECONDS) so far)"
# Two at a time: they wait for processes and disks as much as they compute. A file stays in one process,
# for the fixtures it shares; in the order of the folder, which begins with Spark's, the longest.
scripts/pytest.sh -n 2 --dist loadfile --no-loadscope-reorder "$@"
