#!/usr/bin/env bash
# Drill of lost partitions: the disk with the topics of crm is lost, including events that agent and messenger have not consumed. crm
# publishes its current state again, and the data of the other services is compared with that of crm.
#   cargo build --bin dev --bin devstack --bin demo --bin chaos --bin crm
#   deploy/local/partitions.sh  # steps of docs/runbooks/broker.md are in [ ]
# It uses a real Kafka, which needs Java and Maven.
set -euo pipefail
cd "$(dirname "$0")/../.."
. deploy/local/drill.sh

[ -x "$bin/crm" ] || fail "$bin/crm is missing"
export DATABASE_URL=postgres://platform@127.0.0.1:$port/platform
deals() { sql "$DATABASE_URL" "$1" 'select count(*) from deal'; }

step 'start a stack for the drill'
cluster data "$port"
start data
database "$port"
rm -rf .dev/kafka/stack
up
"$bin/demo" demo >/dev/null || fail 'the demo, before the loss'

for service in agent messenger; do "$bin/dev" stop "$service" >/dev/null; done
for _ in 1 2 3; do created=$(deal); done
call "platform-manager/crm/deals/$created/override-status" '{"TargetStatus": "Booking", "Comment": "a drill"}' >/dev/null
relayed() { [ "$(sql "$DATABASE_URL" crm 'select count(*) from outbox')" = 0 ]; }
eventually 'crm publishes its deals' relayed
step "agent has $(deals agent) of $(deals crm) deals"
[ "$(deals agent)" -lt "$(deals crm)" ] || fail 'agent has all deals although it was stopped'

down
for partition in .dev/kafka/stack/node-1/data/platform.crm.*; do rm -rf "$partition"; done
step 'the partitions of all topics of crm are deleted; the stack starts again'
up
lost() { [ "$(deals agent)" -lt "$(deals crm)" ]; }
# Time in which agent and messenger consume what is left.
sleep 20
lost || fail 'nothing was lost'
step "events that were not consumed are lost: agent has $(deals agent) of $(deals crm) deals"

step '[1] crm publishes its deals again'
# The command makes no calls, but the configuration requires these variables.
SELECTIONS_URL=$(value services selections internal_url) CLIENT_SECRET=none LOG=error "$bin/crm" republish Deal >/dev/null
is_complete() { [ "$(deals agent)" = "$(deals crm)" ]; }
eventually 'agent has every deal' is_complete
none_is_held() { [ "$(sql "$DATABASE_URL" agent 'select count(*) from deal where held_since is not null')" = 0 ]; }
eventually '[3] no deal is held' none_is_held

step 'compare the data of the services'
"$bin/chaos" verify || fail 'the data of the services disagrees'
"$bin/demo" demo >/dev/null || fail 'the demo, afterwards'
step 'recovered'
