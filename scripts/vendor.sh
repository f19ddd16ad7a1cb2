#!/usr/bin/env bash
# Fetches the drawing library of `anabranch report`, d3, from the npm registry
# that this machine uses, checks its hash, and keeps what the page needs. Its
# licence stands beside it and in every page.
set -euo pipefail
cd "$(dirname "$0")/.."

version=7.9.0
sha256=7e36605710a2ba54846797c8c6d888911341b215ae53257dc32a49a0b824355e
folder=python/anabranch/assets/vendor

[ "$(cat "$folder/d3.version" 2>/dev/null)" != "$version" ] || exit 0
command -v npm >/dev/null || {
  echo "vendor: npm is needed once, to fetch d3 (apt-get install npm)" >&2
  exit 1
}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
npm pack --silent --pack-destination "$scratch" "d3@$version" >/dev/null
archive=$scratch/d3-$version.tgz
echo "$sha256  $archive" | sha256sum --check --quiet || {
  echo "vendor: d3-$version.tgz is not the file that was expected" >&2
  exit 1
}
tar -xzf "$archive" -C "$scratch"
mkdir -p "$folder"
cp "$scratch/package/dist/d3.min.js" "$folder/d3.min.js"
cp "$scratch/package/LICENSE" "$folder/d3.LICENSE"
echo "$version" >"$folder/d3.version"
