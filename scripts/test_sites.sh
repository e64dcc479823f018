#!/usr/bin/env bash
# Runs the Python tests of local databases with databases on three sites of a cluster, against the wheel in
# .venv: `test_sites.sh [embedded|connected] [PYTEST-ARGUMENT]...`; both if none is named. The tests that are
# about one process, which tests/python/sites_local.txt lists, are left out.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$topicdb_root"

kinds=(embedded connected)
case ${1:-} in embedded | connected) kinds=("$1") && shift ;; esac
scripts/setup.sh test arrow,spark,cli,serve
export PYTHONPATH=$topicdb_root/tests:$topicdb_root/tests/python
failed=()
for kind in "${kinds[@]}"; do
  topicdb_say "Tests with databases on three sites: $kind"
  scripts/pytest.sh -p sites_plugin --sites "$kind" -m "$topicdb_plain_tests" -n 2 --timeout 300 "$@" ||
    failed+=("$kind")
done
[ "${#failed[@]}" = 0 ] || topicdb_fail "tests on three sites failed: ${failed[*]}"
topicdb_say "make test-sites: passed in $(topicdb_minutes $SECONDS)"
