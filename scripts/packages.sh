#!/usr/bin/env bash
# The Debian packages of the servers and tools that some tests start. Those
# tests are skipped where a package is missing; so this installs what it may, says
# what it may not, and never fails.
set -euo pipefail

missing=()
need() { # package, then what it puts somewhere
	compgen -G "$2" >/dev/null || missing+=("$1")
}
need redis-server '/usr/bin/redis-server'
need postgresql-15 '/usr/lib/postgresql/*/bin/initdb'
need nginx '/usr/sbin/nginx'
need libnginx-mod-http-lua '/usr/lib/nginx/modules/ngx_http_lua_module.so'
need openssl '/usr/bin/openssl' # renegotiates, which Go's client cannot
need curl '/usr/bin/curl'       # the examples of the docs call with it

[ ${#missing[@]} -gt 0 ] || exit 0
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
	echo "Some tests will be skipped. To run them, install: ${missing[*]}"
	exit 0
fi
export DEBIAN_FRONTEND=noninteractive
# The tests start servers of their own; the packages' need not run.
install() { timeout 300 apt-get install -y --no-install-recommends "${missing[@]}" >/dev/null 2>&1; }
install || { timeout 120 apt-get update >/dev/null 2>&1 && install; } ||
	echo "Some tests will be skipped: ${missing[*]} could not be installed."
