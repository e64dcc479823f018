#!/usr/bin/env bash
# Builds a release in dist/: the sdist, and from it the wheel, which auditwheel repairs so that it brings its
# libraries along. Then it tests the wheel in an environment of its own.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$topicdb_root"

work=build/release
stamp=$work/tested

build_sdist() {
  rm -rf "$work" dist
  mkdir -p "$work"
  .venv/bin/python -m build --sdist --outdir dist .
  tar -xmf dist/topicdb-*.tar.gz -C "$work" # -m sets the time of now, so that a build tool sees a change
  mv "$work"/topicdb-*/ "$work/source"
}

build_wheel() {
  local jars
  jars=$(.venv/bin/python -c 'import os, pyspark; print(os.path.dirname(pyspark.__file__) + "/jars")')
  local -x CCACHE_BASEDIR=$PWD/$work/source # ccache recognises files that were compiled for .venv
  .venv/bin/python -m pip wheel --no-deps --wheel-dir "$work" "$work/source" \
    -Ccmake.define.TOPICDB_SPARK_JARS="$jars" # its environment has no PySpark
  PATH=$PWD/.venv/bin:$PATH auditwheel repair --wheel-dir dist "$work"/topicdb-*.whl
}

scripts/setup.sh wheel
sources=$(topicdb_hash CMakeLists.txt cmake cpp bindings bindings_java spark python pyproject.toml README.md LICENSE licenses \
  scripts/wheel.sh tests/python/project/test_wheel.py)
if [ "$(cat "$stamp" 2>/dev/null)" != "$sources" ] || [ ! -e dist ]; then
  topicdb_package_environment
  topicdb_step "Release wheel: sdist" topicdb_logged build/logs/release.log build_sdist
  topicdb_step "Release wheel: built from the sdist and repaired" \
    topicdb_logged build/logs/release.log build_wheel
  TOPICDB_WHEEL=$(echo "$PWD"/dist/*.whl) topicdb_step "Release wheel: tests" scripts/pytest.sh -m wheel
  echo "$sources" >"$stamp"
fi
ls dist/* >&2
