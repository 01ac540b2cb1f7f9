#!/usr/bin/env bash
# Checks the charts: lint, render, refuse mistakes, compare production with what is expected, validate.
#   helm/test.sh            check
#   helm/test.sh --update   write the expected manifests anew
# HELM names the helm to use. SCHEMAS and CRD_SCHEMAS are kubeconform's locations of the schemas of Kubernetes
# (its own default when unset) and of custom resources (which are skipped when unset).
set -euo pipefail
cd "$(dirname "$0")"

helm=${HELM:-helm}
kubernetes=${KUBERNETES_VERSION:-1.34.0}
update=${1:-}
command -v "$helm" >/dev/null || { echo 'helm is missing' >&2; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Dependencies are packed in a copy, so that the charts here stay as they are.
cp -R . "$work/helm"

passed=0 failed=0 skipped=0
ok() { passed=$((passed + 1)); echo "ok      $1"; }
bad() { failed=$((failed + 1)); echo "FAILED  $1"; [ ! -f "${2:-}" ] || sed 's/^/        /' "$2"; }
skip() { skipped=$((skipped + 1)); echo "skipped $1"; }
# check NAME COMMAND…: the command must succeed.
check() { if "${@:2}" >"$work/log" 2>&1; then ok "$1"; else bad "$1" "$work/log"; fi; }
# refuse NAME CHART WORDS FLAG…: rendering must fail, and say the words.
refuse() {
  local values=default
  [ "$2" != platform ] || values=platform
  if render "$2" "$values" "${@:4}" >"$work/log" 2>&1; then bad "$1: was accepted"
  elif grep -qF -- "$3" "$work/log"; then ok "$1"
  else bad "$1: refused for another reason" "$work/log"; fi
}
render() {
  "$helm" template "$1" "$work/helm/$1" --namespace platform --kube-version "$kubernetes" \
    --values "ci/$2.yaml" "${@:3}"
}

# Validates what is rendered, as far as the tools at hand go.
validate() {
  local name=$1 file=$2
  if command -v kubeconform >/dev/null; then
    local flags=(-strict -summary -kubernetes-version "$kubernetes" -schema-location "${SCHEMAS:-default}")
    if [ -n "${CRD_SCHEMAS:-}" ]; then
      flags+=(-schema-location "$CRD_SCHEMAS")
    else
      flags+=(-skip 'Cluster,Database,ExternalSecret,HTTPRoute,KafkaTopic,KafkaUser,PodMonitor,PrometheusRule,ScaledObject,ScheduledBackup')
      skip "$name: custom resources (CRD_SCHEMAS names no schemas)"
    fi
    check "$name: kubeconform" kubeconform "${flags[@]}" "$file"
  elif command -v kubernetes-validate >/dev/null; then
    # It knows no custom resources. Helm puts `---` and a comment before each document.
    awk -v RS='---\n' '!/\napiVersion: [a-z.]*(cnpg\.io|coreos\.com|external-secrets\.io|gateway\.networking\.k8s\.io|keda\.sh|strimzi\.io)\// && NF { print "---\n" $0 }' \
      "$file" >"$work/core.yaml"
    check "$name: kubernetes-validate" kubernetes-validate -k "${kubernetes%.*}" --strict "$work/core.yaml"
    skip "$name: custom resources (kubernetes-validate does not know them)"
  else
    skip "$name: schemas (neither kubeconform nor kubernetes-validate is there)"
  fi
}

areas=()
for chart in */Chart.yaml; do
  chart=${chart%/Chart.yaml}
  case $chart in lib | platform) ;; *) areas+=("$chart") ;; esac
done

# inspect CHART VALUES…: lints and renders a chart with each of ci/VALUES.yaml, and validates what comes out.
inspect() {
  check "$1: dependencies" "$helm" dependency update "$work/helm/$1"
  local name
  for name in "${@:2}"; do
    check "$1, $name: lint" "$helm" lint --strict "$work/helm/$1" --values "ci/$name.yaml"
    if render "$1" "$name" >"$work/$1-$name.yaml" 2>"$work/log"; then
      ok "$1, $name: renders"
      validate "$1, $name" "$work/$1-$name.yaml"
    else
      bad "$1, $name: renders" "$work/log"
    fi
  done
}

for area in "${areas[@]}"; do inspect "$area" default production everything; done
inspect platform platform

