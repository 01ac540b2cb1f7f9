#!/usr/bin/env bash
# Checks the charts: lint, render, reject mistakes, compare with the expected manifests, validate.
#   helm/test.sh            check
#   helm/test.sh --update   write the expected manifests
# HELM is the helm binary. SCHEMAS and CRD_SCHEMAS are the kubeconform locations of the schemas of Kubernetes
# (its own default when unset) and of custom resources (which are skipped when unset).
set -euo pipefail
cd "$(dirname "$0")"

helm=${HELM:-helm}
kubernetes=${KUBERNETES_VERSION:-1.34.0}
update=${1:-}
command -v "$helm" >/dev/null || { echo 'helm is missing' >&2; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# In a copy, so that helm changes nothing here.
cp -R . "$work/helm"

passed=0 failed=0 skipped=0
ok() { passed=$((passed + 1)); echo "ok      $1"; }
bad() { failed=$((failed + 1)); echo "FAILED  $1"; [ ! -f "${2:-}" ] || sed 's/^/        /' "$2"; }
skip() { skipped=$((skipped + 1)); echo "skipped $1"; }
# check NAME COMMAND…: the command must succeed.
check() { if "${@:2}" >"$work/log" 2>&1; then ok "$1"; else bad "$1" "$work/log"; fi; }
# has FILE KIND WORDS…: each of WORDS is in a manifest of this kind in the file.
has() {
  local file=$1 kind=$2 words
  for words in "${@:3}"; do
    awk -v RS='---\n' -v kind="\nkind: $kind\n" '$0 ~ kind' "$file" | grep -F -- "$words" >/dev/null || { echo "no $kind has: $words"; return 1; }
  done
}
# lacks FILE KIND WORDS: no manifest of this kind has WORDS.
lacks() { ! has "$@" >/dev/null; }
# refuse NAME CHART WORDS FLAG…: rendering must fail with an error that contains WORDS.
refuse() {
  local values=default
  [ "$2" != platform ] || values=platform
  if render "$2" "$values" "${@:4}" >"$work/log" 2>&1; then bad "$1: was accepted"
  elif grep -qF -- "$3" "$work/log"; then ok "$1"
  else bad "$1: refused for another reason" "$work/log"; fi
}
# values NAME: sets `flags` to those of ci/NAME.yaml. production.yaml is for released charts, so it has no image.
values() {
  flags=(--values "ci/$1.yaml")
  [ "$1" != production ] || flags+=(--values ci/image.yaml)
}
render() {
  local flags
  values "$2"
  quietly "$helm" template "$1" "$work/helm/$1" --namespace platform --kube-version "$kubernetes" "${flags[@]}" "${@:3}"
}
# notes CHART RELEASE VALUES: prints the notes after an install.
notes() {
  quietly "$helm" install "$2" "$work/helm/$1" --namespace platform --dry-run=client --values "ci/$3.yaml" | sed -n '/^NOTES:/,$p'
}
# quietly COMMAND…: leaves out the lines about the links in charts/.
quietly() { { "$@" 2>&1 1>&3 | { grep -v 'found symbolic link' >&2 || true; }; } 3>&1; }

# Validates the rendered manifests with the installed tools.
validate() {
  local name=$1 file=$2
  if command -v kubeconform >/dev/null && ! $schemas; then
    skip "$name: schemas (kubeconform cannot fetch them: no internet)"
  elif command -v kubeconform >/dev/null; then
    local flags=(-strict -summary -kubernetes-version "$kubernetes" -schema-location "${SCHEMAS:-default}")
    if [ -n "${CRD_SCHEMAS:-}" ]; then
      flags+=(-schema-location "$CRD_SCHEMAS")
    else
      flags+=(-skip 'Cluster,Database,ExternalSecret,HTTPRoute,KafkaTopic,KafkaUser,PodMonitor,PrometheusRule,ScaledObject,ScheduledBackup')
      skip "$name: custom resources (CRD_SCHEMAS names no schemas)"
    fi
    check "$name: kubeconform" kubeconform "${flags[@]}" "$file"
  elif command -v kubernetes-validate >/dev/null; then
    # It cannot validate custom resources. Helm writes `---` and a comment before each document.
    awk -v RS='---\n' '!/\napiVersion: [a-z.]*(cnpg\.io|coreos\.com|external-secrets\.io|gateway\.networking\.k8s\.io|keda\.sh|strimzi\.io)\// && NF { print "---\n" $0 }' \
      "$file" >"$work/core.yaml"
    check "$name: kubernetes-validate" kubernetes-validate -k "${kubernetes%.*}" --strict "$work/core.yaml"
    skip "$name: custom resources (kubernetes-validate does not know them)"
  else
    skip "$name: schemas (neither kubeconform nor kubernetes-validate is there)"
  fi
}

# kubeconform fetches schemas, unless SCHEMAS is a folder.
schemas=true
case ${SCHEMAS:-https://raw.githubusercontent.com} in
  http*) ! command -v kubeconform >/dev/null || curl --silent --head --max-time 10 --output /dev/null "${SCHEMAS:-https://raw.githubusercontent.com}" || schemas=false ;;
esac

services=()
for chart in */Chart.yaml; do
  chart=${chart%/Chart.yaml}
  case $chart in lib | platform) ;; *) services+=("$chart") ;; esac
