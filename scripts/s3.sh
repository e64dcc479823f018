#!/usr/bin/env bash
# Fetches what the tests with an S3 server need, once per machine, and prints where it is: `s3.sh server`
# compiles the server s3s-fs with Cargo and prints its path, `s3.sh jars` gets the jars with which Spark
# reads S3 (700 MB) and prints their folder.
#
# Cargo and Maven get both from where this machine gets its crates and artifacts. Cargo compares crates
# with the checksums of the lock file of s3s-fs, this script the jars with s3.sha256. Exits with 75 if
# there is no Cargo or Maven, or if it cannot get them.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

server_version=0.14.1
hadoop_version=3.5.0 # that of the PySpark in .venv
sums=$topicdb_root/scripts/s3.sha256
cache=$(topicdb_cache_dir)

compile() {
  CARGO_TARGET_DIR=$work/target cargo install s3s-fs --version "$server_version" --features binary --locked \
    --root "$work/made"
}

fetch() {
  cat >"$work/pom.xml" <<END
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>topicdb</groupId><artifactId>s3</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.hadoop</groupId><artifactId>hadoop-aws</artifactId><version>$hadoop_version</version></dependency>
  </dependencies>
</project>
END
  mvn --batch-mode --strict-checksums --file "$work/pom.xml" -Dmaven.repo.local="$work/repository" \
    dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$work/made"
}

case ${1:-} in
  server) made=$cache/s3s-fs-$server_version tool=cargo step=compile sums='' printed=$made/bin/s3s-fs ;;
  jars) made=$cache/s3-jars-$(sha256sum "$sums" | cut -c1-12) tool=mvn step=fetch printed=$made ;;
  *) topicdb_fail "s3.sh: expected server or jars, got ${1:-nothing}" ;;
esac
topicdb_once "s3-$1" "$made" "$tool" "$step" "${sums:+made}" "$sums"
echo "$printed"
