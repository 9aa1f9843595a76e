#!/usr/bin/env bash
# Runs the official SDKs for JavaScript and Go as clients of Headgate. `make test` calls it.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The SDKs read their settings from the environment; the tests give all of their own.
for name in $(compgen -e); do
  case $name in OPENAI_* | ANTHROPIC_*) unset "$name" ;; esac
done

# npm ci deletes what is installed, so it only runs when something else is asked for than was installed.
wanted=$(cat "$here/node/package.json" "$here/node/package-lock.json" "$here/node/.npmrc" | cksum)
installed=$here/node/node_modules/.installed-for
if [[ ! -f $installed || $(<"$installed") != "$wanted" ]]; then
  echo "sdk: installing the JavaScript SDKs"
  (cd "$here/node" && npm ci --loglevel=error --prefer-offline)
  echo "$wanted" >"$installed"
fi

if [[ -z ${HEADGATE_BIN:-} ]]; then
  echo "sdk: building headgate"
  export HEADGATE_BIN=$work/headgate
  (cd "$root" && go build -o "$HEADGATE_BIN" ./cmd/headgate)
fi

# Both suites run whatever becomes of the other, and one after the other, as some tests watch the clock.
failed=0
suite() {
  local name=$1 dir=$2 began=$SECONDS
  shift 2
  if (cd "$dir" && "$@") >"$work/log" 2>&1; then
    echo "sdk: $name: ok, $((SECONDS - began)) s"
  else
    failed=1
    # Node's summary repeats what failed; where there is none, all there is.
    sed -n '/failing tests:$/,$p' "$work/log" | grep . || cat "$work/log"
    echo "sdk: $name: FAILED after $((SECONDS - began)) s"
  fi
}

suite node "$here/node" node --test --test-reporter=spec --test-timeout=60000
suite go "$here/go" go test -count=1 -timeout=150s ./...
exit $failed
