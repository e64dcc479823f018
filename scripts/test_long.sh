#!/usr/bin/env bash
# Runs the long Python tests, which `make test` leaves out, against the wheel in .venv, in three suites that
# `folders` below names. `test_long.sh [SUITE]...` runs these suites, or all. `test_long.sh --turn` runs the
# suite whose turn it is: the number of commits decides, so that a commit always gets the same one.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$topicdb_root"

declare -A folders=(
  [spark]="spark"
  [storage]="care conformance database lifecycle messages parquet queues"
  [programs]="bridge cli cluster follow forward mqtt project remote replay"
)
turns=(spark storage programs)

suites=("$@")
if [ "${1:-}" = --turn ]; then
  suites=("${turns[$(git rev-list --count HEAD) % ${#turns[@]}]}")
elif [ $# = 0 ]; then
  suites=("${turns[@]}")
fi
for suite in "${suites[@]}"; do
  [ -n "${folders[$suite]:-}" ] || topicdb_fail "no long suite $suite: there are ${turns[*]}"
done

scripts/setup.sh test arrow,spark,cli,serve
failed=()
for suite in "${suites[@]}"; do
  read -ra names <<<"${folders[$suite]}"
  topicdb_say "Long tests: $suite"
  scripts/pytest.sh -m "long and not crash" -n 2 --dist load "${names[@]/#/tests/python/}" || failed+=("$suite")
done
[ "${#failed[@]}" = 0 ] || topicdb_fail "long tests failed: ${failed[*]}"
topicdb_say "make test-long: passed in $(topicdb_minutes $SECONDS)"
