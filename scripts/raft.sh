#!/usr/bin/env bash
# Tests the crate raft/, the consensus of a replicated database: `raft.sh test` checks formats and lints, runs
# all tests, and then the simulator with TOPICDB_SIM_SEEDS (10,000) seeds. `raft.sh simulate` runs only the
# simulator, with 1,000,000 seeds on all cores: about an hour and a half of one core.
#
# TOPICDB_SIM_FIRST_SEED is where the seeds begin (1). A seed that breaks a rule prints how to run it alone.
# What Cargo compiles is in the cache, for all clones. Without Cargo, or where it cannot get the crates,
# nothing is tested, and the script says so: TopicDB builds without them.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$topicdb_root/raft"

log=$topicdb_root/build/logs/raft.log
CARGO_TARGET_DIR=$(topicdb_cache_dir)/raft-target
export CARGO_TARGET_DIR

# Ends the script, without an error, if this machine cannot have the crates.
get_crates() {
  command -v cargo >/dev/null || { topicdb_say "raft/ is not tested: there is no cargo"; exit 0; }
  mkdir -p "$(dirname "$log")"
  cargo fetch --locked >"$log" 2>&1 && return
  if grep -q -- '--locked' "$log"; then topicdb_fail "raft/Cargo.lock does not fit Cargo.toml: run cargo update -w in raft/"; fi
  tail -n 5 "$log" >&2
  topicdb_say "raft/ is not tested: Cargo cannot get its crates (whole log: $log)"
  exit 0
}

lint() {
  cargo fmt --check
  cargo clippy --locked --all-targets -- -D warnings
  python3 "$topicdb_root/scripts/raft_licences.py" --check
}

test_all() { cargo test --locked; }

# A C program that opens three sites, closes the leader, and looks for its values.
test_interface() {
  local made=$topicdb_root/build/raft-interface
  rm -rf "$made"
  mkdir -p "$made/sites"
  cargo build --locked --profile sim --lib
  "${CC:-cc}" -std=c11 -Wall -Wextra -Wpedantic -Werror -Iinclude tests/interface.c \
    "$CARGO_TARGET_DIR/sim/libtopicdb_raft.a" -lpthread -ldl -lm -o "$made/interface"
  "${CXX:-c++}" -std=c++20 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -x c++ include/topicdb_raft.h
  timeout 300 "$made/interface" "$made/sites"
}

compile_simulator() { cargo test --locked --profile sim --no-run; }

simulate() { cargo test --locked --quiet --profile sim every_seed_holds -- --nocapture; }

case ${1:-} in
  test)
    get_crates
    topicdb_step "raft: format and lints" topicdb_logged "$log" lint
    topicdb_step "raft: tests" topicdb_logged "$log" test_all
    topicdb_step "raft: the C interface" topicdb_logged "$log" test_interface
    export TOPICDB_SIM_SEEDS=${TOPICDB_SIM_SEEDS:-10000}
    ;;
  simulate)
    get_crates
    export TOPICDB_SIM_SEEDS=${TOPICDB_SIM_SEEDS:-1000000} TOPICDB_SIM_THREADS=${TOPICDB_SIM_THREADS:-$(nproc)}
    ;;
  *) topicdb_fail "raft.sh: expected test or simulate, got ${1:-nothing}" ;;
esac
topicdb_step "raft: compiling the simulator" topicdb_logged "$log" compile_simulator
topicdb_step "raft: $TOPICDB_SIM_SEEDS simulated clusters" simulate
