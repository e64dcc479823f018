#!/usr/bin/env bash
# `release.sh VERSION [--dry-run] [--ci-passed]`: makes a release of what is checked out. It checks the tree and
# CHANGELOG.md, writes the version and the date, runs .ci/run, builds sdist and wheel, commits and tags. It
# pushes nothing: docs/internals/releasing.md says what comes next. If a step fails, the tree is as it was.
#
# With --dry-run it only checks, and shows what it would change. With --ci-passed it does not run .ci/run: you say
# that it has passed for this commit. At a terminal it asks for that.
#
# `release.sh --version` prints the version of this tree, `release.sh --notes VERSION` its section of CHANGELOG.md.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$topicdb_root"

version_file=python/topicdb/__init__.py
changelog=CHANGELOG.md
form='^[0-9]+\.[0-9]+\.[0-9]+((a|b|rc)[0-9]+)?$'

current_version() { sed -n 's/^__version__ = "\(.*\)"$/\1/p' "$version_file"; }

# Prints what stands between the heading of a section and the next one, without blank lines at both ends.
section() {
  awk -v name="[$1]" '/^## / { inside = $2 == name; next } /^\[[^]]*\]: / { inside = 0 } inside' "$changelog" |
    sed -e '/./,$!d' | sed -e :a -e '/^\n*$/{$d;N;ba' -e '}'
}

# Says whether the first version is the later one, in the order of versions: 0.2.0rc1 comes before 0.2.0.
is_later() {
  [ "$1" != "$2" ] && [ "$(printf '%s\n' "$1" "$2" | sed -E 's/(a|b|rc)/~\1/' | sort -V | tail -n 1 | tr -d '~')" = "$1" ]
}

check() {
  local current
  current=$(current_version)
  [ -n "$current" ] || topicdb_fail "$version_file has no line '__version__ = \"...\"'"
  [[ $version =~ $form ]] || topicdb_fail "'$version' is no version: write it as 0.2.0, or 0.2.0rc1"
  [ -z "$(git status --porcelain)" ] ||
    topicdb_fail "the tree has changes that are not committed: commit them or put them away (git status)"
  ! git rev-parse -q --verify "refs/tags/v$version" >/dev/null ||
    topicdb_fail "the tag v$version exists already: choose a later version"
  [ "$version" = "$current" ] || is_later "$version" "$current" ||
    topicdb_fail "$version comes before $current, the version of this tree"
  [ -n "$(section Unreleased)" ] ||
    topicdb_fail "the section [Unreleased] of $changelog is empty: write what changes for users"
  [ -z "$(section "$version")" ] || topicdb_fail "$changelog has a section [$version] already"
}

# Writes the version, and gives the section [Unreleased] its number and date, below a new, empty one. A line that
# says which version it will be goes.
write_version() {
  sed -i "s/^__version__ = .*/__version__ = \"$version\"/" "$version_file"
  sed -i "s/^## \[Unreleased\].*/## [Unreleased]\n\n## [$version] - $(date -u +%F)/; /^This will be /,+1d" "$changelog"
}

restore() { git checkout --quiet -- "$version_file" "$changelog"; }

run_ci() {
  local answer=""
  if [ "$ci_passed" = 0 ] && [ -t 0 ]; then
    read -r -p "Has .ci/run passed for commit $(git rev-parse --short HEAD)? [y/N] " answer
    [ "$answer" != y ] || ci_passed=1
  fi
  if [ "$ci_passed" = 1 ]; then topicdb_say ".ci/run: passed, as you say"; return; fi
  topicdb_step ".ci/run" bash .ci/run
}

# Builds sdist and wheel in dist/, and checks that they have the version.
build() {
  make wheel
  local file
  for file in dist/topicdb-"$version".tar.gz dist/topicdb-"$version"-*.whl; do
    [ -e "$file" ] || topicdb_fail "make wheel made no $file"
  done
}

case "${1:-}" in
  --version) current_version; exit ;;
  --notes)
    [ $# = 2 ] || topicdb_fail "name the version: scripts/release.sh --notes 0.2.0"
    [ -n "$(section "$2")" ] || topicdb_fail "$changelog has no section [$2]"
    section "$2"
    exit ;;
esac

version="" dry_run=0 ci_passed=0
for argument in "$@"; do
  case "$argument" in
    --dry-run) dry_run=1 ;;
    --ci-passed) ci_passed=1 ;;
    -*) topicdb_fail "unknown option $argument: there are --dry-run and --ci-passed" ;;
    *) version=$argument ;;
  esac
done
[ -n "$version" ] || topicdb_fail "name the version: make release VERSION=0.2.0"

check
trap restore EXIT
write_version
if [ "$dry_run" = 1 ]; then
  git --no-pager diff --no-color -- "$version_file" "$changelog"
  topicdb_say "dry run: would then run .ci/run, build dist/topicdb-$version*, commit this and tag it v$version"
  exit
fi
run_ci
build
git commit --quiet -m "Version $version" -- "$version_file" "$changelog"
trap - EXIT
git tag -a "v$version" -m "TopicDB $version"
topicdb_say "Tagged v$version. To publish it: git push origin HEAD v$version (docs/internals/releasing.md)"
