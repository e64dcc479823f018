# shellcheck shell=bash
# Shell helpers that the scripts share. A script in this folder sources it; by itself it runs nothing.

topicdb_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# Values for pytest's -m: the Python tests of `make test`; those of them that need neither a JVM nor a
# Kafka broker nor the installed wheel, without benchmarks and crash tests; and of these the quick ones.
# shellcheck disable=SC2034  # scripts that source this use it
topicdb_usual_tests="not long and not slow and not wheel"
# shellcheck disable=SC2034  # scripts that source this use it
topicdb_plain_tests="$topicdb_usual_tests and not spark and not kafka and not bench and not crash and not installed"
# shellcheck disable=SC2034  # scripts that source this use it
topicdb_fast_tests="$topicdb_plain_tests and not lengthy"

topicdb_say() { printf '==> %s\n' "$*" >&2; }
topicdb_fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

# Runs a command as root: directly if the user is root, otherwise through sudo.
topicdb_as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; return; fi
  command -v sudo >/dev/null || topicdb_fail "not root and no sudo: run as root: $*"
  sudo "$@"
}

# Prints the folder for things that all clones may share, such as RocksDB.
topicdb_cache_dir() { printf '%s/topicdb' "${XDG_CACHE_HOME:-$HOME/.cache}"; }

# Sets the environment with which Cargo keeps what it compiles in the cache, for all clones.
topicdb_cargo_environment() {
  export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$(topicdb_cache_dir)/raft-target}
}

# Prints the oldest version of Rust that compiles raft/.
topicdb_rust_needed() { sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$topicdb_root/raft/Cargo.toml"; }

# topicdb_rust_suffices VERSION: whether a version of Rust compiles raft/.
topicdb_rust_suffices() {
  printf '%s\n' "$(topicdb_rust_needed)" "$1" | sort --version-sort --check=quiet
}

# Says whether there is a Cargo in the path, and a Rust that compiles raft/.
topicdb_has_rust() {
  local version
  command -v cargo >/dev/null && version=$(rustc --version 2>/dev/null) || return
  version=${version#rustc }
  topicdb_rust_suffices "${version%%[ -]*}"
}

# topicdb_logged LOG COMMAND...: runs the command with its output in LOG. If the command fails, it shows the
# end of LOG and exits. A command that is a function stops at its first failing command.
topicdb_logged() {
  local log=$1 status=0; shift
  mkdir -p "$(dirname "$log")"
  set +e
  (set -e; "$@") >"$log" 2>&1 </dev/null
  status=$?
  set -e
  [ "$status" = 0 ] && return
  tail -n 40 "$log" >&2
  topicdb_fail "failed: $* (whole log: $log)"
}

# Prints the mirror from which this machine gets its Debian packages, and the release that it has. No mirror is
# written down in this repository.
topicdb_debian_mirror() {
  # shellcheck disable=SC2016 # apt expands them
  apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' |
    awk '$2 ~ /^(bookworm|trixie|stable|oldstable)$/ {print; exit}'
}

# topicdb_once NAME MADE TOOL STEP [FOLDER SUMS]: makes what all clones on this machine share, unless it is
# there already: a file or folder MADE of topicdb_cache_dir. STEP is a function that puts it at $work/made, in an
# empty folder $work of its own. Ends the script with 75 if there is no TOOL, or STEP fails: it cannot be had
# here. The output of STEP is in NAME.log. What is in FOLDER then must have the checksums of the file SUMS.
topicdb_once() {
  local name=$1 made=$2 tool=$3 step=$4 folder=${5:-} sums=${6:-} cache unavailable=75
  [ ! -e "$made" ] || return 0
  command -v "$tool" >/dev/null || { echo "no $tool" >&2; exit "$unavailable"; }
  cache=$(topicdb_cache_dir)
  mkdir -p "$cache"
  exec 9>"$cache/$name.lock"
  flock 9
  if [ ! -e "$made" ]; then
    work=$cache/work-$name
    rm -rf "$work" # nobody else uses it, because of the lock; a killed run may have left it
    mkdir "$work"
    (topicdb_logged "$cache/$name.log" "$step") || exit "$unavailable"
    [ -z "$folder" ] || (cd "$work/$folder" && sha256sum --check --quiet --strict "$sums" >&2) ||
      topicdb_fail "what came for $name is not that of $sums"
    mv "$work/made" "$made" # a single rename, so that nobody ever sees half of it
    rm -rf "$work"
  fi
  exec 9>&-
}

# Prints one hash over the names and contents of files and folders.
topicdb_hash() {
  (cd "$topicdb_root" &&
    find "$@" -type f -not -path '*/__pycache__/*' -print0 | sort -z | xargs -0 sha256sum) |
    sha256sum | cut -c1-16
}

# Prints seconds in a form such as "1 min 5 s".
topicdb_minutes() {
  if [ "$1" -lt 60 ]; then printf '%d s' "$1"; else printf '%d min %d s' $(($1 / 60)) $(($1 % 60)); fi
}

# topicdb_step TITLE COMMAND...: runs the command, and says when it begins and how long it took.
topicdb_step() {
  local title=$1 began=$SECONDS; shift
  topicdb_say "$title"
  "$@"
  topicdb_say "$title: $(topicdb_minutes $((SECONDS - began)))"
}

# Sets the environment with which CMake finds RocksDB, and ccache and Cargo have what another clone compiled.
topicdb_build_environment() {
  local prefix
  topicdb_cargo_environment
  prefix=$("$topicdb_root/scripts/rocksdb.sh")
  export CMAKE_PREFIX_PATH=$prefix${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}
  export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$topicdb_root}
}

# Sets the environment with which a package is built, by pip: the above, and where gRPC for the Spark connector
# is. Where that cannot be had, the connector has no option `remote`.
topicdb_package_environment() {
  topicdb_build_environment
  local jar
  if jar=$("$topicdb_root/scripts/grpc_java.sh"); then
    export SKBUILD_CMAKE_DEFINE="TOPICDB_GRPC_JAR=$jar"
  else
    topicdb_say "The Spark connector is built without the option remote"
  fi
}

# Sets the environment of the preset aarch64: where its toolchain finds the libraries.
topicdb_aarch64_environment() {
  local libraries rocksdb
  libraries=$("$topicdb_root/scripts/aarch64_sysroot.sh")
  rocksdb=$("$topicdb_root/scripts/rocksdb.sh" --aarch64)
  export TOPICDB_AARCH64_ROOTS=$libraries:$rocksdb
  export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$topicdb_root}
}

# topicdb_run_cpp_bench TARGET [ARGUMENT...]: compiles a C++ benchmark and runs it.
topicdb_run_cpp_bench() {
  local target=$1 directory
  shift
  cd "$topicdb_root"
  scripts/system.sh
  topicdb_build_environment
  topicdb_step "Benchmark: compiling (some minutes the first time)" \
    topicdb_logged build/logs/bench.log topicdb_compile_bench "$target"
  # It measures inside the clone, which is on a disk: /tmp may be in memory, where an fsync does nothing.
  directory=$(mktemp -d build/bench-XXXXXX)
  # shellcheck disable=SC2064  # the directory as it is now
  trap "rm -rf '$directory'" EXIT
  build/bench/bench/cpp/"$target" --directory "$directory" "$@"
}

topicdb_compile_bench() {
  cmake -S . -B build/bench -GNinja -DTOPICDB_BUILD_PYTHON=OFF -DTOPICDB_BUILD_BENCH=ON \
    -DCMAKE_BUILD_TYPE=Release
  cmake --build build/bench --target "$1"
}
