#!/usr/bin/env bash
# Runs the examples of README.md against a gateway with the demo model. An
# example is a fenced block below a line <!-- example: NAME -->; its extension
# says what runs it. Only the address differs from what the reader types.
set -euo pipefail
cd "$(dirname "$0")/.."
binary=${HEADGATE_BINARY:-bin/headgate}
[ -x "$binary" ] || { echo "$binary is missing; run make build" >&2; exit 1; }
[ -d test/sdk/node/node_modules/openai ] || npm ci --prefix test/sdk/node --no-audit --no-fund

dir=$(mktemp -d)
gateway=
cleanup() {
	if [ -n "$gateway" ]; then kill "$gateway" 2>/dev/null || true; wait "$gateway" 2>/dev/null || true; fi
	rm -rf "$dir"
}
trap cleanup EXIT
ln -s "$PWD/test/sdk/node/node_modules" "$dir/node_modules"

env -u OPENAI_API_KEY -u ANTHROPIC_API_KEY -u HEADGATE_API_KEY \
	"$binary" demo --listen 127.0.0.1:0 --admin 127.0.0.1:0 >"$dir/out" 2>"$dir/log" &
gateway=$!
for _ in $(seq 100); do
	grep -q 'Stop with' "$dir/out" && break
	kill -0 "$gateway" 2>/dev/null || { cat "$dir/log" >&2; exit 1; }
	sleep 0.1
done
address=$(sed -n 's|^ *API *http://\([^/]*\)/.*|\1|p' "$dir/out")
key=$(sed -n 's/^ *Key *//p' "$dir/out")
[ -n "$address" ] && [ -n "$key" ] || { cat "$dir/out" "$dir/log" >&2; exit 1; }

awk -v dir="$dir" '
	/^<!-- example: / { name = $3; next }
	/^```/ && file != "" { close(file); file = ""; next }
	/^```/ && name != "" { file = dir "/" name; name = ""; next }
	file != "" { print > file; next }
	NF && name != "" { print "README.md: no block below the example " name > "/dev/stderr"; exit 1 }
' README.md
sed -i.bak "s/127\.0\.0\.1:8080/$address/g" "$dir"/*.sh "$dir"/*.mjs

count=0
for example in "$dir"/*.sh "$dir"/*.mjs; do
	case $example in
	*.sh) run=(bash -eu) ;;
	*) run=(node) ;;
	esac
	echo "== README example $(basename "$example")"
	if ! out=$(cd "$dir" && HEADGATE_API_KEY=$key timeout 60 "${run[@]}" "$example" 2>&1) || [ -z "$out" ] || grep -q '"error"' <<<"$out"; then
		printf '%s\n' "$out" >&2
		echo "the example failed" >&2
		exit 1
	fi
	printf '%s\n' "$out" | cut -c1-200 | tail -n 5
	count=$((count + 1))
done
[ "$count" -ge 3 ] || { echo "README.md has $count examples, and at least 3 were expected" >&2; exit 1; }
