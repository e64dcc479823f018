#!/usr/bin/env bash
# `loaded.sh COMMAND...`: runs the command at the lowest priority beside a busy loop on each core. Each loop
# has a session of its own, as another program would, so that a scheduler that groups by sessions gives each
# its share.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

loops=()
end_loops() { kill "${loops[@]}" 2>/dev/null || true; }
trap end_loops EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
for ((core = 0; core < $(nproc); core++)); do
  # The loop ends by itself if this script is killed.
  setsid taskset -c "$core" bash -c "while kill -0 $$ 2>/dev/null; do for ((i = 0; i < 1000000; i++)); do :; done; done" &
  loops+=($!)
done
topicdb_say "beside ${#loops[@]} busy loops, at the lowest priority: $*"
nice -n 19 "$@"
