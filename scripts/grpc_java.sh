#!/usr/bin/env bash
# Makes the JAR of gRPC for the Spark connector, once per machine, and prints its path. Maven fetches the JARs
# that spark/grpc/pom.xml names, and puts them under other names into one. This script compares what came with
# grpc_java.sha256. It exits with 75 if they cannot be had here: there is no mvn, or no way to Maven Central.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

pom=$topicdb_root/spark/grpc/pom.xml
sums=$topicdb_root/scripts/grpc_java.sha256
jar=$(topicdb_cache_dir)/grpc-java-$(cat "$pom" "$sums" | sha256sum | cut -c1-12).jar

make_jar() {
  mvn --batch-mode --strict-checksums --file "$pom" -Dmaven.repo.local="$work/repository" -Dwork="$work" package
  mv "$work/topicdb-grpc.jar" "$work/made"
}

topicdb_once grpc-java "$jar" mvn make_jar jars "$sums"
echo "$jar"
