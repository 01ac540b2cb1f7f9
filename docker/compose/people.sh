#!/bin/sh
# Creates or updates users of Keycloak from the claims that identity has for them. The password is `password`.
#   people.sh NAME=USER_ID…
# Runs in a container of docker/compose.yaml. Without arguments: the users of a new platform.
set -eu

: "${KEYCLOAK:=http://keycloak.localhost:8081}" "${IDENTITY:=http://identity:8081}"
# Without arguments, waits until olga is the administrator of the platform.
[ $# -gt 0 ] || set -- olga="$ADMINISTRATOR" anna=01980000-0000-7000-8000-00000000a001 boris=01980000-0000-7000-8000-00000000a002

# member NAME: prints a text or a list of a JSON object on one line.
member() { sed -nE "s/.*\"$1\": *(\"[^\"]*\"|\[[^]]*\]).*/\1/p"; }
# token REALM FORM…: prints an access token.
token() {
  realm=$1
  shift
  curl --silent --show-error --fail "$KEYCLOAK/realms/$realm/protocol/openid-connect/token" "$@" | member access_token | tr -d '"'
}

for person in "$@"; do
  name=${person%%=*} id=${person#*=} tries=60
  while true; do
    machine=$(token platform --data grant_type=client_credentials --user issuer:issuer-dev-secret) || machine=
    claims=$(curl --silent --show-error --fail --header "Authorization: Bearer $machine" "$IDENTITY/api/v1/internal/users/$id/claims") || claims=
    company=$(printf %s "$claims" | member CompanyId) permissions=$(printf %s "$claims" | member Permissions)
    if [ -n "$permissions" ] && { [ -n "$company" ] || [ "$id" != "$ADMINISTRATOR" ]; }; then break; fi
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || { echo "$name: identity has no claims: $claims" >&2; exit 1; }
    sleep 2
  done
  admin=$(token master --data grant_type=password --data client_id=admin-cli --data username=admin --data password=admin)
  cat >/tmp/import.json <<EOF
{"ifResourceExists": "OVERWRITE", "users": [{"id": "$id", "username": "$name", "email": "$name@example.com", "enabled": true,
  "attributes": {"company_id": [$company], "permissions": $permissions}, "credentials": [{"type": "password", "value": "password"}]}]}
EOF
  curl --silent --show-error --fail --output /dev/null --header "Authorization: Bearer $admin" --json @/tmp/import.json \
    "$KEYCLOAK/admin/realms/platform/partialImport"
  cat >/tmp/client.json <<'EOF'
{"clientId": "front-end", "publicClient": true, "standardFlowEnabled": true, "directAccessGrantsEnabled": true, "fullScopeAllowed": false,
  "redirectUris": ["http://localhost:3000/*", "http://localhost:4200/*", "http://localhost:5173/*", "http://127.0.0.1:8080/*"],
  "webOrigins": ["http://localhost:3000", "http://localhost:4200", "http://localhost:5173", "http://127.0.0.1:8080"],
  "attributes": {"pkce.code.challenge.method": "S256"}, "defaultClientScopes": ["person"], "optionalClientScopes": []}
EOF
  # 409 if the client exists.
  status=$(curl --silent --show-error --output /dev/null --write-out '%{http_code}' --header "Authorization: Bearer $admin" \
    --json @/tmp/client.json "$KEYCLOAK/admin/realms/platform/clients")
  case $status in 201 | 409) ;; *) echo "the client front-end: $status" >&2; exit 1 ;; esac
  echo "$name can sign in"
done
