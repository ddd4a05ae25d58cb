# shellcheck shell=bash
# For the scripts that make and try packages: they write to the same folders below
# build/ and dist/, so that two at once in one tree would ship each other's files.
# Sourced in the folder of the tree.

# alone ARGUMENT... runs the calling script, of scripts/, once more while it holds
# the tree's lock, and does not come back; within the lock it does nothing, so that
# these scripts can call each other. What a script starts does not hold the lock.
alone() {
    local name=${0##*/} status=0
    if [ -n "${NEURON_PACKAGES_LOCKED:-}" ]; then return 0; fi
    command -v flock >/dev/null || return 0 # on Macs; whoever packages there takes care
    mkdir -p build
    # shellcheck disable=SC2016 # for the inner shell
    NEURON_PACKAGES_LOCKED=1 flock --nonblock --close --conflict-exit-code 75 build/packages.lock \
        bash -c 'echo "$0, process $$" >build/packages.lock && exec "scripts/$0" "$@"' "$name" "$@" || status=$?
    if [ "$status" -eq 75 ]; then
        echo "${name%.sh}: another script works on this tree's packages ($(cat build/packages.lock)); wait for its end, or use another copy of the tree" >&2
    fi
    exit "$status"
}
