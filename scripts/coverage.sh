#!/usr/bin/env bash
# Measures which lines the tests run, and prints this by folder: for C++ the lines that the C++ tests run, for
# Python those that its tests without a JVM and Kafka run. Arguments go to pytest. Low coverage is no
# failure.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$topicdb_root"

reports=build/coverage-reports

add_up_cpp() {
  .venv/bin/gcovr --root . --filter cpp/ --merge-lines --json-summary "$reports/cpp.json" build/coverage
}

run_python() {
  .venv/bin/python -c 'import topicdb' # compiles changed C++ once, not in each worker
  .venv/bin/python -m coverage erase
  .venv/bin/python -m coverage run -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder \
    -m "$topicdb_plain_tests" "$@"
}

add_up_python() {
  .venv/bin/python -m coverage combine
  .venv/bin/python -m coverage json -o "$reports/python.json"
}

scripts/setup.sh --editable test arrow,spark,cli,serve
mkdir -p "$reports" build/coverage
find build/coverage -name '*.gcda' -delete # removes the counts of the last run
scripts/cpp.sh coverage
topicdb_step "C++ (coverage): adding up" topicdb_logged build/logs/coverage-cpp.log add_up_cpp
topicdb_step "Python tests, with counters of lines" run_python "$@"
topicdb_logged build/logs/coverage-python.log add_up_python
.venv/bin/python scripts/coverage_tables.py "$reports/cpp.json" "$reports/python.json"
