#!/usr/bin/env bash
# Runs clusters in which processes and links fail and sites come and go, and checks what their clients were told:
# `histories.sh run [ARGUMENT...]` runs TOPICDB_HISTORY_SEEDS (5) seeds, some five minutes each. Arguments go to
# tests/cluster/histories. `histories.sh checker FILE` only compiles tests/cluster/checker, which needs Go 1.19 or
# newer, into FILE, and ends with 75 if that cannot be done here. Without it, histories are checked in Python only.
# Without Cargo there is no replication, and the script says so.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$topicdb_root"

unavailable=75
log=$topicdb_root/build/logs/checker.log

# Compiles the checker into a file, and tests it if there is a second argument.
compile_checker() {
  local go file
  go=$(command -v go || echo /usr/local/go/bin/go)
  [ -x "$go" ] ||
    { topicdb_say "no Go: install Debian's package golang-go, or Go 1.19 or newer from go.dev"; return "$unavailable"; }
  file=$(realpath -m "$1")
  mkdir -p "$(dirname "$log")" "$(dirname "$file")"
  cd "$topicdb_root/tests/cluster/checker"
  "$go" mod download >"$log" 2>&1 ||
    { topicdb_say "Go cannot get the module porcupine (whole log: $log)"; return "$unavailable"; }
  topicdb_logged "$log" "$go" build -o "$file" .
  [ $# = 1 ] || topicdb_logged "$log" "$go" test ./...
}

case ${1:-} in
  checker) compile_checker "$2" ;;
  run)
    topicdb_has_rust || {
      topicdb_say "clusters are not tested: there is no Cargo with Rust $(topicdb_rust_needed) or newer"
      exit 0
    }
    checker=()
    status=0
    (compile_checker build/histories/checker tested) || status=$?
    case $status in
      0) checker=(--checker build/histories/checker) ;;
      "$unavailable") topicdb_say "no search for an order of all operations: only the checks in Python" ;;
      *) exit "$status" ;;
    esac
    scripts/setup.sh test arrow,spark,cli,serve
    PYTHONPATH=tests:tests/python exec .venv/bin/python -m cluster.histories --keep build/histories/failed \
      --seeds "${TOPICDB_HISTORY_SEEDS:-5}" "${checker[@]}" "${@:2}"
    ;;
  *) topicdb_fail "histories.sh: expected run or checker, got ${1:-nothing}" ;;
esac
