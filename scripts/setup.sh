#!/usr/bin/env bash
# Makes .venv ready for one purpose: `setup.sh GROUP [EXTRA,...]` installs what is missing of the
# system packages, RocksDB, .venv, TopicDB's own wheel with the extras, and the dependency group
# of pyproject.toml. Quick when nothing changed.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$topicdb_root"

group=$1 extras=${2:-}
venv=.venv
inputs=(CMakeLists.txt cmake cpp/CMakeLists.txt cpp/include cpp/src bindings python pyproject.toml README.md LICENSE licenses)

make_venv() {
  "$venv/bin/python" -c 'import pip' 2>/dev/null && return
  local python
  python=$(scripts/python.sh)
  topicdb_say "Virtual environment: $venv ($("$python" --version))"
  "$python" -m venv --clear "$venv"
  pip install 'pip>=25.1' # knows dependency groups
}

pip() { topicdb_logged build/logs/pip.log "$venv/bin/python" -m pip "$@"; }

# What identifies the installed package: its RECORD holds a hash of each file.
installed() { cat "$venv"/lib/python3*/site-packages/topicdb-*.dist-info/RECORD 2>/dev/null | sha256sum; }

build_wheel() {
  pip install --group build
  topicdb_build_environment
  rm -rf build/wheel
  topicdb_logged build/logs/wheel.log "$venv/bin/python" -m pip wheel --no-deps --no-build-isolation \
    --wheel-dir build/wheel .
}

install_wheel() {
  build_wheel
  pip install --no-deps --force-reinstall build/wheel/topicdb-*.whl
  echo "$sources $(installed)" >"$venv/topicdb-installed"
}

install_group() {
  [ -e build/wheel ] || install_wheel # after `make clean`
  pip install --group "$group" "$(echo build/wheel/topicdb-*.whl)${extras:+[$extras]}"
  echo "$wanted" >"$stamp"
}

scripts/system.sh
scripts/rocksdb.sh >/dev/null
make_venv
sources=$(topicdb_hash "${inputs[@]}")
[ "$(cat "$venv/topicdb-installed" 2>/dev/null)" = "$sources $(installed)" ] ||
  topicdb_step "TopicDB: building the wheel and installing it" install_wheel
stamp=$venv/topicdb-group-$group
wanted="$(topicdb_hash pyproject.toml) $extras"
[ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ] ||
  topicdb_step "Python packages for '$group' (a few minutes the first time)" install_group
