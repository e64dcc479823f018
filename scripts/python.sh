#!/usr/bin/env bash
# Prints the Python to build with: $PYTHON if it is set, otherwise the first on the PATH, by the names below,
# that is 3.10 or newer.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

# Prints the real program of a Python: a version manager's shim may depend on the current folder.
executable() { "$1" -c 'import sys; assert sys.version_info >= (3, 10); print(sys.executable)' 2>/dev/null; }

if [ -n "${PYTHON:-}" ]; then
  executable "$PYTHON" || topicdb_fail "PYTHON=$PYTHON is no Python 3.10 or newer"
  exit
fi
for name in python3.11 python3 python3.12 python3.13 python3.14 python3.10; do
  ! executable "$name" || exit 0
done
topicdb_fail "no Python 3.10 or newer found: install one, or name it with PYTHON=/path/to/python3"
