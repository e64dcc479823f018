#!/usr/bin/env bash
# Runs pytest with the given arguments against the package in .venv: all tests but the long ones, which
# test_long.sh runs, those of the release wheel, which wheel.sh runs, and the slow ones (-m slow).
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$topicdb_root"

exec .venv/bin/python -m pytest -m "$topicdb_usual_tests" "$@" # a later -m replaces this one
