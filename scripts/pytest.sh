#!/usr/bin/env bash
# Runs pytest against the wheel in .venv with the given arguments: all but the long and slow tests and those
# of the release wheel (test_long.sh and wheel.sh run these).
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$topicdb_root"

exec .venv/bin/python -m pytest -m "$topicdb_usual_tests" "$@" # a later -m replaces this one
