#!/usr/bin/env bash
# Feeds damaged input to the decoders of stored bytes, for TOPICDB_FUZZ_SECONDS (60) each, under the
# sanitizers. The fuzzer keeps useful inputs in build/fuzz/corpus for the next run; an input that fails goes
# to build/fuzz/findings, and the output names it. `fuzz.sh page|queue|job|record FILE...` runs such inputs
# again.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$topicdb_root"

seconds=${TOPICDB_FUZZ_SECONDS:-60}
[[ $seconds =~ ^[1-9][0-9]*$ ]] || topicdb_fail "TOPICDB_FUZZ_SECONDS is a number of seconds, not '$seconds'"
findings=build/fuzz/findings
export UBSAN_OPTIONS=print_stacktrace=1

compile() { cmake --preset fuzz && cmake --build --preset fuzz; }

fuzz() {
  local target=$1 corpus=build/fuzz/corpus/$1 log=build/logs/$1_fuzzer.log
  mkdir -p "$corpus" "$findings"
  build/fuzz/tests/fuzz/"$target"_seeds "$corpus"
  topicdb_say "Fuzzing ($target) for $(topicdb_minutes "$seconds")"
  if ! build/fuzz/tests/fuzz/"$target"_fuzzer -max_total_time="$seconds" -timeout=10 -rss_limit_mb=4096 \
    -print_final_stats=1 -verbosity=1 -artifact_prefix="$findings/$target-" "$corpus" >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    topicdb_fail "the fuzzer found something: run scripts/fuzz.sh $target with the file above (whole log: $log)"
  fi
  topicdb_say "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs, nothing found ($target)"
}

scripts/system.sh clang libclang-rt-dev llvm
command -v clang++ >/dev/null || topicdb_fail "no clang++: install clang with its compiler runtime"
topicdb_step "Fuzzing: compiling" topicdb_logged build/logs/fuzz.log compile
if [ $# -gt 1 ]; then exec build/fuzz/tests/fuzz/"$1"_fuzzer "${@:2}"; fi
for target in page queue job record; do fuzz "$target"; done
