#!/usr/bin/env bash
# Runs every fuzz target of the module for the given time, as many side by side
# as there are processors, each with one worker.
set -euo pipefail
cd "$(dirname "$0")/.."
export time=${1:-10s}

one() { # package, target
	local out
	if ! out=$(GOMAXPROCS=1 go test -run '^$' -fuzz "^$2\$" -fuzztime "$time" -parallel 1 "$1" </dev/null 2>&1); then
		printf '== %s (%s) FAILED\n%s\n' "$2" "$1" "$out"
		return 1
	fi
	printf '== %s (%s)\n%s\n' "$2" "$1" "$(tail -n 2 <<<"$out")"
}
export -f one

go test -list '^Fuzz' ./... | awk '
	/^Fuzz/ { names[++n] = $1 }
	/^ok/   { for (i = 1; i <= n; i++) print $2, names[i]; n = 0 }
' | xargs -P "$(getconf _NPROCESSORS_ONLN)" -L 1 bash -c 'one "$0" "$1"'
