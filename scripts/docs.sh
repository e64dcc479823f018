#!/usr/bin/env bash
# Builds the site of the documentation into build/site, with the MkDocs in .venv. A warning is an error: a
# link or an anchor that leads nowhere, a page that is not in the nav, a docstring that does not fit its
# function. Arguments go to `mkdocs build`.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$topicdb_root"

export NO_MKDOCS_2_WARNING=1 # pyproject.toml asks for MkDocs 1
topicdb_step "Documentation" .venv/bin/python -m mkdocs build --quiet --strict "$@"
topicdb_say "Open build/site/index.html. To search, serve it: python3 -m http.server -d build/site"
