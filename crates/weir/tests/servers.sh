#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Fetches the servers that tests query: Prometheus, VictoriaMetrics, InfluxDB, as this system packages
# them. They are unpacked and not installed: an installed server would be started as a service. Each lies
# in ${XDG_CACHE_HOME:-~/.cache}/weir/servers/NAME-VERSION; the link NAME beside it says which is meant.
set -euo pipefail

cache="${XDG_CACHE_HOME:-$HOME/.cache}/weir/servers"
fresh=

# The lists of packages, anew, once, where we may.
refresh() {
    [ -z "$fresh" ] || return 0
    fresh=1
    [ "$(id -u)" != 0 ] || apt-get update -qq
}

candidate() {
    LC_ALL=C apt-cache policy "$1" | sed -n 's/^  Candidate: //p' | grep -v '^(none)$'
}

place() {
    echo "$cache/$1-$2"
}

fetch() {
    local name="$1" version="$2" work
    work="$(mktemp -d "$cache/fetch-XXXXXX")"
    # apt checks what comes against the signed lists.
    if (cd "$work" && apt-get download -qq -o Acquire::Retries=3 -o APT::Sandbox::User=root "$name=$version") &&
        dpkg-deb --extract "$work"/*.deb "$work/root"; then
        # Another run may have been faster.
        mv -T "$work/root" "$(place "$name" "$version")" || true
    fi
    rm -rf "$work"
}

mkdir -p "$cache"
for name in prometheus victoria-metrics influxdb; do
    version="$(candidate "$name" || true)"
    if [ -z "$version" ] || [ ! -e "$(place "$name" "$version")" ]; then
        refresh
        version="$(candidate "$name")" || { echo "$0: there is no package $name here" >&2; exit 1; }
        echo "fetching $name $version"
        fetch "$name" "$version"
    fi
    [ -e "$(place "$name" "$version")" ] || { echo "$0: $name $version cannot be had" >&2; exit 1; }
    ln -sfnT "$(place "$name" "$version")" "$cache/$name"
done
