#!/usr/bin/env bash
# Fetches the jars of a Kafka broker for its tests, once per machine, and prints their folder.
#
# Maven gets them from where this machine gets its artifacts, and compares them with the checksums
# it finds there; kafka.sha256 has what they were when the version was chosen. Exits with 75 where
# they cannot be had: no Maven, or it gets nothing.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

version=3.9.1
sums=$topicdb_root/scripts/kafka.sha256
unavailable=75
cache=$(topicdb_cache_dir)
jars=$cache/kafka-$version-$(sha256sum "$sums" | cut -c1-12)
work=$cache/kafka-fetch

fetch() {
  cat >"$work/pom.xml" <<END
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>topicdb</groupId><artifactId>kafka</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>$version</version></dependency>
  </dependencies>
</project>
END
  mvn --batch-mode --strict-checksums --file "$work/pom.xml" -Dmaven.repo.local="$work/repository" \
    dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$work/jars"
}

[ ! -e "$jars" ] || { echo "$jars"; exit; }
command -v mvn >/dev/null || { echo "no mvn" >&2; exit "$unavailable"; }
mkdir -p "$cache"
exec 9>"$cache/kafka.lock"
flock 9
if [ ! -e "$jars" ]; then
  rm -rf "$work" # the lock makes it ours; what a killed fetch left is in the way
  mkdir "$work"
  (topicdb_logged "$cache/kafka-fetch.log" fetch) || exit "$unavailable"
  (cd "$work/jars" && sha256sum --check --quiet --strict "$sums" >&2) ||
    topicdb_fail "the jars of Kafka $version are not those of $sums"
  mv "$work/jars" "$jars" # one rename: nobody ever sees half a folder
  rm -rf "$work"
fi
echo "$jars"
