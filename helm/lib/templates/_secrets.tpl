{{- /* {root, name, path, keys}: a Secret that the External Secrets operator creates from a store. */}}
{{- define "lib.externalSecret" -}}
{{- $external := .root.Values.app.externalSecret -}}
apiVersion: external-secrets.io/v1
kind: ExternalSecret
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "lib.labels" .root | nindent 4 }}
spec:
  refreshInterval: {{ $external.refreshInterval }}
  secretStoreRef: {kind: {{ $external.store.kind }}, name: {{ required "app.externalSecret.store.name must be set" $external.store.name }}}
  target: {name: {{ .name }}, creationPolicy: Owner}
  data:
    {{- $path := required "app.externalSecret.path must be set (and migratorPath, where a migrator has a Secret of its own)" .path }}
    {{- range .keys }}
    - {secretKey: {{ . }}, remoteRef: {key: {{ $path }}, property: {{ . }}}}
    {{- end }}
{{- end }}

{{- define "lib.externalSecrets" -}}
{{- $app := .Values.app -}}
{{- if eq $app.migration.mode "hook" }}{{ fail "app.externalSecret.enabled: app.migration.mode hook needs Secrets that are there before the release" }}{{ end -}}
{{- include "lib.externalSecret" (dict "root" . "name" (required "app.existingSecret must be set" $app.existingSecret) "path" $app.externalSecret.path "keys" (include "lib.mountedKeys" . | fromYamlArray)) }}
{{- with $app.migration.existingSecret }}
---
{{ include "lib.externalSecret" (dict "root" $ "name" . "path" $app.externalSecret.migratorPath "keys" (list "DATABASE_URL")) }}
{{- end }}
{{- end }}
