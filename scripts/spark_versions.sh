#!/usr/bin/env bash
# Runs the tests of the Spark connector with each version of Spark that it is for, against the wheel in
# .venv. It installs each into a folder of its own, once per machine: 500 MB each. Arguments go to pytest.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$topicdb_root"

versions=(3.5.9 4.0.5 4.1.4 4.2.1 4.3.0)
connect=(grpcio grpcio-status googleapis-common-protos zstandard)

scripts/setup.sh test arrow,spark,cli,serve
TOPICDB_SPARK_VERSIONS=$(topicdb_cache_dir)/spark-versions
export TOPICDB_SPARK_VERSIONS
mkdir -p "$TOPICDB_SPARK_VERSIONS"

# Installs a version, and what Spark Connect needs beside it.
install_version() {
  .venv/bin/pip install --no-compile --target "$work/made" "pyspark==$version" "${connect[@]}"
}

for version in "${versions[@]}"; do
  topicdb_once "spark-$version" "$TOPICDB_SPARK_VERSIONS/pyspark-$version" .venv/bin/pip install_version
done
scripts/pytest.sh -m slow tests/python/spark/test_spark_versions.py "$@"
