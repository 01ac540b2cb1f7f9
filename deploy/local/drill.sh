# shellcheck shell=bash disable=SC2034
# Common functions of the drills in this folder, which source this file.
# BIN is the folder of this repository's binaries, POSTGRES that of PostgreSQL's. PORT and the next
# two ports must be free. No stack may run in this clone, because the drill deletes the events of
# its Kafka. A drill has its own databases and removes them at the end.

bin=${BIN:-${CARGO_TARGET_DIR:-target}/debug}
# Debian keeps the binaries of the PostgreSQL server outside PATH.
postgres=${POSTGRES:-$(dirname "$(printf '%s\n' /usr/lib/postgresql/*/bin/initdb "$(command -v initdb || true)" | grep -v '\*' | head -1)")}
port=${PORT:-25433}
work=$(mktemp -d)
chmod 711 "$work"
export KAFKA_SESSION_TIMEOUT_MS=6000

step() { printf '%5s s  %s\n' "$SECONDS" "$1"; }
fail() { printf 'FAILED  %s\n' "$1" >&2; exit 1; }
# member KEY…: prints a member of the JSON on stdin.
member() { python3 -c 'import json, sys; from functools import reduce; print(reduce(lambda found, key: found[int(key) if isinstance(found, list) else key], sys.argv[1:], json.load(sys.stdin)))' "$@"; }
# value KEY…: prints a member of the description of the running stack.
value() { member "$@" <.dev/stack.json; }
# eventually WHAT COMMAND…: waits until the command succeeds, and fails after two minutes.
eventually() {
  local tries
  for tries in $(seq 240); do if "${@:2}"; then return; fi; sleep 0.5; done
  fail "not within two minutes: $1"
}

# PostgreSQL refuses to run as root.
mkdir "$work/pg"
if [ "$(id -u)" = 0 ]; then
  chown postgres "$work/pg"
  as() { setpriv --reuid postgres --regid postgres --clear-groups "$@"; }
else
  as() { "$@"; }
fi

# cluster FOLDER PORT: creates an empty PostgreSQL cluster.
cluster() {
  as "$postgres/initdb" --auth=trust --encoding=UTF8 --username platform --pgdata "$work/pg/$1" >/dev/null
  printf '%s\n' "port = $2" "listen_addresses = '127.0.0.1'" "unix_socket_directories = ''" 'max_connections = 300' >>"$work/pg/$1/postgresql.conf"
}
start() { as "$postgres/pg_ctl" start --silent --wait --pgdata "$work/pg/$1" --log "$work/pg/$1.log"; }
database() { "$postgres/createdb" --host 127.0.0.1 --port "$1" --username platform platform; }
# sql URL SERVICE STATEMENT
sql() { "$postgres/psql" --no-psqlrc --quiet --tuples-only --no-align --dbname "$1?options=-csearch_path%3D$2" --command "$3"; }

# up: starts the whole stack on a real Kafka.
up() {
  # These are values of an earlier stack.
  unset KAFKA_BROKERS AUTH_ISSUER
  : >"$work/up.log"
  "$bin/devstack" up --port 0 --broker kafka >>"$work/up.log" 2>&1 &
  stack=$!
  has_started_or_ended() { grep -q 'Ctrl-C' "$work/up.log" || ! kill -0 "$stack"; }
  eventually 'the stack starts' has_started_or_ended
  grep -q 'Ctrl-C' "$work/up.log" || { tail -3 "$work/up.log" >&2; fail 'the stack does not start'; }
  export KAFKA_BROKERS AUTH_ISSUER
  KAFKA_BROKERS=$(value brokers) AUTH_ISSUER=$(value issuer)
}
# get ACTOR PATH: sends a GET request to the running stack as an actor of the demo.
get() { curl --silent --show-error --fail --header "Authorization: Bearer $("$bin/dev" token "$1")" "$(value base_url)/api/$2"; }
# send ACTOR METHOD PATH JSON: sends a request with a body.
send() { curl --silent --show-error --fail --request "$2" --header "Authorization: Bearer $("$bin/dev" token "$1")" --json "$4" "$(value base_url)/api/$3"; }
# call PATH JSON: sends a POST request as the manager of the demo.
call() { send pavel POST "$1" "$2"; }
random() { python3 -c 'import uuid; print(uuid.uuid4())'; }
# deal: creates a deal about the first flat of the demo and prints its id.
deal() {
  local developer flat
  developer=$(curl --silent --fail "$(value base_url)/api/v1/public/developers" | member Items 0 Id)
  flat=$(curl --silent --fail "$(value base_url)/api/v1/public/property-objects?DeveloperId=$developer" | member Items 0 Id)
  call platform-manager/crm/deals "{\"PropertyObjectId\": \"$flat\", \"ClientUserId\": \"$(random)\", \"AgentUserId\": \"$(random)\", \"RequestId\": \"$(random)\"}" | member DealId
}
# play WHEN: plays the story of the demo, which checks what it sees.
play() { "$bin/demo" demo >"$work/demo.log" 2>&1 || { grep -v '✓' "$work/demo.log" >&2; fail "the demo, $1"; }; }
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
