#!/usr/bin/env bash
# Runs the tests that every change must pass: the C++ tests under ASan and UBSan, the release wheel in an
# environment of its own, and the Python tests against the installed wheel. If a part fails, the others run
# all the same; the end names the parts that failed.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$topicdb_root"
trap 'exit 130' INT # pytest handles Ctrl-C itself: without this the next part would begin

pytest_results=build/logs/pytest.xml
failed=() # one line for each part that failed

# part NAME LIST COMMAND...: runs a part. The command LIST prints the names of its tests that failed.
part() {
  local name=$1 list=$2; shift 2
  "$@" && return
  failed+=("$name: $("$list" | head -n 50)")
}

# Prints what failed of the C++ tests: CTest's own list, which has lines such as "12:share_2_of_16", and the
# tests that a process of many tests said have failed.
failed_cpp_tests() {
  local logs=build/asan/Testing/Temporary
  [ -s "$logs/LastTestsFailed.log" ] || { echo "no test ran to its end"; return; }
  {
    cut -d: -f2- "$logs/LastTestsFailed.log"
    [ ! -f "$logs/LastTest.log" ] || sed -n 's/^\[  FAILED  \] \([^ ,]*\.[^ ,]*\).*/\1/p' "$logs/LastTest.log"
  } | sort -u | sed 's/^/    /; 1s/^/\n/'
}
failed_somewhere() { echo "see above"; }
failed_python_tests() {
  .venv/bin/python - "$pytest_results" <<'PYTHON'
import os, sys, xml.etree.ElementTree as tree
if not os.path.exists(sys.argv[1]):
    sys.exit(print("no test ran to its end"))
for case in tree.parse(sys.argv[1]).iter("testcase"):
    if case.find("failure") is not None or case.find("error") is not None:
        print(f"\n    {case.get('classname')}::{case.get('name')}", end="")
PYTHON
}

python_tests() {
  topicdb_say "Python tests against the installed wheel ($(topicdb_minutes $SECONDS) so far)"
  # Three processes run tests, since tests wait for processes and disks as much as they compute. A file stays in
  # one process, because its tests share fixtures. The order is that of collection, which begins with Spark's
  # tests, the longest.
  scripts/pytest.sh -n 3 --dist loadfile --no-loadscope-reorder --junit-xml "$pytest_results" "$@"
}

topicdb_say "make test: about 10 minutes on two cores the first time, then as long as the tests take;" \
  "12 more where RocksDB is not yet in $(topicdb_cache_dir)"
rm -f "$pytest_results" build/asan/Testing/Temporary/LastTestsFailed.log # results of an earlier run
part "set-up" failed_somewhere scripts/setup.sh test arrow,spark,cli,serve
installed=$((${#failed[@]} == 0))
part "C++ tests under ASan and UBSan" failed_cpp_tests scripts/cpp.sh asan
if [ "$installed" = 1 ]; then
  part "release wheel" failed_somewhere scripts/wheel.sh
  part "Python tests" failed_python_tests python_tests "$@"
else
  failed+=("release wheel, Python tests: not run, since the set-up failed")
fi

if [ "${#failed[@]}" != 0 ]; then
  topicdb_say "make test: $(topicdb_minutes $SECONDS); these parts failed:"
  printf '  %s\n' "${failed[@]}" >&2
  exit 1
fi
topicdb_say "make test: all parts passed in $(topicdb_minutes $SECONDS)"
