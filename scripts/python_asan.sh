#!/usr/bin/env bash
# Runs the Python tests on an extension built with AddressSanitizer and UndefinedBehaviorSanitizer.
# RocksDB and the JVM are not instrumented. Tests with Spark, crash tests and benchmarks do not run here.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$topicdb_root"

site=build/asan-python
stamp=$site/built
flags="-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined"

build_extension() {
  rm -rf "$site"
  .venv/bin/python -m pip install --no-deps --no-build-isolation --target "$site" . \
    -Cbuild-dir=build/asan-wheel -Ccmake.build-type=Debug -Cinstall.strip=false \
    -Ccmake.define.CMAKE_CXX_FLAGS="$flags" -Ccmake.define.TOPICDB_BUILD_SPARK=OFF
  echo "$sources" >"$stamp"
}

scripts/setup.sh test arrow,spark,cli,serve
sources=$(topicdb_hash CMakeLists.txt cmake cpp/CMakeLists.txt cpp/include cpp/src bindings python \
  pyproject.toml scripts/python_asan.sh)
if [ "$(cat "$stamp" 2>/dev/null)" != "$sources" ]; then
  topicdb_build_environment
  topicdb_step "Python extension under ASan and UBSan: building (some minutes the first time)" \
    topicdb_logged build/logs/python-asan.log build_extension
fi

# Python itself is not instrumented, so the sanitizers' runtime must be loaded before it. Leaks are not
# detected, since the interpreter frees little at its end. PYTHONMALLOC is set because Python's own allocator
# would hide an overrun of a bytes object.
export PYTHONPATH=$PWD/$site PYTHONMALLOC=malloc
export ASAN_OPTIONS=detect_leaks=0:strict_string_checks=1 UBSAN_OPTIONS=print_stacktrace=1
LD_PRELOAD="$(c++ -print-file-name=libasan.so) $(c++ -print-file-name=libstdc++.so)"
export LD_PRELOAD
topicdb_say "Python tests under ASan and UBSan"
[ $# != 0 ] || set -- --timeout 900
exec .venv/bin/python -m pytest -m "$topicdb_usual_tests and not spark and not crash and not bench" "$@"
