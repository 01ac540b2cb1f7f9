#!/usr/bin/env bash
# Packs the chart of a release, whose values name the released images by digest.
#   helm/package.sh NAME VERSION REGISTRY URL FOLDER SERVICE=DIGEST…
# NAME is a service, or `platform` with the digests of all services. REGISTRY is a host with a path, URL the address of the repository.
set -euo pipefail
cd "$(dirname "$0")"

name=$1 version=$2 registry=$3 url=$4 folder=$(cd "$OLDPWD" && cd "$5" && pwd)
shift 5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The links in charts/ become folders.
cp -RL . "$work/helm"

chart=$work/helm/$name
# charts_of SERVICE: the folders of the chart of a service in the package.
charts_of() { if [ "$name" = platform ]; then echo "$chart/charts/$1"; else echo "$chart"; fi; }

for released in "$@"; do
  service=${released%%=*} digest=${released#*=}
  of=$(charts_of "$service")
  [[ $digest =~ ^sha256:[0-9a-f]{64}$ ]] || { echo "$service: $digest is no digest" >&2; exit 1; }
  sed -i "s|^app:\$|app:\n  image: {registry: ${registry%%/*}, repository: ${registry#*/}/$service, digest: \"$digest\"}|" "$of/values.yaml"
  sed -i "s|^  runbooks: docs/runbooks\b.*|  runbooks: $url/blob/$name-v$version/docs/runbooks|" "$of/charts/lib/values.yaml"
  sed -i "s|^appVersion: .*|appVersion: $version|" "$of/Chart.yaml"
  if ! grep -q "digest: \"$digest\"" "$of/values.yaml"; then echo "$service: values.yaml has no line 'app:'" >&2; exit 1; fi
done
printf 'home: %s\nsources: [%s]\n' "$url" "$url" >>"$chart/Chart.yaml"
"${HELM:-helm}" package "$chart" --version "$version" --app-version "$version" --destination "$folder"
