#!/usr/bin/env bash
# The drill of an expired password: agent's database lets it in no more. Nothing that it is told is lost meanwhile, and with a new
# password in the file that it reads at its start it goes on.
#   cargo build --bin dev --bin devstack --bin demo --bin chaos --bin agent
#   deploy/local/password.sh    # the steps of docs/runbooks/broker.md stand in [ ]
# It is a real Kafka, which needs Java and Maven.
set -euo pipefail
cd "$(dirname "$0")/../.."
. deploy/local/drill.sh

[ -x "$bin/agent" ] || fail "$bin/agent is missing"
own() { sql "postgres://platform@127.0.0.1:$port/platform" agent "$1"; }
theirs() { sql "$(value database_url)" crm "$1"; }
# let_in PASSWORD: whom the database lets in, as the Secret tells agent.
let_in() {
  own "alter role agent password '$1' valid until 'infinity'"
  printf 'postgres://agent:%s@127.0.0.1:%s/platform' "$1" "$port" >"$work/secret"
}

# Both roles in the place of the stack's, with the secret as a pod has it.
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
# roles OPTION…: what both say of their readiness.
roles() { curl --silent --write-out "\n" "$@" "$(value services agent admin_url)/health/ready" && curl --silent --write-out "\n" "$@" "http://127.0.0.1:$((port + 2))/health/ready"; }
is_ready() { roles --fail --output /dev/null >/dev/null; }
is_shut_out() { [ "$(roles | grep -c database)" = 2 ]; }
# The status of what an agent asks for.
summary() { curl --silent --output /dev/null --write-out '%{http_code}' --header "Authorization: Bearer $("$bin/dev" token igor)" "$(value services agent public_url)/api/v1/my/commission-summary"; }
all_heard() { [ "$(own 'select count(*) from deal')" = "$(theirs 'select count(*) from deal')" ]; }

step 'agent gets a cluster of its own, which asks it for a password'
cluster others "$((port + 1))"
cluster data "$port"
sed --in-place '1i host all agent 127.0.0.1/32 scram-sha-256' "$work/pg/data/pg_hba.conf"
for name in others data; do start "$name"; done
for each in "$port" "$((port + 1))"; do database "$each"; done
own "create role agent login; grant create on database platform to agent"
let_in old
rm -rf .dev/kafka/stack
DATABASE_URL=postgres://platform@127.0.0.1:$((port + 1))/platform AGENT_DATABASE_URL=$(<"$work/secret") up
"$bin/demo" demo >/dev/null || fail 'the demo'
"$bin/dev" stop agent >/dev/null
serve_and_work

own "alter role agent valid until '2000-01-01'"
step 'the password has expired; who is connected goes on'
deal >/dev/null
eventually 'agent hears of every deal' all_heard
own "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'agent'" >/dev/null
eventually 'both roles say that they have no database' is_shut_out
step 'the connections have ended, and there are no others: /health/ready says database'
for _ in 1 2 3; do deal >/dev/null; done
sleep 10
! all_heard || fail 'agent hears of deals without a database'
[ "$(summary)" = 503 ] || fail 'a request is answered without a database'
step "agent has heard of $(own 'select count(*) from deal') deals of $(theirs 'select count(*) from deal'); requests are answered 503"

step '[the password] a new password, in the Secret; both roles are restarted'
let_in new
end_pods
serve_and_work
eventually 'agent hears of every deal' all_heard
[ "$(own 'select count(*) from dead_letter')" = 0 ] || fail 'something was put aside'
[ "$(summary)" = 200 ] || fail 'a request is refused'
step "mended: agent has heard of $(own 'select count(*) from deal') deals of $(theirs 'select count(*) from deal'), nothing was put aside"
