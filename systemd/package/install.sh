#!/bin/sh
# install.sh [--uninstall]: puts the files beside it where they belong, or takes them away again. Wants root.
#
# PREFIX= another root, for images. An existing configuration is kept; the new one is put beside it as flowcond.toml.new.
set -eu
cd "$(dirname "$0")"
root=${PREFIX:-}

[ -n "$root" ] || [ "$(id -u)" = 0 ] || { echo "run it as root, or name another root in PREFIX" >&2; exit 1; }
live() { [ -z "$root" ] && [ -d /run/systemd/system ]; }

# Whatever still stands of ours goes back, also where on-exit = "keep" left it standing: without the programs nobody could do it.
restore() {
    flowcond=$root/usr/bin/flowcond
    [ -x "$flowcond" ] || return 0
    if [ -n "$root" ]; then "$flowcond" restore --state-dir "$root/var/lib/flowcon"; else "$flowcond" restore; fi
}

uninstall() {
    if live; then systemctl disable --now flowcon-exporter.service flowcond.service 2>/dev/null || true; fi
    if ! restore; then
        echo "nothing is removed: original limits are not back; next: see that the container engine runs, flowcond restore, and uninstall again" >&2
        exit 1
    fi
    find usr -type f | while read -r file; do rm -f "$root/$file"; done
    # Folders of our own; one in which somebody else put something stays.
    find usr -depth -type d -path '*flowcon*' | while read -r folder; do rmdir "$root/$folder" 2>/dev/null || true; done
    if live; then systemctl daemon-reload; fi
    rm -rf "$root/run/flowcon"
    echo "removed; $root/etc/flowcon and $root/var/lib/flowcon are yours to delete"
}

install_all() {
    find usr -type f | while read -r file; do
        mkdir -p "$root/$(dirname "$file")"
        # Beside and renamed: a running program is never written to.
        cp "$file" "$root/$file.new" && mv "$root/$file.new" "$root/$file"
    done
    mkdir -p "$root/etc/flowcon/flowcond.d"
    config=etc/flowcon/flowcond.toml
    if [ -e "$root/$config" ] && ! cmp -s "$config" "$root/$config"; then
        cp "$config" "$root/$config.new"
    else
        cp "$config" "$root/$config"
    fi
    if [ -z "$root" ]; then
        if command -v systemd-sysusers >/dev/null; then
            systemd-sysusers flowcon.conf
        else
            getent group flowcon >/dev/null || groupadd --system flowcon
        fi
    fi
    if live; then
        systemctl daemon-reload
        systemctl try-restart flowcond.service flowcon-exporter.service
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
