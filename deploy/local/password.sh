#!/usr/bin/env bash
# Drill of an expired password: the database of agent rejects its connections. No event is lost, and agent continues after a restart
# with a new password in the mounted file.
#   cargo build --bin dev --bin devstack --bin demo --bin chaos --bin agent
#   deploy/local/password.sh    # steps of docs/runbooks/broker.md are in [ ]
# It uses a real Kafka, which needs Java and Maven.
set -euo pipefail
cd "$(dirname "$0")/../.."
. deploy/local/drill.sh

[ -x "$bin/agent" ] || fail "$bin/agent is missing"
# Query the databases of agent and of crm.
own() { sql "postgres://platform@127.0.0.1:$port/platform" agent "$1"; }
theirs() { sql "$(value database_url)" crm "$1"; }
# set_password PASSWORD: changes the password in the database and in the mounted secret.
set_password() {
  own "alter role agent password '$1' valid until 'infinity'"
  printf 'postgres://agent:%s@127.0.0.1:%s/platform' "$1" "$port" >"$work/secret"
}

# Starts both roles instead of those of the stack, with the secret as a mounted file, as in a pod.
serve_and_work() {
  local listen admin
  listen=$(value services agent public_url) admin=$(value services agent admin_url)
  export DATABASE_URL_FILE=$work/secret TRUSTED_PROXIES=127.0.0.0/8 LOG=warn
  PUBLIC_LISTEN=${listen#http://} ADMIN_LISTEN=${admin#http://} "$bin/agent" serve >>"$work/serve.log" &
  pods=($!)
  ADMIN_LISTEN=127.0.0.1:$((port + 2)) "$bin/agent" work >>"$work/work.log" &
  pods+=($!)
  eventually 'agent is ready' is_ready
}
end_pods() { [ ${#pods[@]} = 0 ] || { kill -TERM "${pods[@]}" 2>/dev/null && wait "${pods[@]}"; } || true; pods=(); }
pods=()
trap 'end_pods; finish' EXIT
# roles OPTION…: prints the readiness of both roles.
roles() { curl --silent --write-out "\n" "$@" "$(value services agent admin_url)/health/ready" && curl --silent --write-out "\n" "$@" "http://127.0.0.1:$((port + 2))/health/ready"; }
is_ready() { roles --fail --output /dev/null >/dev/null; }
is_shut_out() { [ "$(roles | grep -c database)" = 2 ]; }
# Prints the status of a request of an agent.
summary() { curl --silent --output /dev/null --write-out '%{http_code}' --header "Authorization: Bearer $("$bin/dev" token igor)" "$(value services agent public_url)/api/v1/my/commission-summary"; }
has_all_deals() { [ "$(own 'select count(*) from deal')" = "$(theirs 'select count(*) from deal')" ]; }

step 'start a separate PostgreSQL cluster for agent, which requires a password'
cluster others "$((port + 1))"
cluster data "$port"
sed --in-place '1i host all agent 127.0.0.1/32 scram-sha-256' "$work/pg/data/pg_hba.conf"
for name in others data; do start "$name"; done
for each in "$port" "$((port + 1))"; do database "$each"; done
own "create role agent login; grant create on database platform to agent"
set_password old
rm -rf .dev/kafka/stack
DATABASE_URL=postgres://platform@127.0.0.1:$((port + 1))/platform AGENT_DATABASE_URL=$(<"$work/secret") up
"$bin/demo" demo >/dev/null || fail 'the demo'
"$bin/dev" stop agent >/dev/null
serve_and_work

own "alter role agent valid until '2000-01-01'"
step 'the password has expired; open connections continue'
deal >/dev/null
eventually 'agent has every deal' has_all_deals
own "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'agent'" >/dev/null
eventually 'both roles report the database as unavailable' is_shut_out
step 'the connections are closed and cannot be opened again: /health/ready reports the database'
for _ in 1 2 3; do deal >/dev/null; done
# Time in which agent would consume the deals.
sleep 10
! has_all_deals || fail 'agent consumes deals without a database'
[ "$(summary)" = 503 ] || fail 'a request succeeds without a database'
step "agent has $(own 'select count(*) from deal') of $(theirs 'select count(*) from deal') deals; requests get 503"

step '[the password] set a new password in the Secret and restart both roles'
set_password new
end_pods
serve_and_work
eventually 'agent has every deal' has_all_deals
[ "$(own 'select count(*) from dead_letter')" = 0 ] || fail 'a message became a dead letter'
[ "$(summary)" = 200 ] || fail 'a request fails'
step "recovered: agent has $(own 'select count(*) from deal') of $(theirs 'select count(*) from deal') deals and no dead letters"
