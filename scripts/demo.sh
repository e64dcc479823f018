#!/usr/bin/env bash
# Installs only what the demo needs, then runs the demo with the given arguments.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$topicdb_root"

topicdb_say "make demo: about 6 minutes on two cores the first time, then 2;" \
  "12 more where RocksDB is not yet in $(topicdb_cache_dir)"
scripts/setup.sh demo spark
topicdb_say "Demo ($(topicdb_minutes $SECONDS) so far)"
exec .venv/bin/python examples/flights.py "$@"
