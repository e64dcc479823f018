#!/usr/bin/env bash
# Builds the wheel as a release has it, into dist/: sdist, the wheel from the sdist, repaired by
# auditwheel so that it brings its libraries along; then tests it in an environment of its own.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$topicdb_root"

work=build/release
stamp=$work/tested

build_sdist() {
  rm -rf "$work" dist
  mkdir -p "$work"
  .venv/bin/python -m build --sdist --outdir dist .
  tar -xmf dist/topicdb-*.tar.gz -C "$work" # -m: as new, so that a build tool sees a change
  mv "$work"/topicdb-*/ "$work/source"
}

build_wheel() {
  local -x CCACHE_BASEDIR=$PWD/$work/source # what was compiled for .venv is known here
  .venv/bin/python -m pip wheel --no-deps --wheel-dir "$work" "$work/source"
  PATH=$PWD/.venv/bin:$PATH auditwheel repair --wheel-dir dist "$work"/topicdb-*.whl
}

scripts/setup.sh wheel
sources=$(topicdb_hash CMakeLists.txt cmake cpp bindings python pyproject.toml README.md LICENSE licenses \
  scripts/wheel.sh tests/python/project/test_wheel.py)
if [ "$(cat "$stamp" 2>/dev/null)" != "$sources" ] || [ ! -e dist ]; then
  topicdb_build_environment
  topicdb_step "Release wheel: sdist" topicdb_logged build/logs/release.log build_sdist
  topicdb_step "Release wheel: built from the sdist and repaired" \
    topicdb_logged build/logs/release.log build_wheel
  TOPICDB_WHEEL=$(echo "$PWD"/dist/*.whl) topicdb_step "Release wheel: tests" scripts/pytest.sh -m wheel
  echo "$sources" >"$stamp"
fi
ls dist/* >&2
