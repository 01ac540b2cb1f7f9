#!/usr/bin/env bash
# Drill of a restore: a service has a separate PostgreSQL cluster and loses a table. Its database is recovered to an earlier moment, from
# a base backup and the archived log, while the other services continue. Changes after the moment are lost, although other services have
# applied their events. The service aligns them, consumes the events that it missed, and the data of all services is compared.
#   cargo build --bin dev --bin devstack --bin demo --bin chaos --bin crm
#   deploy/local/restore.sh crm # or chessboard, identity, agent; steps of docs/runbooks/restoring.md are in [ ]
# It uses a real Kafka, because the embedded broker lists no consumer groups. That needs Java and Maven.
set -euo pipefail
cd "$(dirname "$0")/../.."

service=${1:-}
case $service in
  crm) table=timeline other=chessboard ;;
  chessboard) table=deal_claim other=crm ;;
  identity) table=audit_entry other=crm ;;
  agent) table=accrual other=crm ;;
  *) printf 'usage: %s crm|chessboard|identity|agent\n' "$0" >&2; exit 2 ;;
esac

. deploy/local/drill.sh

# The commands make no calls, but the configuration requires these variables.
run() { DATABASE_URL="$url" SELECTIONS_URL=$(value services selections internal_url) CLIENT_SECRET=none LOG=error "$bin/$service" "$@"; }
# Query the database of the service, and those of the others.
own() { sql "$url" "$service" "$1"; }
theirs() { sql "$(value database_url)" "$1" "$2"; }
for program in "$bin/$service" "$postgres/pg_basebackup"; do [ -x "$program" ] || fail "$program is missing"; done

url=postgres://platform@127.0.0.1:$port/platform

# count: prints the numbers of rows that the restore has to bring back.
count() {
  case $service in
    crm) own "select count(*) || ' deals' from deal" ;;
    chessboard) own "select count(*) || ' objects, ' || (select count(*) from developer where status = 'Published') || ' published developers' from property_object" ;;
    identity) own "select count(*) || ' companies, the last name ' || max(name) from tenant" ;;
    agent) own "select count(*) || ' deals, ' || (select count(*) from accrual) || ' accruals' from deal" ;;
  esac
}
# Print the ids of the demo's developer and of an agency.
developer() { curl --silent --fail "$(value base_url)/api/v1/public/developers" | member Items 0 Id; }
agency() { get olga 'identity/admin/tenants/search?Types=Agency' | member Items 0 Id; }

# lose: makes the changes that the restore takes away, and waits until the other services have applied them.
lose() {
  case $service in
    crm)
      lost=$(deal)
      call "platform-manager/crm/deals/$lost/booking" '{}' >/dev/null
      send pavel PUT "platform-manager/crm/deals/$kept/agent" "{\"AgentUserId\": \"$(random)\"}" >/dev/null
      applied() { [ "$(theirs chessboard "select count(*) from property_object where hold_deal_id = '$lost'")" = 1 ]; } ;;
    chessboard)
      send olga POST "v1/admin/developers/$(developer)/hide" '{}' >/dev/null
      applied() { [ "$(theirs selections 'select count(*) from property_object where is_public')" = 0 ]; } ;;
    identity)
      send olga PUT "identity/admin/tenants/$(agency)" '{"Name": "Zzz Renamed", "LegalName": null, "TaxNumber": null}' >/dev/null
      send olga POST identity/admin/tenants '{"Name": "Zzz Lost Homes", "Type": "Agency"}' >/dev/null
      applied() { [ "$(theirs chessboard "select count(*) from company where name like 'Zzz%'")" = 2 ]; } ;;
    agent)
      applied() { true; } ;;
  esac
  eventually 'the other services apply the changes' applied
}

step "start a separate PostgreSQL cluster for $service, with an archived log"
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
export "${service^^}_DATABASE_URL=$url"
DATABASE_URL=postgres://platform@127.0.0.1:$((port + 1))/platform up
play 'before the backup'

step '[backup] take a base backup under load'
as "$postgres/pg_basebackup" --dbname "postgres://platform@127.0.0.1:$port/" --pgdata "$work/pg/base" --checkpoint=fast
play 'after the backup'
if [ "$service" = crm ]; then kept=$(deal); fi
published() { [ "$(own 'select count(*) from outbox')" = 0 ]; }
eventually 'the events are published' published
before=$(count)
sent=$(own "select last_value from outbox_id_seq")
sleep 1
moment=$(date --utc +%Y-%m-%dT%H:%M:%S)
sleep 1
step "at $moment: $before"

lose
step "changes that will be lost: $(count)"
own "drop table $table cascade"
own 'select pg_switch_wal()' >/dev/null
step "the table $table is dropped; the other services continue, and $service cannot work"
! "$bin/demo" demo >/dev/null 2>&1 || fail "the demo succeeds without $table"
"$bin/dev" stop "$service" >/dev/null
curl --silent --fail --output /dev/null "$(value services $other admin_url)/health/ready" || fail "$other does not continue"

step '[recover] recover to the moment before, from the base backup and the log'
as "$postgres/pg_ctl" stop --silent --wait --mode=fast --pgdata "$work/pg/data"
as cp -R "$work/pg/base" "$work/pg/restored"
# PostgreSQL does not accept Z as the offset.
cat >>"$work/pg/restored/postgresql.conf" <<EOF
archive_mode = off
restore_command = 'cp $work/pg/archive/%f %p'
recovery_target_time = '$moment+00:00'
recovery_target_action = promote
EOF
as touch "$work/pg/restored/recovery.signal"
start restored \
  || { tail "$work/pg/restored.log" >&2; fail 'the restored database does not start'; }
promoted() { [ "$(own 'select pg_is_in_recovery()')" = f ]; }
eventually 'the database is recovered' promoted
after=$(count)
[ "$after" = "$before" ] || fail "recovered: $after; before: $before"
step "recovered: $after"

step '[restored] events get new numbers, the other services are aligned, and the consumer groups go back'
run restored --since "${moment}Z"
# Kafka treats killed processes as running until their session times out.
rewound() { run consumers rewind --to "$(date --utc --date '1 hour ago' +%Y-%m-%dT%H:%M:%SZ)" >/dev/null; }
if [ "$service" != identity ]; then eventually 'the groups go back' rewound; fi
"$bin/dev" start "$service" >/dev/null

step 'compare the data of the services'
eventually 'the events are published' published
[ "$(own "select nextval('outbox_id_seq')")" -gt "$sent" ] || fail 'event numbers are used twice'
if [ "$service" = crm ]; then
  is_free() { [ "$(theirs chessboard "select count(*) from deal_claim where deal_id = '$lost' and kind <> 'Released'")" = 0 ]; }
  eventually 'the object of the lost deal is free' is_free
fi
# Makes the tables of the service visible in the database of the stack, so that `chaos verify` can compare them.
"$postgres/psql" --no-psqlrc --quiet --dbname "$(value database_url)" <<EOF
create extension postgres_fdw;
create server own foreign data wrapper postgres_fdw options (host '127.0.0.1', port '$port', dbname 'platform');
create user mapping for current_user server own options (user 'platform', password_required 'false');
create schema $service;
import foreign schema $service from server own into $service;
EOF
"$bin/chaos" verify || fail 'the data of the services disagrees'
play 'afterwards'
step 'restored'
