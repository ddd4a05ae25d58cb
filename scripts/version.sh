#!/usr/bin/env bash
# Prints the version of this tree: a tag's name, or "NEXT-dev.N+gCOMMIT" behind
# it, where NEXT is the version in FyneApp.toml. Without git: "NEXT-dev".
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

next=$(sed -n 's/^Version = "\(.*\)"$/\1/p' FyneApp.toml)
if ! commit=$(git rev-parse --short=9 HEAD 2>/dev/null); then
    echo "$next-dev"
    exit 0
fi
dirty=""
[ -z "$(git status --porcelain --untracked-files=no 2>/dev/null)" ] || dirty=.dirty
if tag=$(git describe --tags --exact-match --match 'v[0-9]*' 2>/dev/null) && [ -z "$dirty" ]; then
    echo "${tag#v}"
else
    echo "$next-dev+g$commit$dirty"
fi
