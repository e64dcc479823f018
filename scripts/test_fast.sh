#!/usr/bin/env bash
# What can fail most and is quick: the C++ tests, plain, and the Python tests that need neither a JVM nor
# a broker nor minutes. Python runs against this folder (`make dev`). Arguments go to pytest.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$topicdb_root"

scripts/setup.sh --editable test arrow,spark,cli,serve
scripts/cpp.sh dev
.venv/bin/python -c 'import topicdb' # compiles what changed, once and not by both workers
topicdb_step "Python tests" .venv/bin/python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder \
  -m "not slow and not wheel and not spark and not kafka and not bench and not crash and not long and not installed" "$@"
topicdb_say "make test-fast: passed in $(topicdb_minutes $SECONDS)"
