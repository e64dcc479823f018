#!/usr/bin/env bash
# Runs the tests that can fail most: the C++ tests, plain, and the Python tests of topicdb_fast_tests in
# lib.sh. Python runs against this folder (`make dev`). Arguments go to pytest.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$topicdb_root"

scripts/setup.sh --editable test arrow,spark,cli,serve
scripts/cpp.sh dev
.venv/bin/python -c 'import topicdb' # compiles changed C++ once, not in each worker
topicdb_step "Python tests" scripts/pytest.sh -q -n 3 --dist loadfile --no-loadscope-reorder \
  -m "$topicdb_fast_tests" "$@"
topicdb_say "make test-fast: passed in $(topicdb_minutes $SECONDS)"
