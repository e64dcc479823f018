#!/usr/bin/env bash
# Makes the JAR of gRPC for the Spark connector, once per machine, and prints its path. Maven fetches the JARs
# that spark/grpc/pom.xml names, and puts them under other names into one. This script compares what came with
# grpc_java.sha256. It exits with 75 if they cannot be had here: there is no mvn, or no way to Maven Central.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

unavailable=75
pom=$topicdb_root/spark/grpc/pom.xml
sums=$topicdb_root/scripts/grpc_java.sha256
cache=$(topicdb_cache_dir)
jar=$cache/grpc-java-$(cat "$pom" "$sums" | sha256sum | cut -c1-12).jar
work=$cache/grpc-java

make_jar() {
  mvn --batch-mode --strict-checksums --file "$pom" -Dmaven.repo.local="$work/repository" -Dwork="$work" package
}

[ ! -e "$jar" ] || { echo "$jar"; exit; }
command -v mvn >/dev/null || { echo "no mvn" >&2; exit "$unavailable"; }
mkdir -p "$cache"
exec 9>"$cache/grpc-java.lock"
flock 9
if [ ! -e "$jar" ]; then
  rm -rf "$work" # nobody else uses it, because of the lock; a killed run may have left it
  mkdir "$work"
  (topicdb_logged "$cache/grpc-java.log" make_jar) || exit "$unavailable"
  (cd "$work/jars" && sha256sum --check --quiet --strict "$sums" >&2) ||
    topicdb_fail "the jars of gRPC are not those of $sums"
  mv "$work/topicdb-grpc.jar" "$jar" # a single rename, so that nobody ever sees half a file
  rm -rf "$work"
fi
echo "$jar"
