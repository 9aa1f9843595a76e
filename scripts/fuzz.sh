#!/usr/bin/env bash
# Runs every fuzz target of the module for the given time, one after the other.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-10s}

go test -list '^Fuzz' ./... | awk '
	/^Fuzz/ { names[++n] = $1 }
	/^ok/   { for (i = 1; i <= n; i++) print $2, names[i]; n = 0 }
' | while read -r pkg name; do
	echo "== $name ($pkg)"
	go test -run '^$' -fuzz "^$name\$" -fuzztime "$time" "$pkg" </dev/null
done
