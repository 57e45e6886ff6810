#!/bin/sh
# picture.sh makes the picture of the report page for README.md. It needs Chromium, and optipng if
# it is installed: tools/check/pages/picture.sh [CHROMIUM]
set -eu
cd "$(dirname "$0")/../../.."
chromium=${1:-chromium}
image=testdata/images/wh.twoop.lmb
picture=$PWD/tools/look/report/testdata/report.png
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

go build -o "$work/lm" ./tools/lm
"$work/lm" replay --device mock:wormhole --profile "$work/run.json" "$image" >"$work/replay.log"
"$work/lm" report --profile "$work/run.json" -o "$work/report.html" "$image"
# The sandbox of Chromium does not work as root.
"$chromium" --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1000,820 \
	--user-data-dir="$work/profile" --screenshot="$picture" "file://$work/report.html" \
	2>"$work/chromium.log" || { cat "$work/chromium.log" >&2; exit 1; }
if command -v optipng >/dev/null; then optipng -quiet -o5 "$picture"; fi

bytes=$(wc -c <"$picture")
echo "$picture: $bytes bytes"
[ "$bytes" -lt 150000 ]
