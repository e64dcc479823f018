#!/usr/bin/env bash
# Runs every static check over the tree, and names the checks that failed. `lint.sh --fix` formats the
# sources instead.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$topicdb_root"

bin=$PWD/.venv/bin
mapfile -t cpp_files < <(find cpp bindings bindings_java tests bench \( -name '*.c' -o -name '*.cc' -o -name '*.h' \) | sort)
python_trees=(python bench examples tests scripts)

if [ "${1:-}" = --fix ]; then
  "$bin/clang-format" -i "${cpp_files[@]}"
  "$bin/ruff" check --quiet --fix "${python_trees[@]}"
  "$bin/ruff" format --quiet "${python_trees[@]}"
  exit
fi

# Takes the compile commands from the wheel's build folder: they include the bindings, for the right Python.
clang_tidy() {
  local commands
  commands=$(find build -maxdepth 2 -path 'build/cp*/compile_commands.json' -printf '%T@ %p\n' |
    sort -n | tail -n 1 | cut -d' ' -f2)
  printf '%s\n' "${cpp_files[@]}" | grep -E '^(cpp/src|bindings|bindings_java)/.*\.cc$' |
    xargs "$bin/python" scripts/clang_tidy.py "$(dirname "$commands")"
}

# Compares the extension with its stub. Runs in build/, so that Python finds the installed package, not the
# source.
stubtest() {
  cd build
  "$bin/stubtest" topicdb._core --mypy-config-file ../pyproject.toml --allowlist ../tests/stubtest_allowlist.txt
}

# Reads the sources without importing them.
imports() { PYTHONPATH=python "$bin/lint-imports" --no-cache; }

failed=()
check() {
  local name=$1; shift
  # In `if (set -e; ...)` bash would ignore the -e.
  set +e
  (set -e; topicdb_step "lint: $name" "$@")
  local status=$?
  set -e
  [ "$status" = 0 ] || failed+=("$name")
}

check shellcheck "$bin/shellcheck" -x -P scripts scripts/*.sh .ci/run
check clang-format "$bin/clang-format" --dry-run --Werror "${cpp_files[@]}"
check "ruff check" "$bin/ruff" check --quiet "${python_trees[@]}"
check "ruff format" "$bin/ruff" format --quiet --check --diff "${python_trees[@]}"
check mypy "$bin/mypy" --strict "${python_trees[@]}"
check imports imports
check structure "$bin/python" scripts/check_structure.py
check stubtest stubtest
check clang-tidy clang_tidy
[ "${#failed[@]}" = 0 ] || topicdb_fail "lint: $(printf '%s; ' "${failed[@]}")'make format' mends the formats"
topicdb_say "lint: all checks passed"
