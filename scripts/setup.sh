#!/usr/bin/env bash
# Makes .venv ready for one purpose: `setup.sh [--editable] GROUP [EXTRA,...]` installs whatever is missing
# of the system packages, RocksDB, .venv, TopicDB's own wheel with the extras, and the dependency group
# of pyproject.toml. It is quick if nothing has changed.
#
# With --editable it installs this folder instead of the wheel. A changed .py is live at once, and importing
# the package compiles changed C++.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$topicdb_root"

kind=wheel
if [ "$1" = --editable ]; then kind=editable; shift; fi
group=$1 extras=${2:-}
venv=.venv
inputs=(CMakeLists.txt cmake cpp/CMakeLists.txt cpp/include cpp/src bindings bindings_java raft spark python pyproject.toml README.md LICENSE licenses)
[ "$kind" = wheel ] || inputs=(pyproject.toml) # an editable package builds the rest on import
editable=(-Cbuild-dir=build/editable -Ceditable.rebuild=true -Ceditable.verbose=false)

make_venv() {
  "$venv/bin/python" -c 'import pip' 2>/dev/null && return
  local python
  python=$(scripts/python.sh)
  topicdb_say "Virtual environment: $venv ($("$python" --version))"
  "$python" -m venv --clear "$venv"
  pip install 'pip>=25.1' # the first that knows dependency groups
}

pip() { topicdb_logged build/logs/pip.log "$venv/bin/python" -m pip "$@"; }

# Prints a hash that identifies the installed package: its RECORD has a hash of each file.
installed() { cat "$venv"/lib/python3*/site-packages/topicdb-*.dist-info/RECORD 2>/dev/null | sha256sum; }

# The wheel has the Spark connector if the Python that builds it has PySpark, with Spark's JARs.
build_wheel() {
  pip install --group build --group connector
  topicdb_package_environment
  rm -rf build/wheel
  topicdb_logged build/logs/wheel.log "$venv/bin/python" -m pip wheel --no-deps --no-build-isolation \
    --wheel-dir build/wheel .
}

install_wheel() {
  build_wheel
  pip install --no-deps --force-reinstall build/wheel/topicdb-*.whl
}

install_editable() {
  pip install --group build --group connector
  topicdb_package_environment
  pip install --no-deps --no-build-isolation "${editable[@]}" --editable .
}

install_topicdb() {
  "install_$kind"
  echo "$kind $sources $(installed)" >"$venv/topicdb-installed"
}

install_group() {
  local with=${extras:+[$extras]}
  if [ "$kind" = editable ]; then
    topicdb_package_environment
    pip install --group "$group" --no-build-isolation "${editable[@]}" --editable ".$with"
  else
    [ -e build/wheel ] || install_topicdb # after `make clean`
    pip install --group "$group" "$(echo build/wheel/topicdb-*.whl)$with"
  fi
  echo "$wanted" >"$stamp"
}

scripts/system.sh
scripts/rocksdb.sh >/dev/null
make_venv
sources=$(topicdb_hash "${inputs[@]}")
[ "$(cat "$venv/topicdb-installed" 2>/dev/null)" = "$kind $sources $(installed)" ] ||
  topicdb_step "TopicDB: building it and installing it ($kind)" install_topicdb
stamp=$venv/topicdb-group-$group
wanted="$(topicdb_hash pyproject.toml) $extras"
[ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ] ||
  topicdb_step "Python packages for '$group' (a few minutes the first time)" install_group