for area in "${areas[@]}"; do
  refuse "$area: a typo at the top" "$area" 'replcas' --set replcas=1
  refuse "$area: a typo below app" "$area" 'replcas' --set app.serve.replcas=1
  refuse "$area: a variable that the service does not read" "$area" 'LOGG' --set app.config.LOGG=debug
  refuse "$area: a typo in a network peer" "$area" 'podSelecto' \
    --set 'app.networkPolicy.ingress.public[0].podSelecto.matchLabels.a=b'
  refuse "$area: no secret" "$area" 'app.existingSecret must be set' --set app.existingSecret=
  refuse "$area: no registry" "$area" 'app.image.registry' --set app.image.registry=
  refuse "$area: no broker" "$area" 'app.config.KAFKA_BROKERS' --set app.config.KAFKA_BROKERS=
  if grep -q '^consumes: \[\]$' "$area/declared.yaml"; then skip "$area: more workers than partitions (it consumes nothing)"
  else
    refuse "$area: more workers than partitions" "$area" 'app.work.keda.maxReplicas' \
      --set app.work.keda.enabled=true --set app.work.keda.maxReplicas=99
  fi
  refuse "$area: fewer pods at most than at least" "$area" 'app.serve.autoscaling.minReplicas' \
    --set app.serve.autoscaling.enabled=true --set app.serve.autoscaling.minReplicas=9
  refuse "$area: a word for a number" "$area" '/serve/autoscaling/maxReplicas' --set app.serve.autoscaling.maxReplicas=many
  refuse "$area: a route without its Gateway" "$area" 'app.httpRoute.parentRefs' --set app.httpRoute.enabled=true
  refuse "$area: a route without a path" "$area" 'app.httpRoute.paths' --set app.httpRoute.enabled=true \
    --set 'app.httpRoute.parentRefs[0].name=public' --set-json 'app.httpRoute.paths=[]'
  refuse "$area: Strimzi without its Kafka" "$area" 'app.strimzi.cluster' --set app.strimzi.enabled=true
  refuse "$area: a way to prove oneself that Strimzi has not" "$area" '/strimzi/authentication' --set app.strimzi.authentication=password
  refuse "$area: a size without its unit" "$area" '/cnpg/storage' --set app.cnpg.storage=lots
  refuse "$area: a database recovered from itself" "$area" 'app.cnpg.recover.from' \
    --set app.cnpg.enabled=true --set app.cnpg.objectStore=backups --set app.cnpg.name=db --set app.cnpg.recover.from=db
  refuse "$area: a database recovered from nowhere" "$area" 'app.cnpg.objectStore' \
    --set app.cnpg.enabled=true --set app.cnpg.recover.from=before
  refuse "$area: a secret of no store" "$area" 'app.externalSecret.store.name' \
    --set app.externalSecret.enabled=true --set app.externalSecret.path=area
  refuse "$area: a secret of nowhere in its store" "$area" 'app.externalSecret.path' \
    --set app.externalSecret.enabled=true --set app.externalSecret.store.name=vault
  refuse "$area: a migration before its secret" "$area" 'app.migration.mode' --set app.migration.mode=hook \
    --set app.externalSecret.enabled=true --set app.externalSecret.store.name=vault --set app.externalSecret.path=area
  refuse "$area: slower than time" "$area" '/prometheusRule/haste' --set app.prometheusRule.haste=0

  if awk -v RS='---\n' '/\nkind: Deployment\n/' "$work/$area-everything.yaml" | grep -q '^  replicas:'; then bad "$area: replicas beside an autoscaler"
  else ok "$area: an autoscaler alone owns replicas"; fi
  check "$area: is in the umbrella" grep "^  name: platform-$area-serve$" "$work/platform-platform.yaml"
  render platform platform --set "$area.enabled=false" >"$work/without.yaml"
  if grep -q "^  name: platform-$area" "$work/without.yaml"; then bad "$area: switched off in the umbrella"
  else ok "$area: switched off in the umbrella"; fi
done
# Dashboards: Grafana reads them, and nothing in them was left to be filled in.
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

# Who may do what with a topic, and who is let in, is what services declare: nobody writes to another's topic.
for topic in $(sed -n 's/^  - \(platform\..*\)$/\1/p' ./*/declared.yaml | sort | uniq -d); do bad "$topic: two areas publish to it"; done

# One area's production in full; the others differ from it by their values.
expected=ci/selections.expected.yaml
if [ "$update" = --update ]; then cp "$work/selections-production.yaml" "$expected"; fi
check 'selections: production is as expected (else: helm/test.sh --update)' \
  diff -u "$expected" "$work/selections-production.yaml"

# Alerts: of each area they are rules that promtool reads, and of one they are told when they should be.
if command -v promtool >/dev/null; then
  for area in "${areas[@]}"; do
    awk -v RS='---\n' '/\nkind: PrometheusRule\n/' "$work/$area-everything.yaml" | sed '1,/^spec:/d; s/^  //' >"$work/alerts.yaml"
    check "$area: alerts" promtool check rules "$work/alerts.yaml"
    cp "$work/alerts.yaml" "$work/$area-alerts.yaml"
  done
  cp "$work/agent-alerts.yaml" "$work/alerts.yaml"
  cp ci/alerts.test.yaml "$work"
  check 'alerts are told when they should be' promtool test rules "$work/alerts.test.yaml"
else
  skip 'alerts (promtool is not there)'
fi
for alert in $(sed -n 's/^ *- alert: //p' "$work"/*-everything.yaml | sort -u); do
  check "$alert has its runbook" grep -qx "## $alert" ../docs/runbooks/alerts.md
done

# Where a callee is, in a release of its own and in one that all share.
check 'news: finds selections beside it' \
  grep -q 'value: "http://selections-internal"' "$work/news-default.yaml"
check 'news: finds selections in the umbrella' \
  grep -q 'value: "http://platform-selections-internal"' "$work/platform-platform.yaml"
check 'selections: takes calls there' grep -q '^  name: platform-selections-internal$' "$work/platform-platform.yaml"

refuse 'platform: a variable that not every service reads' platform 'CLIENT_ID' --set global.config.CLIENT_ID=x
refuse 'platform: an area that is not there' platform 'selectoins' --set selectoins.app.serve.replicas=1
refuse 'platform: a typo in global' platform 'imageRegistri' --set global.imageRegistri=x
refuse 'platform: a typo below an area' platform 'replcas' --set "${areas[0]}.app.serve.replcas=1"

echo
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
