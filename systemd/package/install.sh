#!/bin/sh
# install.sh [--uninstall]: installs the files of this directory, or removes them. Needs root.
#
# PREFIX=DIR installs below DIR, for images. Existing configuration files are kept; new ones are written next to them with the suffix .new.
set -eu
# Every user may run the programs, whatever the umask of root.
umask 022
cd "$(dirname "$0")"
root=${PREFIX:-}
units="flowcoord.service flowcoord-agent.service flowcon-exporter.service flowcon-notify.service flowcond.service"

[ -n "$root" ] || [ "$(id -u)" = 0 ] || { echo "install.sh: root is required; next: run it as root, or set PREFIX to another root directory" >&2; exit 1; }
live() { [ -z "$root" ] && [ -d /run/systemd/system ]; }

# Restores all original limits, also those that on-exit = "keep" did not: it is not possible once the programs are removed.
restore() {
    flowcond=$root/usr/bin/flowcond
    [ -x "$flowcond" ] || return 0
    # Without a journal, flowcond has never run, and there is nothing to restore.
    if [ -n "$root" ]; then set -- --state-dir "$root/var/lib/flowcon"; fi
    "$flowcond" restore --if-governed "$@"
}

uninstall() {
    if live; then systemctl disable --now $units 2>/dev/null || true; fi
    if ! restore; then
        echo "nothing is removed because original limits could not be restored; next: start the container engine, run flowcond restore (with --forget-missing if that engine no longer exists), and uninstall again" >&2
        exit 1
    fi
    find usr -type f | while read -r file; do rm -f "$root/$file"; done
    # Directories of flowcon; those with other files in them stay.
    find usr -depth -type d -path '*flowcon*' | while read -r folder; do rmdir "$root/$folder" 2>/dev/null || true; done
    if live; then systemctl daemon-reload; fi
    rm -rf "$root/run/flowcon"
    echo "removed; next: delete $root/etc/flowcon, $root/var/lib/flowcon and $root/var/lib/flowcon-notify if you do not need them"
}

# put FILE DESTINATION: copies and renames a file, because the file of a running program cannot be written.
put() {
    mkdir -p "$(dirname "$2")" && cp "$1" "$2.part" && chmod a+rX,u+w "$2.part" && mv -f "$2.part" "$2" && return
    rm -f "$2.part" || true
    echo "install.sh: $2 could not be installed; it and the files after it are unchanged; next: correct the error above and run install.sh again" >&2
    exit 1
}

add_group() {
    if command -v systemd-sysusers >/dev/null; then
        systemd-sysusers flowcon.conf
    elif ! grep -q '^flowcon:' /etc/group; then
        # Alpine has no groupadd.
        if command -v groupadd >/dev/null; then groupadd --system flowcon; else addgroup -S flowcon; fi
    fi
}

install_all() {
    # The loop runs in a subshell, which `exit` leaves.
    find usr -type f | while read -r file; do put "$file" "$root/$file"; done || exit 1
    mkdir -p "$root/etc/flowcon/flowcond.d"
    for config in etc/flowcon/*.toml; do
        if [ ! -e "$root/$config" ]; then
            put "$config" "$root/$config"
        elif ! cmp -s "$config" "$root/$config"; then
            put "$config" "$root/$config.new"
        fi
    done
    if [ -z "$root" ] && ! add_group; then
        echo "install.sh: the group flowcon could not be created, so only root has access; next: create it, and restart flowcond" >&2
    fi
    if live; then
        systemctl daemon-reload
        systemctl try-restart $units
        echo "installed; next: systemctl enable --now flowcond && flowctl doctor"
    else
        echo "installed; next: flowcond"
    fi
}

case "${1:-}" in
    "") install_all ;;
    --uninstall) uninstall ;;
    *) echo "usage: install.sh [--uninstall]" >&2; exit 2 ;;
esac
