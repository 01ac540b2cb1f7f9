#!/usr/bin/env bash
# Drill of a restore: agent has a separate PostgreSQL cluster and loses a table. Its database is recovered to the moment before, from a
# base backup and the archived log, while the other services continue. agent consumes the later events again, and its data is compared
# with that of crm.
#   cargo build --bin dev --bin devstack --bin demo --bin chaos --bin agent
#   deploy/local/restore.sh     # steps of docs/runbooks/restoring.md are in [ ]
# It uses a real Kafka, because the embedded broker lists no consumer groups. That needs Java and Maven.
set -euo pipefail
cd "$(dirname "$0")/../.."

. deploy/local/drill.sh

agent() { DATABASE_URL="$url" LOG=error "$bin/agent" "$@"; }
own() { sql "$url" agent "$1"; }
theirs() { sql "$(value database_url)" crm "$1"; }
for program in "$bin/agent" "$postgres/pg_basebackup"; do [ -x "$program" ] || fail "$program is missing"; done

url=postgres://platform@127.0.0.1:$port/platform

step 'start a separate PostgreSQL cluster for agent, with an archived log'
cluster others "$((port + 1))"
cluster data "$port"
as mkdir "$work/pg/archive"
cat >>"$work/pg/data/postgresql.conf" <<EOF
archive_mode = on
archive_command = 'test ! -f $work/pg/archive/%f && cp %p $work/pg/archive/%f'
EOF
for name in others data; do start "$name"; done
for each in "$port" "$((port + 1))"; do database "$each"; done
# Events of an earlier stack do not match these databases.
rm -rf .dev/kafka/stack
DATABASE_URL=postgres://platform@127.0.0.1:$((port + 1))/platform AGENT_DATABASE_URL=$url up
"$bin/demo" demo >/dev/null || fail 'the demo, before the backup'

step '[backup] take a base backup under load'
as "$postgres/pg_basebackup" --dbname "postgres://platform@127.0.0.1:$port/" --pgdata "$work/pg/base" --checkpoint=fast
"$bin/demo" demo >/dev/null || fail 'the demo, after the backup'
has_all_deals() { [ "$(own 'select count(*) from deal')" = "$(theirs 'select count(*) from deal')" ]; }
eventually 'agent has every deal' has_all_deals
before=$(own "select count(*) || ' deals, ' || (select count(*) from accrual) || ' accruals' from deal")
sent=$(own "select last_value from outbox_id_seq")
sleep 1
# PostgreSQL does not accept Z here.
moment=$(date --utc +%Y-%m-%dT%H:%M:%S+00:00)
sleep 1
step "at $moment: $before"

own 'drop table accrual cascade'
own 'select pg_switch_wal()' >/dev/null
step 'a table of agent is dropped; the other services continue, and agent cannot process their events'
! "$bin/demo" demo >/dev/null 2>&1 || fail 'the demo succeeds without accruals'
"$bin/dev" stop agent >/dev/null
curl --silent --fail --output /dev/null "$(value services crm admin_url)/health/ready" || fail 'crm continues'

step '[recover] recover to the moment before, from the base backup and the log'
as "$postgres/pg_ctl" stop --silent --wait --mode=fast --pgdata "$work/pg/data"
as cp -R "$work/pg/base" "$work/pg/restored"
cat >>"$work/pg/restored/postgresql.conf" <<EOF
archive_mode = off
restore_command = 'cp $work/pg/archive/%f %p'
recovery_target_time = '$moment'
recovery_target_action = promote
EOF
as touch "$work/pg/restored/recovery.signal"
start restored \
  || { tail "$work/pg/restored.log" >&2; fail 'the restored database does not start'; }
promoted() { [ "$(own 'select pg_is_in_recovery()')" = f ]; }
eventually 'the database is recovered' promoted
after=$(own "select count(*) || ' deals, ' || (select count(*) from accrual) || ' accruals' from deal")
[ "$after" = "$before" ] || fail "recovered: $after; before: $before"
step "recovered: $after"

step '[restored] events get new numbers, and the consumer groups go back'
agent restored
# Kafka treats killed processes as running until their session times out.
rewound() { agent consumers rewind --to "$(date --utc --date '1 hour ago' +%Y-%m-%dT%H:%M:%SZ)"; }
eventually 'the groups go back' rewound
"$bin/dev" start agent >/dev/null

step 'compare the data of the services'
eventually 'agent has every deal' has_all_deals
[ "$(own "select nextval('outbox_id_seq')")" -gt "$sent" ] || fail 'event numbers are used twice'
# Makes the tables of agent visible in the database of the stack, so that `chaos verify` can compare them.
"$postgres/psql" --no-psqlrc --quiet --dbname "$(value database_url)" <<EOF
create extension postgres_fdw;
create server agent foreign data wrapper postgres_fdw options (host '127.0.0.1', port '$port', dbname 'platform');
create user mapping for current_user server agent options (user 'platform', password_required 'false');
create schema agent;
import foreign schema agent from server agent into agent;
EOF
"$bin/chaos" verify || fail 'the data of the services disagrees'
step 'restored'
