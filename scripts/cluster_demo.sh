#!/usr/bin/env bash
# Installs only what the demo of a cluster needs, then runs it with the given arguments.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$topicdb_root"

scripts/setup.sh demo serve
topicdb_say "Demo ($(topicdb_minutes $SECONDS) so far)"
exec .venv/bin/python examples/cluster.py "$@"
