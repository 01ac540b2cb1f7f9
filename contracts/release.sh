#!/usr/bin/env bash
# Releases the contracts of services, together with the version of the services.
#   contracts/release.sh VERSION [SERVICE…]           writes the changelogs, then copies the documents to released/
#   contracts/release.sh --check VERSION [SERVICE…]   fails unless the above was done for this version
#   contracts/release.sh --notes VERSION [SERVICE…]   prints the sections of this version
# Without a service it takes all. Writing needs Go, for oasdiff.
set -euo pipefail
cd "$(dirname "$0")"

OASDIFF=v1.37.0

mode=--write
case "${1-}" in --check | --notes) mode=$1; shift ;; esac
version=${1:?VERSION is missing}
shift
services=("$@")
[ $# -gt 0 ] || for changelog in changelog/*.md; do services+=("$(basename "$changelog" .md)"); done

fail() { echo "$1" >&2; exit 1; }

# Prints the section of the version, without its title.
section() { awk -v title="## $version" '/^## /{ found = $1 " " $2 == title; next } found' "changelog/$1.md"; }

has_section() { grep -qE "^## ${version//./\\.}( |$)" "changelog/$1.md"; }

check() {
  local service=$1
  grep -qxF "  version: $version" "openapi/$service.yaml" \
    || fail "openapi/$service.yaml has another version: set that of services/$service/Cargo.toml to $version, and run cargo dev contracts"
  has_section "$service" || fail "changelog/$service.md has no $version: run contracts/release.sh $version $service"
  local kind
  for kind in openapi asyncapi; do
    cmp --quiet "$kind/$service.yaml" "released/$kind/$service.yaml" \
      || fail "released/$kind/$service.yaml is not the present document: run contracts/release.sh $version $service"
  done
}

write() {
  local service=$1 changes head
  ! has_section "$service" || fail "changelog/$service.md has $version already"
  changes=$("$tools/oasdiff" changelog "released/openapi/$service.yaml" "openapi/$service.yaml" \
    --format markdown --template changelog/section.tmpl)
  if ! cmp --quiet "asyncapi/$service.yaml" "released/asyncapi/$service.yaml"; then
    changes+=$'\n\nThe document of the events has changed, too.'
  fi
  [ -n "$changes" ] || changes='No changes.'
  # The title and the introduction, then the new section, then the earlier ones.
  head=$(sed '/^## /,$d' "changelog/$service.md")
  {
    printf '%s\n\n## %s (%s)\n\n%s\n\n' "$head" "$version" "$(date +%F)" "$(sed '/./,$!d' <<<"$changes")"
    sed -n '/^## /,$p' "changelog/$service.md"
  } >"$tools/changelog.md"
  mv "$tools/changelog.md" "changelog/$service.md"
  cp "openapi/$service.yaml" released/openapi/
  cp "asyncapi/$service.yaml" released/asyncapi/
}

if [ "$mode" = --write ]; then
  command -v go >/dev/null || fail 'go is missing'
  tools=$(mktemp -d)
  trap 'rm -rf "$tools"' EXIT
  GOBIN=$tools go install "github.com/oasdiff/oasdiff@$OASDIFF"
fi
for service in "${services[@]}"; do
  [ -f "changelog/$service.md" ] || fail "there is no service $service"
  case $mode in
    --check) check "$service" ;;
    --notes) printf '\n## Contract of %s\n%s\n' "$service" "$(section "$service")" ;;
    --write) write "$service" ;;
  esac
done
