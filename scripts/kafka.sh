#!/usr/bin/env bash
# Fetches jars for the tests with Kafka, once per machine, and prints their folder: `kafka.sh` fetches
# those of a broker, `kafka.sh spark` those with which Spark reads from a broker.
#
# Maven gets the jars from where this machine gets its artifacts, and compares them with the checksums
# that it finds there. This script then compares them with kafka.sha256 or kafka_spark.sha256, which have
# the checksums of when the versions were chosen. Exits with 75 if there is no Maven, or Maven cannot get
# the jars.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

kafka_version=3.9.1
case ${1:-broker} in
  broker)
    name=kafka-$kafka_version
    sums=$topicdb_root/scripts/kafka.sha256
    artifacts=("org.apache.kafka kafka_2.13 $kafka_version")
    exclusion=
    ;;
  spark)
    # Maven gets each by name, without its dependencies: pyspark has the rest. Not every mirror has all
    # versions; these run with Spark 4.3.
    name=kafka-spark-4.2.0
    sums=$topicdb_root/scripts/kafka_spark.sha256
    artifacts=(
      "org.apache.spark spark-sql-kafka-0-10_2.13 4.2.0"
      "org.apache.spark spark-token-provider-kafka-0-10_2.13 4.0.0"
      "org.apache.kafka kafka-clients $kafka_version"
      "org.apache.commons commons-pool2 2.12.1"
    )
    exclusion="<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    ;;
  *) topicdb_fail "kafka.sh: expected nothing, broker or spark, got $1" ;;
esac

jars=$(topicdb_cache_dir)/$name-$(sha256sum "$sums" | cut -c1-12)

dependencies() {
  local group artifact version
  while read -r group artifact version; do
    echo "<dependency><groupId>$group</groupId><artifactId>$artifact</artifactId><version>$version</version>$exclusion</dependency>"
  done < <(printf '%s\n' "${artifacts[@]}")
}

fetch() {
  cat >"$work/pom.xml" <<END
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>topicdb</groupId><artifactId>kafka</artifactId><version>1</version>
  <dependencies>
    $(dependencies)
  </dependencies>
</project>
END
  mvn --batch-mode --strict-checksums --file "$work/pom.xml" -Dmaven.repo.local="$work/repository" \
    dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$work/made"
}

topicdb_once "$name" "$jars" mvn fetch made "$sums"
echo "$jars"
