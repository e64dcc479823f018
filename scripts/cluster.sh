#!/usr/bin/env bash
# Tests or measures replicas in processes of their own: `cluster.sh test` kills and stops them
# TOPICDB_CLUSTER_ROUNDS (100) times in each test, and `cluster.sh bench` prints figures. Arguments go to CTest,
# or to the benchmark. Without Cargo there are no replicas, and the script says so.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$topicdb_root"

topicdb_has_rust || {
  topicdb_say "replicas are not tested or measured: there is no Cargo with Rust $(topicdb_rust_needed) or newer"
  exit 0
}
case ${1:-} in
  test)
    export TOPICDB_CLUSTER_ROUNDS=${TOPICDB_CLUSTER_ROUNDS:-100}
    scripts/cpp.sh dev -R 'ClusterTest' --timeout 7200 "${@:2}"
    ;;
  bench) topicdb_run_cpp_bench topicdb_cluster_bench "${@:2}" ;;
  *) topicdb_fail "cluster.sh: expected test or bench, got ${1:-nothing}" ;;
esac
