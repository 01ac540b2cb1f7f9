#!/usr/bin/env bash
# The drill of restoring: of a stack whose agent has a PostgreSQL cluster of its own, agent loses a table, is brought back to the moment
# before from a base backup and its log, hears again what it has missed, and its books are held against CRM's. The others go on meanwhile.
#   cargo build --bin dev --bin devstack --bin demo --bin chaos --bin agent
#   deploy/local/restore.sh     # the steps of docs/runbooks/restoring.md stand in [ ]
# The embedded broker lists no groups, so it is a real Kafka, which needs Java and Maven.
set -euo pipefail
cd "$(dirname "$0")/../.."

. deploy/local/drill.sh

agent() { DATABASE_URL="$url" LOG=error "$bin/agent" "$@"; }
own() { sql "$url" agent "$1"; }
theirs() { sql "$(value database_url)" crm "$1"; }
for program in "$bin/agent" "$postgres/pg_basebackup"; do [ -x "$program" ] || fail "$program is missing"; done

url=postgres://platform@127.0.0.1:$port/platform

step 'agent gets a cluster of its own, whose log is archived'
cluster others "$((port + 1))"
cluster data "$port"
as mkdir "$work/pg/archive"
cat >>"$work/pg/data/postgresql.conf" <<EOF
archive_mode = on
archive_command = 'test ! -f $work/pg/archive/%f && cp %p $work/pg/archive/%f'
EOF
for name in others data; do start "$name"; done
for each in "$port" "$((port + 1))"; do database "$each"; done
# Events of another time are none of these databases'.
rm -rf .dev/kafka/stack
DATABASE_URL=postgres://platform@127.0.0.1:$((port + 1))/platform AGENT_DATABASE_URL=$url up
"$bin/demo" demo >/dev/null || fail 'the demo, before the backup'

step '[backup] a base backup, while people work'
as "$postgres/pg_basebackup" --dbname "postgres://platform@127.0.0.1:$port/" --pgdata "$work/pg/base" --checkpoint=fast
"$bin/demo" demo >/dev/null || fail 'the demo, after the backup'
all_heard() { [ "$(own 'select count(*) from deal')" = "$(theirs 'select count(*) from deal')" ]; }
eventually 'agent hears of every deal' all_heard
before=$(own "select count(*) || ' deals, ' || (select count(*) from accrual) || ' accruals' from deal")
sent=$(own "select last_value from outbox_id_seq")
sleep 1
# PostgreSQL takes no Z here.
moment=$(date --utc +%Y-%m-%dT%H:%M:%S+00:00)
sleep 1
step "at $moment: $before"

own 'drop table accrual cascade'
own 'select pg_switch_wal()' >/dev/null
step 'somebody drops a table; the others go on, and what they tell is lost on agent'
! "$bin/demo" demo >/dev/null 2>&1 || fail 'the demo does without accruals'
"$bin/dev" stop agent >/dev/null
curl --silent --fail --output /dev/null "$(value services crm admin_url)/health/ready" || fail 'crm went on'

step '[recover] to the moment before, from the base backup and the log'
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

step '[restored] events are numbered anew, and what was consumed since comes again'
agent restored
# Kafka takes processes that were killed for running as long as their session lasts.
rewound() { agent consumers rewind --to "$(date --utc --date '1 hour ago' +%Y-%m-%dT%H:%M:%SZ)"; }
eventually 'the groups go back' rewound
"$bin/dev" start agent >/dev/null

step 'the verdict'
eventually 'agent hears of every deal' all_heard
[ "$(own "select nextval('outbox_id_seq')")" -gt "$sent" ] || fail 'numbers are given out again'
# Where the stack's own database sees what agent has, one can hold it against what the others have.
"$postgres/psql" --no-psqlrc --quiet --dbname "$(value database_url)" <<EOF
create extension postgres_fdw;
create server agent foreign data wrapper postgres_fdw options (host '127.0.0.1', port '$port', dbname 'platform');
create user mapping for current_user server agent options (user 'platform', password_required 'false');
create schema agent;
import foreign schema agent from server agent into agent;
EOF
"$bin/chaos" verify || fail 'it does not add up'
step 'restored'