done

# inspect CHART VALUES…: lints and renders a chart with each of ci/VALUES.yaml and validates the result.
inspect() {
  # Charts work from a clone, before and after this command.
  check "$1: renders from a clone" render "$1" "$2"
  check "$1: dependencies" "$helm" dependency update "$work/helm/$1"
  local name flags
  for name in "${@:2}"; do
    values "$name"
    check "$1, $name: lint" "$helm" lint --strict "$work/helm/$1" "${flags[@]}"
    if render "$1" "$name" >"$work/$1-$name.yaml" 2>"$work/log"; then
      ok "$1, $name: renders"
      validate "$1, $name" "$work/$1-$name.yaml"
    else
      bad "$1, $name: renders" "$work/log"
    fi
  done
}

for service in "${services[@]}"; do inspect "$service" default production everything; done
inspect platform platform

for service in "${services[@]}"; do
  refuse "$service: a typo at the top" "$service" 'replcas' --set replcas=1
  refuse "$service: a typo below app" "$service" 'replcas' --set app.serve.replcas=1
  refuse "$service: a variable that the service does not read" "$service" 'LOGG' --set app.config.LOGG=debug
  refuse "$service: a typo in a network peer" "$service" 'podSelecto' \
    --set 'app.networkPolicy.ingress.public[0].podSelecto.matchLabels.a=b'
  refuse "$service: no secret" "$service" 'app.existingSecret must be set' --set app.existingSecret=
  refuse "$service: no registry" "$service" 'app.image.registry' --set app.image.registry=
  refuse "$service: no broker" "$service" 'app.config.KAFKA_BROKERS' --set app.config.KAFKA_BROKERS=
  if grep -q '^consumes: \[\]$' "$service/declared.yaml"; then skip "$service: more workers than partitions (it consumes nothing)"
  else
    refuse "$service: more workers than partitions" "$service" 'app.work.keda.maxReplicas' \
      --set app.work.keda.enabled=true --set app.work.keda.maxReplicas=99
  fi
  refuse "$service: maxReplicas below minReplicas" "$service" 'app.serve.autoscaling.minReplicas' \
    --set app.serve.autoscaling.enabled=true --set app.serve.autoscaling.minReplicas=9
  refuse "$service: a text instead of a number" "$service" '/serve/autoscaling/maxReplicas' --set app.serve.autoscaling.maxReplicas=many
  gateway='app.networkPolicy.ingress.public=[{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"gateway"}}}]'
  refuse "$service: a route whose Gateway may not connect" "$service" 'app.networkPolicy.ingress.public must select the pods of the Gateway' \
    --set app.httpRoute.enabled=true
  refuse "$service: a route without its Gateway" "$service" 'app.httpRoute.parentRefs' --set app.httpRoute.enabled=true --set-json "$gateway"
  refuse "$service: a route without a path" "$service" 'app.httpRoute.paths' --set app.httpRoute.enabled=true --set-json "$gateway" \
    --set 'app.httpRoute.parentRefs[0].name=public' --set-json 'app.httpRoute.paths=[]'
  refuse "$service: a route without trusted proxies" "$service" 'app.config.TRUSTED_PROXIES' --set app.httpRoute.enabled=true \
    --set-json "$gateway" --set 'app.httpRoute.parentRefs[0].name=public'
  refuse "$service: a timeout without its unit" "$service" '/httpRoute/timeouts/request' --set-string app.httpRoute.timeouts.request=30
  refuse "$service: a setting of the service in extraEnv" "$service" 'app.extraEnv: LOG belongs to the service; set app.config.LOG' \
    --set 'app.extraEnv[0].name=LOG' --set 'app.extraEnv[0].value=debug'
  refuse "$service: a variable twice" "$service" 'app.extraEnv: HTTPS_PROXY is set' --set app.config.HTTPS_PROXY=http://proxy:3128 \
    --set 'app.extraEnv[0].name=HTTPS_PROXY' --set 'app.extraEnv[0].value=x'
  refuse "$service: a volume with the name of the chart's" "$service" 'app.extraVolumes: app is a volume of the chart' --set 'app.extraVolumes[0].name=app'
  refuse "$service: two volumes at /tmp" "$service" 'app.extraVolumeMounts: /tmp' --set app.temporaryFiles=1Gi \
    --set 'app.extraVolumes[0].name=scratch' --set 'app.extraVolumeMounts[0].name=scratch' --set 'app.extraVolumeMounts[0].mountPath=/tmp'
  refuse "$service: two sources of trusted certificates" "$service" 'app.trustedCA' --set app.trustedCA.configMap=a --set app.trustedCA.secret=b
  refuse "$service: connections as a parameter of PostgreSQL" "$service" 'set app.cnpg.maxConnections' \
    --set app.cnpg.enabled=true --set-string app.cnpg.parameters.max_connections=50
  refuse "$service: a PostgreSQL that is too old" "$service" '/cnpg/major' --set app.cnpg.major=14
  refuse "$service: Strimzi without its Kafka" "$service" 'app.strimzi.cluster' --set app.strimzi.enabled=true
  refuse "$service: an authentication that Strimzi does not support" "$service" '/strimzi/authentication' --set app.strimzi.authentication=password
  refuse "$service: a size without its unit" "$service" '/cnpg/storage' --set app.cnpg.storage=lots
  refuse "$service: a database recovered from its own cluster" "$service" 'app.cnpg.recover.from' \
    --set app.cnpg.enabled=true --set app.cnpg.objectStore=backups --set app.cnpg.name=db --set app.cnpg.recover.from=db
  refuse "$service: fewer connections than its pods may open" "$service" 'app.cnpg.maxConnections is 100' \
    --set app.cnpg.enabled=true --set app.cnpg.maxConnections=100 \
    --set app.serve.autoscaling.enabled=true --set app.serve.autoscaling.maxReplicas=12
  refuse "$service: a recovered database without an object store" "$service" 'app.cnpg.objectStore' \
    --set app.cnpg.enabled=true --set app.cnpg.recover.from=before
  refuse "$service: a migration before its database" "$service" 'app.migration.mode' --set app.migration.mode=hook --set app.cnpg.enabled=true
  refuse "$service: partitions of an unknown topic" "$service" 'app.strimzi.partitions: the service neither' \
    --set-json 'app.strimzi.partitions={"platform.unknown.v1":24}'
  topic=$(sed -n '/^topics:/,/^$/ { s/.*{name: \(platform[^,]*\.v1\), partitions: 12,.*/\1/p }' "$service/declared.yaml" | head -n 1)
  refuse "$service: fewer partitions than declared" "$service" 'Kafka removes none' --set-json "app.strimzi.partitions={\"$topic\":6}"
  render "$service" default --set app.strimzi.enabled=true --set app.strimzi.cluster=kafka \
    --set-json "app.strimzi.partitions={\"$topic\":24}" >"$work/grown.yaml"
  check "$service: a grown topic" has "$work/grown.yaml" KafkaTopic 'partitions: 24' 'partitions: 12'
  refuse "$service: an external secret without a store" "$service" 'app.externalSecret.store.name' \
    --set app.externalSecret.enabled=true --set app.externalSecret.path=area
  refuse "$service: an external secret without a path" "$service" 'app.externalSecret.path' \
    --set app.externalSecret.enabled=true --set app.externalSecret.store.name=vault
  refuse "$service: a migration before its secret" "$service" 'app.migration.mode' --set app.migration.mode=hook \
    --set app.externalSecret.enabled=true --set app.externalSecret.store.name=vault --set app.externalSecret.path=area
  refuse "$service: a haste below 1" "$service" '/prometheusRule/haste' --set app.prometheusRule.haste=0

  everything=$work/$service-everything.yaml default=$work/$service-default.yaml
  check "$service: pods have what the values add" has "$everything" Deployment 'name: OTEL_EXPORTER_OTLP_HEADERS' 'name: OTEL_TRACES_SAMPLER' \
    'name: scratch' 'mountPath: /run/trusted-ca' '{key: bundle.pem, path: ca.crt}' 'value: "/run/trusted-ca"' 'name: HTTPS_PROXY' \
    'kubernetes.io/arch: amd64' 'key: dedicated' 'nodeAffinity:' 'priorityClassName: platform' 'example.com/owner: area'
  check "$service: a Service has its annotations" has "$everything" Service 'example.com/lb: internal'
  check "$service: a route has its filters, timeouts and retries" has "$everything" HTTPRoute 'example.com/route: "1"' \
    'type: RequestHeaderModifier' 'backendRequest: 10s' 'attempts: 2' 'value: /api/stream' 'timeouts: {request: 0s}'
  check "$service: only pods of the namespace may connect by default" has "$default" NetworkPolicy '- podSelector: {}'
  check "$service: the database is within the cluster or a private network by default" has "$default" NetworkPolicy 'cidr: 10.0.0.0/8'
  check "$service: no collector, no rule for it" lacks "$default" NetworkPolicy '# otlp'
  check "$service: a rule for the collector" has "$work/$service-production.yaml" NetworkPolicy '# otlp'
  check "$service: may connect to its own database only" has "$everything" NetworkPolicy "cnpg.io/cluster: $service-db"
  check "$service: may connect to its Kafka only" has "$everything" NetworkPolicy 'strimzi.io/cluster: kafka'
  check "$service: a database of a known version with resources" has "$everything" Cluster 'imageName: registry.example.com/postgresql:17' \
    'shared_buffers: "256MB"' 'topologyKey: topology.kubernetes.io/zone' 'memory: 1Gi'
  check "$service: trusts the authority of its database" has "$everything" Deployment 'name: DATABASE_CA_FILE' 'key: ca.crt'
  check "$service: limits the requests of each user" has "$everything" Deployment 'name: ACTOR_REQUESTS_PER_MINUTE' \
    'name: ACTOR_EXPENSIVE_REQUESTS_PER_MINUTE'
  check "$service: an archive of its own name" has "$everything" Cluster '{barmanObjectName: backups, serverName: area-17}'
  check "$service: a volume for temporary files" has "$everything" Deployment 'emptyDir: {sizeLimit: 64Mi}' '{name: temporary-files, mountPath: /tmp}'
  render "$service" default --set app.cnpg.enabled=true >"$work/small.yaml"
  render "$service" default --set app.cnpg.enabled=true --set app.serve.replicas=0 --set app.work.replicas=4 >"$work/large.yaml"
  check "$service: the same connections for other numbers of replicas" \
    test "$(grep 'max_connections:' "$work/small.yaml")" = "$(grep 'max_connections:' "$work/large.yaml")"
  check "$service: metrics of the database" has "$everything" PodMonitor "cnpg.io/cluster: $service-db"
  check "$service: an alert on the age of the last backup" has "$everything" PrometheusRule 'alert: BackupOld' '> 108000'
  render "$service" default --set app.cnpg.enabled=true --set app.cnpg.objectStore=backups --set app.cnpg.imageCatalog=postgresql >"$work/database.yaml"
  check "$service: an image of a catalog" has "$work/database.yaml" Cluster 'name: postgresql, major: 17}'
  sed -n 's/^  schedule: //p' "$work/database.yaml" >>"$work/schedules"
  if grep -q '^consumes: \[\]$' "$service/declared.yaml"; then check "$service: KEDA has no fallback without a topic" lacks "$everything" ScaledObject fallback
  else check "$service: KEDA removes no replica while it cannot read the lag" has "$everything" ScaledObject 'behavior: currentReplicasIfHigher'; fi
  notes "$service" "$service" default >"$work/notes"
  check "$service: notes say how to reach it" grep -F "port-forward service/$service 8080:80" "$work/notes"
  check "$service: notes say who may connect" grep -F 'app.networkPolicy.ingress.public' "$work/notes"
  check "$service: a README in the package" grep -q "^# $service" "$service/README.md"
  if awk -v RS='---\n' '/\nkind: Deployment\n/' "$everything" | grep -q '^  replicas:'; then bad "$service: replicas beside an autoscaler"
  else ok "$service: an autoscaler alone owns replicas"; fi
  check "$service: is in the umbrella" grep "^  name: platform-$service-serve$" "$work/platform-platform.yaml"
  render platform platform --set "$service.enabled=false" >"$work/without.yaml"
  if grep -q "^  name: platform-$service" "$work/without.yaml"; then bad "$service: switched off in the umbrella"
  else ok "$service: switched off in the umbrella"; fi
