#!/bin/sh
# Writes the pictures of the HTML report, docs/page-*.png, from files of testdata/.
#
# Needs cargo, Chromium (chromium, chromium-browser, google-chrome or chrome in PATH, or NCCL_STACKS_CHROMIUM), and pngquant, which makes the
# files small. Letters are drawn in the fonts of the machine, so pictures of two machines differ.
set -eu
cd "$(dirname "$0")/.."

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
NCCL_STACKS_PICTURES="$folder" cargo test --locked --test program -- --ignored --exact page::pictures::pictures

for picture in "$folder"/page-*.png; do
    small="docs/$(basename "$picture")"
    if command -v pngquant >/dev/null; then
        pngquant --force --strip --speed 1 --output "$small" 128 "$picture"
    else
        cp "$picture" "$small"
    fi
    size=$(wc -c <"$small")
    echo "$small: $size bytes"
    if [ "$size" -gt 200000 ]; then
        echo "$small is larger than 200 kB; with pngquant it is a third of that" >&2
        exit 1
    fi
done
