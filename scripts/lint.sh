#!/usr/bin/env bash
# All static checks. Runs every one of them, then says which failed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
go=${GO:-go}
tools=build/tools
failed=()

step() {
    local name=$1
    shift
    echo "== $name"
    "$@" || failed+=("$name")
}

# ours lists our own files of a name pattern, NUL-separated.
ours() { find . \( -name .git -o -name build -o -name bin -o -name dist -o -name node_modules \) -prune -o -type f "$@" -print0; }

check_format() {
    local bad
    # The gofmt of the toolchain that builds.
    bad=$(ours -name '*.go' | xargs -0 -r "$("$go" env GOROOT)/bin/gofmt" -l 2>&1) || true
    [ -z "$bad" ] || {
        echo "not formatted (make fmt):"
        echo "$bad"
        return 1
    }
}

# govulncheck needs its database. A machine that cannot reach it must not fail
# for that, and must not look as if it had checked.
check_vulnerabilities() {
    local out status=0
    out=$("$tools/govulncheck" ./... 2>&1) || status=$?
    echo "$out"
    case $status in
    0) return 0 ;;
    3) return 1 ;; # vulnerabilities that our code reaches
    esac
    if grep -qiE 'vuln\.go\.dev|dial tcp|no such host|connection (refused|reset)|i/o timeout|proxyconnect|unexpected status code' <<<"$out"; then
        echo "************************************************************"
        echo "*  NOT CHECKED for known vulnerabilities: the database at  *"
        echo "*  vuln.go.dev cannot be reached from this machine.        *"
        echo "************************************************************"
        return 0
    fi
    return 1
}

check_shell() {
    if command -v shellcheck >/dev/null; then
        ours \( -name '*.sh' -o -path ./.ci/run \) | xargs -0 -r shellcheck -a -x -S warning
    else
        echo "NOT CHECKED: shellcheck is not installed"
    fi
}

step "format" check_format
step "golangci-lint" "$tools/golangci-lint" run ./...
step "govulncheck" check_vulnerabilities
step "go mod verify" "$go" mod verify
step "go mod tidy" "$go" mod tidy -diff
step "shellcheck" check_shell

if [ ${#failed[@]} -gt 0 ]; then
    echo "lint: failed: ${failed[*]}"
    exit 1
fi
echo "lint: ok"