done
check 'backups do not all start at once' test "$(sort -u "$work/schedules" | wc -l)" -ge $((${#services[@]} - 1))
check 'crm: a volume for temporary files' has "$work/crm-default.yaml" Deployment 'emptyDir: {sizeLimit: 1Gi}'
render selections default --set app.migration.mode=hook --set app.migration.deadlineSeconds=600 >"$work/hook.yaml"
check 'selections: a deadline of the migration' has "$work/hook.yaml" Job 'activeDeadlineSeconds: 600'
check 'messenger: a stream has a rule without a timeout' has "$work/messenger-production.yaml" HTTPRoute 'value: /api/messenger/stream' 'timeouts: {request: 0s}'
check 'messenger: no LiveKit, no rule for it' lacks "$work/messenger-default.yaml" NetworkPolicy '# livekit'
render messenger default --set app.config.LIVEKIT_API_URL=http://livekit:7880 >"$work/livekit.yaml"
check 'messenger: a rule for LiveKit' has "$work/livekit.yaml" NetworkPolicy '# livekit'
check 'news: calls to services bypass the proxy' has "$work/news-everything.yaml" Deployment 'value: ".cluster.local,selections-internal"'
notes platform try platform >"$work/notes"
check 'platform: notes say how to reach a service' grep -F 'port-forward service/try-messenger 8080:80' "$work/notes"
# Packages of a release name the images by digest. Without a README in the package, a registry shows nothing.
digest=sha256:$(printf 'a%.0s' {1..64})
for name in news platform; do
  released=(news) below=app config=app.config
  [ "$name" = news ] || released=("${services[@]}") below=news.app config=global.config
  check "$name: a package of a release" env HELM="$helm" ./package.sh "$name" 1.2.3 ghcr.io/owner/repository https://example.com/repository "$work" "${released[@]/%/=$digest}"
  check "$name: a README in the package" tar xzOf "$work/$name-1.2.3.tgz" "$name/README.md"
  "$helm" template released "$work/$name-1.2.3.tgz" --set "$below.existingSecret=news,$below.prometheusRule.enabled=true" \
    --set "$config.KAFKA_BROKERS=kafka:9092,$config.AUTH_ISSUER=https://id.example.com" >"$work/released.yaml"
  check "$name: a released image" has "$work/released.yaml" Deployment "image: ghcr.io/owner/repository/news@$digest" 'version: "1.2.3"'
  check "$name: no other image" bash -c '! grep " image:" "$1" | grep -v "ghcr.io/owner/repository/.*@$2"' - "$work/released.yaml" "$digest"
  check "$name: links to the runbooks of the release" has "$work/released.yaml" PrometheusRule "runbook_url: https://example.com/repository/blob/$name-v1.2.3/docs/runbooks/alerts.md#servicedown"
done
if command -v python3 >/dev/null; then
  check 'every value has a description and is in helm/lib/README.md' python3 -c '
import json
page = open("lib/README.md").read()
def walk(schema, path):
    missing = []
    for name, value in schema.get("properties", {}).items():
        inner = f"{path}.{name}" if path else name
        if not value.get("description"): missing.append(f"{inner}: no description")
        if inner.count(".") < 2 and path not in ("secretKeys", "extraEnv") and f"`app.{inner}" not in page: missing.append(f"{inner}: not in the README")
        missing += walk(value, inner) + walk(value.get("items", {}), inner)
        extra = value.get("additionalProperties")
        for one in (extra if isinstance(extra, dict) else {}).get("oneOf", []): missing += walk(one, inner)
    return missing
schema = json.load(open("lib/values.schema.json"))
missing = walk({"properties": {name: one for name, one in schema["properties"].items() if name != "global"}}, "")
for name, one in schema["definitions"].items():
    for inner, value in one["properties"].items():
        if not value.get("description"): missing.append(f"{name}.{inner}: no description")
platform = json.load(open("platform/values.schema.json"))["properties"]["global"]["properties"]
missing += [f"global.{name}: no description" for name, one in platform.items() if not one.get("description")]
assert not missing, missing
'
else
  skip 'descriptions of values (python3 is not there)'
fi
# Dashboards are valid JSON without unreplaced placeholders.
if command -v python3 >/dev/null; then
  render platform platform --set global.dashboard.enabled=true >"$work/dashboards.yaml"
  for file in "$work"/*-everything.yaml "$work/dashboards.yaml"; do
    sed -n '/-dashboard\.json: |-$/,/^---/ { /^    /p }' "$file" >"$work/dashboard.json"
    check "$(basename "$file"): a dashboard" python3 -c '
import json, sys
panels = json.load(open(sys.argv[1]))["panels"]
lines = [target["expr"] for panel in panels for target in panel.get("targets", [])]
assert len(lines) > 10, lines
assert not [line for line in lines if "job=" not in line or "{OF" in line], lines
' "$work/dashboard.json"
  done
else
  skip 'dashboards (python3 is not there)'
fi

# No two services declare the same topic as their own.
for topic in $(sed -n 's/^  - \(platform\..*\)$/\1/p' ./*/declared.yaml | sort | uniq -d); do bad "$topic: two services publish to it"; done

# The full manifests of one service in production. Other services differ only in values.
expected=ci/selections.expected.yaml
if [ "$update" = --update ]; then cp "$work/selections-production.yaml" "$expected"; fi
check 'selections: production is as expected (else: helm/test.sh --update)' \
  diff -u "$expected" "$work/selections-production.yaml"

# Alerts: promtool checks the rules of each service. It tests those of agent, and one of chessboard.
if command -v promtool >/dev/null; then
  for service in "${services[@]}"; do
    awk -v RS='---\n' '/\nkind: PrometheusRule\n/' "$work/$service-everything.yaml" | sed '1,/^spec:/d; s/^  //' >"$work/alerts.yaml"
    check "$service: alerts" promtool check rules "$work/alerts.yaml"
    cp "$work/alerts.yaml" "$work/$service-alerts.yaml"
  done
  cp "$work/agent-alerts.yaml" "$work/alerts.yaml"
  cp ci/alerts.test.yaml ci/chessboard-alerts.test.yaml "$work"
  check 'alerts fire as tested' promtool test rules "$work/alerts.test.yaml" "$work/chessboard-alerts.test.yaml"
else
  skip 'alerts (promtool is not there)'
fi
for alert in $(sed -n 's/^ *- alert: //p' "$work"/*-everything.yaml | sort -u); do
  check "$alert has its runbook" grep -qx "## $alert" ../docs/runbooks/alerts.md
done

# A database with standbys is synchronous unless it is switched off.
for flags in '' '--set app.cnpg.synchronous=false' '--set app.cnpg.instances=1'; do
  # shellcheck disable=SC2086
  render agent default --set app.cnpg.enabled=true $flags >"$work/database.yaml"
  found=$(grep -c 'synchronous: {method: any, number: 1, dataDurability: required}' "$work/database.yaml" || true)
  if [ "$found" = "$([ -z "$flags" ] && echo 1 || echo 0)" ]; then ok "agent: synchronous replication ${flags:-by default}"
  else bad "agent: synchronous replication ${flags:-by default}" "$work/database.yaml"; fi
done

# The URL of a callee in separate releases and in the common release.
check 'news: calls selections of its own release' \
  grep -q 'value: "http://selections-internal"' "$work/news-default.yaml"
check 'news: calls selections in the umbrella' \
  grep -q 'value: "http://platform-selections-internal"' "$work/platform-platform.yaml"
check 'selections: takes calls there' grep -q '^  name: platform-selections-internal$' "$work/platform-platform.yaml"

refuse 'platform: a variable that not every service reads' platform 'CLIENT_ID' --set global.config.CLIENT_ID=x
refuse 'platform: an unknown service' platform 'selectoins' --set selectoins.app.serve.replicas=1
refuse 'platform: a typo in global' platform 'imageRegistri' --set global.imageRegistri=x
refuse 'platform: a typo below a service' platform 'replcas' --set "${services[0]}.app.serve.replcas=1"

echo
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
