#!/usr/bin/env bash
# Runs the fuzz targets of the packages that match a pattern, all by default, for
# the given time: as many side by side as there are processors, each with one
# worker.
set -euo pipefail
cd "$(dirname "$0")/.."
export time=${1:-10s}
packages=${2:-.}

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
' | grep -E "$packages" | xargs -P "$(getconf _NPROCESSORS_ONLN)" -L 1 bash -c 'one "$0" "$1"'
