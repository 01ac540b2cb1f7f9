# shellcheck shell=bash disable=SC2034
# What the drills of this folder have in common; sourced by them.
# BIN is the folder of the programs, POSTGRES that of the server's. No stack may run in this clone, whose own one forgets its events;
# databases are the drill's own, and nothing is left behind.

bin=${BIN:-${CARGO_TARGET_DIR:-target}/debug}
# The folder with the server's programs; Debian has it outside of the path.
postgres=${POSTGRES:-$(dirname "$(printf '%s\n' /usr/lib/postgresql/*/bin/initdb "$(command -v initdb || true)" | grep -v '\*' | head -1)")}
port=${PORT:-25433}
work=$(mktemp -d)
chmod 711 "$work"
export KAFKA_SESSION_TIMEOUT_MS=6000

step() { printf '%5s s  %s\n' "$SECONDS" "$1"; }
fail() { printf 'FAILED  %s\n' "$1" >&2; exit 1; }
# member KEY…: of JSON.
member() { python3 -c 'import json, sys; from functools import reduce; print(reduce(lambda found, key: found[int(key) if isinstance(found, list) else key], sys.argv[1:], json.load(sys.stdin)))' "$@"; }
# value KEY…: of the running stack.
value() { member "$@" <.dev/stack.json; }
# eventually WHAT COMMAND…: until the command succeeds.
eventually() {
  local tries
  for tries in $(seq 240); do if "${@:2}"; then return; fi; sleep 0.5; done
  fail "$1"
}

# PostgreSQL refuses to run as root.
mkdir "$work/pg"
if [ "$(id -u)" = 0 ]; then
  chown postgres "$work/pg"
  as() { setpriv --reuid postgres --regid postgres --clear-groups "$@"; }
else
  as() { "$@"; }
fi

# cluster FOLDER PORT: one that is empty.
cluster() {
  as "$postgres/initdb" --auth=trust --encoding=UTF8 --username platform --pgdata "$work/pg/$1" >/dev/null
  printf '%s\n' "port = $2" "listen_addresses = '127.0.0.1'" "unix_socket_directories = ''" 'max_connections = 300' >>"$work/pg/$1/postgresql.conf"
}
start() { as "$postgres/pg_ctl" start --silent --wait --pgdata "$work/pg/$1" --log "$work/pg/$1.log"; }
database() { "$postgres/createdb" --host 127.0.0.1 --port "$1" --username platform platform; }
# sql URL AREA STATEMENT
sql() { "$postgres/psql" --no-psqlrc --quiet --tuples-only --no-align --dbname "$1?options=-csearch_path%3D$2" --command "$3"; }

# up: the whole stack, on a real Kafka.
up() {
  # Of a stack before; this one has its own.
  unset KAFKA_BROKERS AUTH_ISSUER
  : >"$work/up.log"
  "$bin/devstack" up --port 0 --broker kafka >>"$work/up.log" 2>&1 &
  stack=$!
  is_up() { grep -q 'Ctrl-C' "$work/up.log" || ! kill -0 "$stack"; }
  eventually 'the stack starts' is_up
  grep -q 'Ctrl-C' "$work/up.log" || { tail -3 "$work/up.log" >&2; fail 'the stack does not start'; }
  export KAFKA_BROKERS AUTH_ISSUER
  KAFKA_BROKERS=$(value brokers) AUTH_ISSUER=$(value issuer)
}
# call PATH JSON: of the running stack, as the demo's manager.
call() { curl --silent --show-error --fail --header "Authorization: Bearer $("$bin/dev" token pavel)" --json "$2" "$(value base_url)/api/$1"; }
# deal: a new one about the demo's first flat; answers its id.
deal() {
  local developer flat ids
  developer=$(curl --silent --fail "$(value base_url)/api/v1/public/developers" | member Items 0 Id)
  flat=$(curl --silent --fail "$(value base_url)/api/v1/public/property-objects?DeveloperId=$developer" | member Items 0 Id)
  mapfile -t ids < <(python3 -c 'import uuid; [print(uuid.uuid4()) for _ in range(3)]')
  call platform-manager/crm/deals "{\"PropertyObjectId\": \"$flat\", \"ClientUserId\": \"${ids[0]}\", \"AgentUserId\": \"${ids[1]}\", \"RequestId\": \"${ids[2]}\"}" | member DealId
}
down() {
  kill -TERM "$stack" 2>/dev/null && wait "$stack" || true
  stack=
}

finish() {
  if [ -n "${stack:-}" ]; then down; fi
  for data in "$work"/pg/*/; do
    [ ! -f "$data/postmaster.pid" ] || as "$postgres/pg_ctl" stop --silent --mode=fast --pgdata "$data" || true
  done
  rm -rf "$work"
}
trap finish EXIT

for program in "$bin/"{dev,devstack,demo,chaos} "$postgres/initdb"; do [ -x "$program" ] || fail "$program is missing"; done
