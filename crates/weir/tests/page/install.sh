#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Fetches what drives Chromium in the tests of the live page, of the version in package-lock.json, into
# ${XDG_CACHE_HOME:-~/.cache}/weir/page-tests. Chromium and Node themselves are packages of the system.
set -euo pipefail

here="$(cd "$(dirname "$0")" && pwd)"
cache="${XDG_CACHE_HOME:-$HOME/.cache}/weir/page-tests"

mkdir -p "$cache"
if [ -e "$cache/node_modules/playwright-core/package.json" ] && cmp -s "$here/package-lock.json" "$cache/package-lock.json"; then
    exit 0
fi
echo "fetching playwright-core"
work="$(mktemp -d "$cache/fetch-XXXXXX")"
trap 'rm -rf "$work"' EXIT
cp "$here/package.json" "$here/package-lock.json" "$work"
# It is told where a browser is, and fetches none.
(cd "$work" && npm ci --ignore-scripts --no-audit --no-fund --silent)
rm -rf "$cache/node_modules"
# Another run may have been faster.
mv "$work/node_modules" "$cache" || [ -e "$cache/node_modules/playwright-core" ]
cp "$here/package-lock.json" "$cache"
