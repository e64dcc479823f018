#!/usr/bin/env bash
# Runs the tests that need a real S3 server against the wheel in .venv, with what s3.sh fetches.
# Arguments go to pytest.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$topicdb_root"

scripts/setup.sh test arrow,spark,cli,serve
TOPICDB_S3_SERVER=$(scripts/s3.sh server)
TOPICDB_S3_JARS=$(scripts/s3.sh jars)
export TOPICDB_S3_SERVER TOPICDB_S3_JARS
scripts/pytest.sh -m s3 tests/python/spark "$@"
