#!/usr/bin/env bash
# Builds the RocksDB that TopicDB links, once per machine, and prints its prefix.
#
# It does not use Debian 12's own librocksdb (7.8.3): if a file is removed under a reader, its
# iterator ends early with status OK. This script takes Debian 13's source package of the same
# project, checks its SHA-256, builds the static library alone, and keeps it in the user's cache
# by version, flags and compiler, so that another clone finds it there.
# `rocksdb.sh --fetch-only DIR` fetches and unpacks the source, and builds nothing. `rocksdb.sh --aarch64`
# cross-compiles it for ARM, with the toolchain of cmake/aarch64-linux-gnu.cmake.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

version=9.10.0
package=rocksdb=$version-1
tarball=rocksdb_$version.orig.tar.gz
sha256=fdccab16133c9d927a183c2648bcea8d956fb41eb1df2aacaa73eb0b95e43724
# Without these flags CRC-32C in tables took a fifth of an append's time. Every x86-64 since 2011 has the
# instructions for it, and the bindings check that they are there. On other processors RocksDB looks for
# such instructions at run time.
cpu_flags=
compiler=c++ target=
if [ "${1:-}" = --aarch64 ]; then
  target=aarch64 compiler=aarch64-linux-gnu-g++
elif [ "$(uname -m)" = x86_64 ]; then
  cpu_flags=" -march=x86-64-v2 -mpclmul"
fi
flags=(
  -DCMAKE_BUILD_TYPE=Release -DCMAKE_POSITION_INDEPENDENT_CODE=ON
  "-DCMAKE_CXX_FLAGS=-fvisibility=hidden$cpu_flags" # no RocksDB symbol leaves our module
  -DROCKSDB_BUILD_SHARED=OFF -DPORTABLE=1 -DUSE_RTTI=1 -DFAIL_ON_WARNINGS=OFF
  -DWITH_ZSTD=ON -DWITH_LZ4=ON -DWITH_SNAPPY=OFF -DWITH_ZLIB=OFF -DWITH_BZ2=OFF
  -DWITH_GFLAGS=OFF -DWITH_LIBURING=OFF -DWITH_TESTS=OFF -DWITH_ALL_TESTS=OFF
  -DWITH_TOOLS=OFF -DWITH_CORE_TOOLS=OFF -DWITH_BENCHMARK_TOOLS=OFF -DWITH_TRACE_TOOLS=OFF
)
key=$(printf '%s\n' "$sha256" "${flags[@]}" "$("$compiler" -dumpfullversion)" | sha256sum | cut -c1-12)
prefix=$(topicdb_cache_dir)/rocksdb-$version-${target:+$target-}$key

fetch_source() {
  local dir=$1 mirror
  read -r mirror _ < <(topicdb_debian_mirror) || true
  [ -n "$mirror" ] || topicdb_fail "no Debian mirror in the apt sources of this machine"
  mkdir -p "$dir/apt/lists/partial" "$dir/apt/cache/archives/partial"
  echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main" \
    >"$dir/apt/sources.list"
  local apt=(apt-get -qq -o "Dir::Etc::SourceList=$dir/apt/sources.list" -o Dir::Etc::SourceParts=-
    -o "Dir::State::Lists=$dir/apt/lists" -o "Dir::Cache=$dir/apt/cache" -o "APT::Sandbox::User=$(id -un)")
  cd "$dir"
  "${apt[@]}" update
  "${apt[@]}" source --tar-only "$package"
  echo "$sha256  $tarball" | sha256sum --check --quiet ||
    topicdb_fail "$tarball does not have the expected SHA-256"
  mkdir src
  tar -xf "$tarball" -C src --strip-components=1
}

compile() {
  local dir=$1 toolchain=()
  if [ "$target" = aarch64 ]; then
    toolchain=(-DCMAKE_TOOLCHAIN_FILE="$topicdb_root/cmake/aarch64-linux-gnu.cmake")
    TOPICDB_AARCH64_ROOTS=$("$topicdb_root/scripts/aarch64_sysroot.sh")
    export TOPICDB_AARCH64_ROOTS
  fi
  cmake -S "$dir/src" -B "$dir/build" -GNinja "${flags[@]}" "${toolchain[@]}" \
    -DCMAKE_INSTALL_PREFIX="$dir/prefix" -DCMAKE_INSTALL_LIBDIR=lib
  cmake --build "$dir/build" --target install
}

build() {
  local work=$cache/rocksdb-build${target:+-$target} # nobody else uses it, because of the lock; a killed build may have left it
  local log=$cache/rocksdb${target:+-$target}
  rm -rf "$work"
  mkdir "$work"
  topicdb_say "RocksDB $version${target:+ for $target}: fetching the source, then compiling it, once per machine" \
    "(about 12 minutes on two cores; progress: tail -f $log-build.log)"
  topicdb_logged "$log-fetch.log" fetch_source "$work"
  topicdb_logged "$log-build.log" compile "$work"
  mv "$work/prefix" "$prefix" # a single rename, so that nobody ever sees half a prefix
  rm -rf "$work"
}

[ "${1:-}" != --fetch-only ] || { mkdir -p "$2" && fetch_source "$2" && exit; }
cache=$(topicdb_cache_dir)
mkdir -p "$cache"
exec 9>"$cache/rocksdb${target:+-$target}.lock"
flock 9
[ -e "$prefix/lib/librocksdb.a" ] || build
echo "$prefix"
