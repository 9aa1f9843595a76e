#!/usr/bin/env bash
# Runs h2spec against the gateway, over TLS and with prior knowledge (h2c), and
# in the same run against a bare net/http server. A case that the gateway fails
# and net/http does not is a failure of ours.
set -euo pipefail
cd "$(dirname "$0")/.."
h2spec=github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible
tool=$PWD/.cache/h2spec/h2spec

[ -x "$tool" ] || GOBIN=$(dirname "$tool") go install "$h2spec"
dir=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$dir"' EXIT

go build -o "$dir/bare" ./lab/h2spec
"$dir/bare" "$dir/cert.pem" "$dir/key.pem" >"$dir/ports" &
pids+=($!)
for _ in $(seq 100); do
	[ "$(wc -l <"$dir/ports")" -eq 2 ] && break
	sleep 0.1
done
{ read -r std_h2c && read -r std_tls; } <"$dir/ports"

# The gateway listens where it likes, and says where in its log.
declare -A port
serve() {
	cat >"$dir/$1.yaml" <<-YAML
		server: {api: {listen: "127.0.0.1:0"$2}, admin: {listen: "127.0.0.1:0"}}
		providers: [{name: sim, dialect: simulator}]
		models: [{name: "*", targets: [{provider: sim}]}]
		keys: [{name: test, secret: "literal:sk-h2spec-0123456789", tenant: tests}]
	YAML
	bin/headgate serve --config "$dir/$1.yaml" 2>"$dir/$1.log" &
	pids+=($!)
	for _ in $(seq 100); do
		port[$1]=$(sed -n 's/.*"msg":"serving".*"api":"127.0.0.1:\([0-9]*\)".*/\1/p' "$dir/$1.log")
		[ -z "${port[$1]}" ] || return 0
		sleep 0.1
	done
	cat "$dir/$1.log"
	return 1
}
serve h2c ""
serve tls ", tls: {cert: $dir/cert.pem, key: $dir/key.pem}"

# failures prints the failed cases, one a line, as "http2/5.1.1: requirement".
failures() { # file, port, flags
	local out=$dir/$1
	"$tool" -p "$2" -o 3 -P /readyz -j "$out.xml" "${@:3}" >"$out.txt" || true
	grep -E '^[0-9]+ tests, ' "$out.txt" || {
		cat "$out.txt"
		return 1
	} >&2
	awk -F'"' '/<testcase / { case_ = $2 ": " $4 } /<(failure|error)/ { print case_ }' "$out.xml" | sort >"$out"
}

# compare is whether the gateway fails nothing that net/http does not.
compare() { # kind, flags
	local std=std_$1
	printf 'net/http over %s: ' "$1"
	failures std "${!std}" "${@:2}"
	printf 'headgate over %s: ' "$1"
	failures own "${port[$1]}" "${@:2}"
	comm -12 "$dir/std" "$dir/own" | sed 's/^/  both fail:      /'
	comm -23 "$dir/std" "$dir/own" | sed 's/^/  net\/http fails: /'
	comm -13 "$dir/std" "$dir/own" | sed 's/^/  HEADGATE FAILS: /'
	[ -z "$(comm -13 "$dir/std" "$dir/own")" ]
}

# A few cases depend on who is quicker, so what fails once is tried again.
again() {
	compare "$@" || compare "$@" || compare "$@"
}

status=0
again h2c || status=1
again tls -t -k || status=1
exit "$status"
