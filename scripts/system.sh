#!/usr/bin/env bash
# Installs the missing ones of the system packages that the build, the tests and Spark need. Where there is
# no apt-get it only checks for some tools, and names what to install. `system.sh PACKAGE...` also installs
# the packages that it names.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

packages=(
  build-essential cmake ninja-build ccache
  libzstd-dev liblz4-dev libdeflate-dev libxxhash-dev libgtest-dev libbenchmark-dev libsqlite3-dev
  dpkg-dev ca-certificates debian-archive-keyring # RocksDB's source package
  mosquitto mosquitto-clients                     # tests start their own broker, and compare with its clients
  "$@"
)

# Prints the packages without which the Python to build with cannot make virtual environments and extensions.
python_packages() {
  local python version
  python=$("$topicdb_root/scripts/python.sh" 2>/dev/null) ||
    { printf '%s\n' python3 python3-venv python3-dev; return; }
  "$python" -c 'import ensurepip, os, sysconfig
header = os.path.join(sysconfig.get_path("include"), "Python.h")
raise SystemExit(not os.path.exists(header))' 2>/dev/null && return
  version=$("$python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
  printf '%s\n' "$version-venv" "$version-dev"
}

# A JDK and Maven: Spark needs a JVM, and the Spark connector the compiler and JARs of gRPC.
java_packages() {
  command -v mvn >/dev/null || echo maven
  command -v javac >/dev/null || [ -x "${JAVA_HOME:-/nonexistent}/bin/javac" ] || echo default-jdk-headless
}

# Prints the packages of Rust, which compiles and lints raft/, if they are new enough. Debian has newer versions
# for building browsers, with "web" in their names. A Cargo or Rust that is there stays: these would replace it.
rust_packages() {
  ! command -v cargo >/dev/null && ! command -v rustc >/dev/null || return 0
  if topicdb_rust_suffices "$(candidate rustc)"; then
    printf '%s\n' cargo rustc rustfmt rust-clippy
  elif topicdb_rust_suffices "$(candidate rustc-web)"; then
    printf '%s\n' cargo-web rustc-web rustfmt-web rust-web-clippy
  fi
}

# Prints the version of a package that apt-get would install, or nothing.
candidate() { apt-cache policy "$1" | sed -n 's/^ *Candidate: \([0-9.]*\).*/\1/p'; }

missing() {
  local package
  for package in "$@"; do
    dpkg-query --show --showformat '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed ||
      echo "$package"
  done
}

stop_service() {
  [ ! -d /run/systemd/system ] || topicdb_as_root systemctl disable --now "$1"
}

install_packages() {
  local -x DEBIAN_FRONTEND=noninteractive
  local rust
  topicdb_as_root apt-get -q update
  mapfile -t rust < <(rust_packages) # again: before the update apt may have known none, or old ones
  topicdb_as_root apt-get -q -y --no-install-recommends install "$@" "${rust[@]}"
  # Where there is systemd, Debian's package starts a broker for the whole machine, which nobody asked for.
  case " $* " in *" mosquitto "*) stop_service mosquitto ;; esac
}

if ! command -v apt-get >/dev/null; then
  for tool in c++ cmake ninja java; do
    command -v "$tool" >/dev/null || topicdb_fail "no $tool and no apt-get: install what ${packages[*]} are here"
  done
  exit
fi
mapfile -t -O "${#packages[@]}" packages < <(python_packages; java_packages; rust_packages)
mapfile -t absent < <(missing "${packages[@]}")
[ "${#absent[@]}" != 0 ] || exit 0
topicdb_step "System packages: ${absent[*]}" \
  topicdb_logged "$(topicdb_cache_dir)/system.log" install_packages "${absent[@]}"
topicdb_has_rust ||
  topicdb_say "Replication is not built: it needs Cargo and Rust $(topicdb_rust_needed), which no package here has"
