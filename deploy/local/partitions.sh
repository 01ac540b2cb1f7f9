#!/usr/bin/env bash
# The drill of lost partitions: all that Kafka has of deals is gone with its disk, what agent and messenger have not heard yet with it. CRM
# tells anew what is, and everybody's books are held against CRM's.
#   cargo build --bin dev --bin devstack --bin demo --bin chaos --bin crm
#   deploy/local/partitions.sh  # the steps of docs/runbooks/broker.md stand in [ ]
# It is a real Kafka, which needs Java and Maven.
set -euo pipefail
cd "$(dirname "$0")/../.."
. deploy/local/drill.sh

[ -x "$bin/crm" ] || fail "$bin/crm is missing"
export DATABASE_URL=postgres://platform@127.0.0.1:$port/platform
deals() { sql "$DATABASE_URL" "$1" 'select count(*) from deal'; }

step 'a stack of its own'
cluster data "$port"
start data
database "$port"
rm -rf .dev/kafka/stack
up
"$bin/demo" demo >/dev/null || fail 'the demo, before the loss'

for area in agent messenger; do "$bin/dev" stop "$area" >/dev/null; done
for _ in 1 2 3; do told=$(deal); done
call "platform-manager/crm/deals/$told/override-status" '{"TargetStatus": "Booking", "Comment": "a drill"}' >/dev/null
relayed() { [ "$(sql "$DATABASE_URL" crm 'select count(*) from outbox')" = 0 ]; }
eventually 'crm tells of its deals' relayed
step "agent has heard of $(deals agent) deals of $(deals crm)"
[ "$(deals agent)" -lt "$(deals crm)" ] || fail 'agent has heard of all deals, although it was stopped'

down
for partition in .dev/kafka/stack/node-1/data/platform.crm.*; do rm -rf "$partition"; done
step 'the partitions of all topics of crm are gone; all start again'
up
lost() { [ "$(deals agent)" -lt "$(deals crm)" ]; }
sleep 20
lost || fail 'nothing was lost'
step "what was not consumed is gone: agent has heard of $(deals agent) deals of $(deals crm)"

step '[1] crm tells anew'
# It calls nobody; a pod has these anyway.
SELECTIONS_URL=$(value services selections internal_url) CLIENT_SECRET=none LOG=error "$bin/crm" republish Deal >/dev/null
heard() { [ "$(deals agent)" = "$(deals crm)" ]; }
eventually 'agent hears of every deal' heard
held() { [ "$(sql "$DATABASE_URL" agent 'select count(*) from deal where held_since is not null')" = 0 ]; }
eventually '[3] no deal is held' held

step 'the verdict'
"$bin/chaos" verify || fail 'it does not add up'
"$bin/demo" demo >/dev/null || fail 'the demo, afterwards'
step 'mended'
