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
  if render "$2" default "${@:4}" >"$work/log" 2>&1; then bad "$1: was accepted"
  elif grep -qF -- "$3" "$work/log"; then ok "$1"
  else bad "$1: refused for another reason" "$work/log"; fi
}
render() {
  "$helm" template "$1" "$work/helm/$1" --namespace platform --kube-version "$kubernetes" \
    --values "$1/ci/$2.yaml" "${@:3}"
}

# Validates what is rendered, as far as the tools at hand go.
validate() {
  local name=$1 file=$2
  if command -v kubeconform >/dev/null; then
    local flags=(-strict -summary -kubernetes-version "$kubernetes" -schema-location "${SCHEMAS:-default}")
    if [ -n "${CRD_SCHEMAS:-}" ]; then
      flags+=(-schema-location "$CRD_SCHEMAS")
    else
      flags+=(-skip 'HTTPRoute,PodMonitor,ScaledObject')
      skip "$name: custom resources (CRD_SCHEMAS names no schemas)"
    fi
    check "$name: kubeconform" kubeconform "${flags[@]}" "$file"
  elif command -v kubernetes-validate >/dev/null; then
    # It knows no custom resources. Helm puts `---` and a comment before each document.
    awk -v RS='---\n' '!/\napiVersion: [a-z.]*(keda\.sh|coreos\.com|gateway\.networking\.k8s\.io)\// && NF { print "---\n" $0 }' \
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

for chart in "${areas[@]}" platform; do
  check "$chart: dependencies" "$helm" dependency update "$work/helm/$chart"
  for values in "$chart"/ci/*.yaml; do
    case $values in *.expected.yaml) continue ;; esac
    name=$(basename "$values" .yaml)
    check "$chart, $name: lint" "$helm" lint --strict "$work/helm/$chart" --values "$values"
    if render "$chart" "$name" >"$work/$chart-$name.yaml" 2>"$work/log"; then
      ok "$chart, $name: renders"
      validate "$chart, $name" "$work/$chart-$name.yaml"
    else
      bad "$chart, $name: renders" "$work/log"
    fi
  done
done

for area in "${areas[@]}"; do
  refuse "$area: a typo at the top" "$area" 'replcas' --set replcas=1
  refuse "$area: a typo below app" "$area" 'replcas' --set app.serve.replcas=1
  refuse "$area: a variable that the service does not read" "$area" 'LOGG' --set app.config.LOGG=debug
  refuse "$area: a typo in a network peer" "$area" 'podSelecto' \
    --set 'app.networkPolicy.ingress.public[0].podSelecto.matchLabels.a=b'
  refuse "$area: no secret" "$area" 'app.existingSecret must be set' --set app.existingSecret=
  refuse "$area: no registry" "$area" 'app.image.registry' --set app.image.registry=
  refuse "$area: no broker" "$area" 'app.config.KAFKA_BROKERS' --set app.config.KAFKA_BROKERS=
  refuse "$area: more workers than partitions" "$area" 'partitions' \
    --set app.work.keda.enabled=true --set app.work.keda.maxReplicas=99

  # Listeners and the database's URL are the chart's own business.
  sed -n 's/^| `\([A-Z][A-Z0-9_]*\)` .*/\1/p' "../services/$area/README.md" \
    | grep -v -e '_LISTEN$' -e '^DATABASE_URL$' | sort >"$work/documented"
  grep -oE '"[A-Z][A-Z0-9_]+"' "$area/values.schema.json" | tr -d '"' | sort >"$work/accepted"
  check "$area: takes the variables that the service's README documents" \
    diff -u "$work/documented" "$work/accepted"

  expected=$area/ci/production.expected.yaml
  if [ "$update" = --update ]; then cp "$work/$area-production.yaml" "$expected"; fi
  check "$area: production is as expected (else: helm/test.sh --update)" \
    diff -u "$expected" "$work/$area-production.yaml"

  if grep -q '^  replicas:' "$work/$area-everything.yaml"; then bad "$area: replicas beside an autoscaler"
  else ok "$area: an autoscaler alone owns replicas"; fi
  render platform default | grep -q "^  name: platform-$area-serve$" || bad "$area: is not in the umbrella"
  if render platform default --set "$area.enabled=false" | grep -q "platform-$area"; then
    bad "$area: switched off in the umbrella"
  else
    ok "$area: switched off in the umbrella"
  fi
done
refuse 'platform: a typo in global' platform 'imageRegistri' --set global.imageRegistri=x
refuse 'platform: a typo below an area' platform 'replcas' --set "${areas[0]}.app.serve.replcas=1"

echo
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
