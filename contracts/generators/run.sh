#!/usr/bin/env bash
# Generates a client from each OpenAPI document with four generators, and compiles it.
#   contracts/generators/run.sh [SERVICE…|platform]
# Needs node, python3, go, a JDK and Maven. The folder WORK keeps the tools and the clients.
set -euo pipefail
cd "$(dirname "$0")"

go_generator=github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2
java_generator=org.openapitools:openapi-generator-cli:7.25.0

here=$PWD
documents=$(cd ../openapi && pwd)
work=${WORK:-$(mktemp -d)}
mkdir -p "$work"
services=("$@")
[ $# -gt 0 ] || for document in "$documents"/*; do document=${document##*/}; services+=("${document%.*}"); done

# Prints the path of a document: YAML of a service, JSON of the platform.
document() { printf '%s' "$documents/$1".*; }

for tool in npm python3 go java mvn; do
  command -v "$tool" >/dev/null || { echo "$tool is missing" >&2; exit 1; }
done

passed=0 failed=0
# check NAME COMMAND…: the command must succeed.
check() {
  local log=$work/log
  if "${@:2}" >"$log" 2>&1; then
    passed=$((passed + 1)); echo "ok      $1"
  else
    failed=$((failed + 1)); echo "FAILED  $1"; tail -n 40 "$log" | sed 's/^/        /'
  fi
}

install() {
  cp package.json "$work/"
  npm install --prefix "$work" --no-audit --no-fund --silent
  [ -d "$work/python" ] || python3 -m venv "$work/python"
  "$work/python/bin/pip" install --quiet --requirement requirements.txt
  GOBIN=$work/bin go install "$go_generator"
  mvn --quiet dependency:copy -Dartifact="$java_generator" -DoutputDirectory="$work/java"
}

# The steps of each function are joined, since `set -e` has no effect in a condition.

# TypeScript: the types of the document compile in strict mode.
typescript() {
  local folder=$work/typescript/$1
  mkdir -p "$folder" &&
    "$work/node_modules/.bin/openapi-typescript" "$(document "$1")" --output "$folder/api.ts" &&
    "$work/node_modules/.bin/tsc" --strict --noEmit --target es2022 --module nodenext \
      --moduleResolution nodenext "$folder/api.ts"
}

# Go: a client and its types.
golang() {
  local module=$work/go
  mkdir -p "$module/$1" &&
    "$work/bin/oapi-codegen" -generate types,client -package "$1" -o "$module/$1/api.go" "$(document "$1")" &&
    { [ -f "$module/go.mod" ] || (cd "$module" && go mod init clients); } &&
    (cd "$module" && go mod tidy && go build "./$1")
}

# Python: every operation and every schema, without a warning. Enums keep values that the document
# does not have.
python() {
  local folder=$work/clients/$1
  mkdir -p "$work/clients" &&
    PATH=$work/python/bin:$PATH openapi-python-client generate --path "$(document "$1")" --meta none \
      --output-path "$folder" --custom-template-path "$here/python-templates" --config "$here/openapi-python-client.yaml" --overwrite --fail-on-warning &&
    "$work/python/bin/python" -m compileall -q "$folder" &&
    PYTHONPATH=$work "$work/python/bin/python" "$here/unknown_values.py" "clients.$1"
}

# Java: a client whose enums have a case for values that the document does not have.
java_client() {
  local folder=$work/clients-java/$1
  rm -rf "$folder" &&
    java -jar "$work"/java/openapi-generator-cli-*.jar generate --generator-name java --library native \
      --input-spec "$(document "$1")" --output "$folder" \
      --additional-properties enumUnknownDefaultCase=true,hideGenerationTimestamp=true,openApiNullable=false \
      --global-property apiTests=false,modelTests=false,apiDocs=false,modelDocs=false &&
    mvn --quiet --batch-mode --file "$folder/pom.xml" compile
}

install
for service in "${services[@]}"; do
  check "$service: openapi-typescript, tsc --strict" typescript "$service"
  check "$service: oapi-codegen, go build" golang "$service"
  check "$service: openapi-python-client" python "$service"
  check "$service: openapi-generator java, mvn compile" java_client "$service"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
