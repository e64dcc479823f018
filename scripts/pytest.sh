#!/usr/bin/env bash
# Runs pytest against the wheel in .venv with the given arguments; by default all but the slow tests
# and those of the release wheel (wheel.sh runs these).
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$topicdb_root"

[ $# != 0 ] || set -- -m "not slow and not wheel"
exec .venv/bin/python -m pytest "$@"
