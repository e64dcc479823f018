#!/usr/bin/env bash
# `cpp.sh PRESET [CTEST ARGUMENT...]`: configures, builds and runs the C++ tests of one preset.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$topicdb_root"

preset=$1; shift
compile() { cmake --preset "$preset" && cmake --build --preset "$preset"; }

if [ "$preset" = aarch64 ]; then
  scripts/system.sh g++-aarch64-linux-gnu qemu-user # needed for this preset only
  topicdb_aarch64_environment
else
  scripts/system.sh
  topicdb_build_environment
fi
topicdb_step "C++ ($preset): compiling (some minutes the first time)" \
  topicdb_logged "build/logs/$preset.log" compile
topicdb_step "C++ ($preset): tests" ctest --preset "$preset" "$@"
