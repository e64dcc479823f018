#!/usr/bin/env bash
# Makes a folder with the static aarch64 libraries that the C++ core and its tests link, once per machine, and
# prints its path. The libraries are Debian's own packages of this machine's release. They are unpacked into the
# user's cache, so the system does not become one of two architectures. The C and C++ libraries come with the
# cross compiler.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

packages=(libzstd-dev liblz4-dev libdeflate-dev libxxhash-dev libgtest-dev)

# Fetches the packages with an apt that knows no other architecture, and installs nothing.
fetch_packages() {
  local dir=$1 mirror release
  read -r mirror release < <(topicdb_debian_mirror) || true
  [ -n "${release:-}" ] || topicdb_fail "no Debian mirror in the apt sources of this machine"
  mkdir -p "$dir/apt/lists/partial" "$dir/apt/cache/archives/partial"
  : >"$dir/apt/status"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $release main" \
    >"$dir/apt/sources.list"
  local apt=(apt-get -qq -o "Dir::Etc::SourceList=$dir/apt/sources.list" -o Dir::Etc::SourceParts=-
    -o "Dir::State::Lists=$dir/apt/lists" -o "Dir::State::status=$dir/apt/status"
    -o "Dir::Cache=$dir/apt/cache" -o "APT::Sandbox::User=$(id -un)"
    -o APT::Architecture=arm64 -o APT::Architectures::=arm64)
  cd "$dir"
  "${apt[@]}" update
  "${apt[@]}" download "${packages[@]}"
}

# Unpacks the packages, without links to shared libraries: what links statically runs anywhere.
unpack() {
  local dir=$1 package
  mkdir "$dir/root"
  for package in "$dir"/*.deb; do dpkg-deb --extract "$package" "$dir/root"; done
  find "$dir/root" -name '*.so*' -delete
}

make_root() {
  local work=$cache/aarch64-build # nobody else uses it, because of the lock
  rm -rf "$work"
  mkdir "$work"
  topicdb_say "Libraries for aarch64: fetching ${packages[*]}, once per machine"
  topicdb_logged "$cache/aarch64.log" fetch_packages "$work"
  topicdb_logged "$cache/aarch64.log" unpack "$work"
  mv "$work/root" "$root" # a single rename, so that nobody ever sees half a folder
  rm -rf "$work"
}

cache=$(topicdb_cache_dir)
read -r _ release < <(topicdb_debian_mirror) || true
root=$cache/aarch64-${release:-unknown}-$(printf '%s\n' "${packages[@]}" | sha256sum | cut -c1-12)
mkdir -p "$cache"
exec 9>"$cache/aarch64.lock"
flock 9
[ -d "$root" ] || make_root
echo "$root"
