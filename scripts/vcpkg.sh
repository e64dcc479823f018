#!/usr/bin/env bash
# `vcpkg.sh FOLDER`: puts vcpkg into FOLDER, at the commit that vcpkg.json names as its baseline, together with the
# tools that it needs. cibuildwheel runs it before it builds wheels: in an image of manylinux or musllinux, or on
# a Mac. The build of the wheel then makes RocksDB and the other libraries with it.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

folder=$1
commit=$(sed -n 's/.*"builtin-baseline": "\([0-9a-f]*\)".*/\1/p' "$topicdb_root/vcpkg.json")
[ -n "$commit" ] || topicdb_fail "no builtin-baseline in $topicdb_root/vcpkg.json"

if command -v apk >/dev/null; then
  apk add --no-cache curl git linux-headers perl pkgconf tar unzip zip
elif command -v dnf >/dev/null; then
  dnf -y -q install curl git perl tar unzip zip
elif command -v brew >/dev/null; then
  brew install --quiet cmake ninja pkgconf
fi
for tool in cmake ninja; do # the images have pipx, and PyPI has both programs for glibc and for musl
  command -v "$tool" >/dev/null || pipx install "$tool"
done
for tool in curl git tar unzip zip; do
  command -v "$tool" >/dev/null || topicdb_fail "vcpkg needs $tool: install it, and call scripts/vcpkg.sh again"
done

[ -e "$folder/.git" ] || git clone --quiet https://github.com/microsoft/vcpkg "$folder"
git -C "$folder" checkout --quiet "$commit"
"$folder/bootstrap-vcpkg.sh" -disableMetrics
