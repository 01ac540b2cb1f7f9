#!/usr/bin/env bash
# Packs docker/compose.yaml of a release with the files that it reads.
#   docker/package.sh VERSION REGISTRY FILE
set -euo pipefail

file=$(realpath "$3")
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/docker"
# The released images. Nothing is built.
printf 'REGISTRY=%s\nVERSION=%s\nPULL_POLICY=missing\n' "$2" "$1" >"$work/docker/.env"
tar --create --gzip --file "$file" docker/compose.yaml docker/compose docker/README.md deploy/local/keycloak/realm.json deploy/kafka/topics.yaml \
  --directory "$work" docker/.env
