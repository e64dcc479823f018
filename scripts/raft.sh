#!/usr/bin/env bash
# Tests the crate raft/, the consensus of a replicated database: `raft.sh test` checks formats and lints, runs
# all tests, and then the simulator with TOPICDB_SIM_SEEDS (10,000) seeds. `raft.sh simulate` runs only the
# simulator, with 1,000,000 seeds on all cores: about an hour and a half of one core.
# `raft.sh library PROFILE FILE` compiles the static library, by the release or sim profile of Cargo.toml, and
# puts it into FILE. That is how CMake makes it.
#
# TOPICDB_SIM_FIRST_SEED is where the seeds begin (1). A seed that breaks a rule prints how to run it alone.
# What Cargo compiles is in CARGO_TARGET_DIR, which is in the cache, for all clones. Tests, the simulator and
# the C interface are all compiled by the profile sim, so that each crate is compiled once. Without Cargo, or
# where it cannot get the crates, nothing is tested, and the script says so: TopicDB builds without them.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$topicdb_root/raft"

log=$topicdb_root/build/logs/raft.log
made=$topicdb_root/build/raft
topicdb_cargo_environment
export TOPICDB_RAFT_CLONE=$topicdb_root # raft/src/lib.rs says why
[ -z "${TOPICDB_CARGO:-}" ] || PATH=$(dirname "$TOPICDB_CARGO"):$PATH

# Ends the script, without an error, if this machine cannot have the crates.
get_crates() {
  topicdb_has_rust ||
    { topicdb_say "raft/ is not tested: there is no Cargo with Rust $(topicdb_rust_needed) or newer"; exit 0; }
  mkdir -p "$(dirname "$log")"
  cargo fetch --locked >"$log" 2>&1 && return
  if grep -q -- '--locked' "$log"; then topicdb_fail "raft/Cargo.lock does not fit Cargo.toml: run cargo update -w in raft/"; fi
  tail -n 5 "$log" >&2
  topicdb_say "raft/ is not tested: Cargo cannot get its crates (whole log: $log)"
  exit 0
}

# Runs a command that compiles and copies, while no other clone does. Each clone's crate has the same name in
# what Cargo compiles, so another one could come in between.
alone() {
  mkdir -p "$CARGO_TARGET_DIR" "$made"
  (
    ! command -v flock >/dev/null || flock 9
    "$@"
  ) 9>"$CARGO_TARGET_DIR/topicdb.lock"
}

lint() {
  cargo fmt --check
  alone cargo clippy --locked --profile sim --all-targets -- -D warnings
  python3 "$topicdb_root/scripts/raft_licences.py" --check
}

# compile_library PROFILE FILE
compile_library() {
  cargo build --locked --profile "$1" --lib
  mkdir -p "$(dirname "$2")"
  cp "$CARGO_TARGET_DIR/$1/libtopicdb_raft.a" "$2"
}

# Makes the program $made/tests, which has the tests and the simulator.
compile_tests() {
  cargo test --locked --profile sim --lib --no-run --message-format=json-render-diagnostics >"$made/messages"
  cp "$(sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' "$made/messages")" "$made/tests"
}

test_all() { "$made/tests" --skip every_seed_holds; }

# A C program that opens three sites, closes the leader, and looks for its values.
test_interface() {
  rm -rf "$made/sites"
  mkdir -p "$made/sites"
  alone compile_library sim "$made/libtopicdb_raft.a"
  "${CC:-cc}" -std=c11 -Wall -Wextra -Wpedantic -Werror -Iinclude tests/interface.c \
    "$made/libtopicdb_raft.a" -lpthread -ldl -lm -o "$made/interface"
  "${CXX:-c++}" -std=c++20 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -x c++ include/topicdb_raft.h
  timeout 300 "$made/interface" "$made/sites"
}

simulate() { "$made/tests" every_seed_holds --quiet --nocapture; }

case ${1:-} in
  library)
    alone compile_library "$2" "$3"
    exit
    ;;
  test)
    get_crates
    topicdb_step "raft: compiling the tests" topicdb_logged "$log" alone compile_tests
    topicdb_step "raft: format and lints" topicdb_logged "$log" lint
    topicdb_step "raft: tests" topicdb_logged "$log" test_all
    topicdb_step "raft: the C interface" topicdb_logged "$log" test_interface
    export TOPICDB_SIM_SEEDS=${TOPICDB_SIM_SEEDS:-10000}
    ;;
  simulate)
    get_crates
    topicdb_step "raft: compiling the simulator" topicdb_logged "$log" alone compile_tests
    export TOPICDB_SIM_SEEDS=${TOPICDB_SIM_SEEDS:-1000000}
    ;;
  *) topicdb_fail "raft.sh: expected test, simulate or library, got ${1:-nothing}" ;;
esac
export TOPICDB_SIM_THREADS=${TOPICDB_SIM_THREADS:-$(nproc)}
topicdb_step "raft: $TOPICDB_SIM_SEEDS simulated clusters" simulate
