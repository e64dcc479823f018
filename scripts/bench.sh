#!/usr/bin/env bash
# Measures TopicDB beside its peers and prints the table; the arguments go to bench/python/report.py.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$topicdb_root"

scripts/setup.sh bench arrow
exec .venv/bin/python bench/python/report.py "$@"
