{{- /* The area's PostgreSQL, for the CloudNativePG operator: a cluster of its own, so that it is restored by itself. */}}

{{- define "lib.cnpg.cluster" -}}
{{ .Values.app.cnpg.name | default (printf "%s-db" (include "lib.fullname" .)) }}
{{- end }}

{{- /* {root, name} */}}
{{- define "lib.cnpg.metadata" -}}
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "lib.labels" .root | nindent 4 }}
  annotations:
    # The data outlives the release.
    helm.sh/resource-policy: keep
{{- end }}

{{- define "lib.cnpg" -}}
{{- $cnpg := .Values.app.cnpg -}}
{{- $cluster := include "lib.cnpg.cluster" . -}}
{{- $area := include "lib.name" . -}}
{{- if and $cnpg.recover.from (not $cnpg.objectStore) }}{{ fail "app.cnpg.objectStore must be set where app.cnpg.recover.from is" }}{{ end -}}
{{- if eq $cnpg.recover.from $cluster }}{{ fail "app.cnpg.name must be another one than app.cnpg.recover.from: a cluster is not recovered from itself" }}{{ end -}}
apiVersion: postgresql.cnpg.io/v1
kind: Cluster
{{ include "lib.cnpg.metadata" (dict "root" . "name" $cluster) }}
spec:
  instances: {{ $cnpg.instances }}
  storage: {size: {{ $cnpg.storage }}}
  enableSuperuserAccess: false
  {{- with $cnpg.resources }}
  resources:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  bootstrap:
    {{- if $cnpg.recover.from }}
    recovery:
      source: origin
      database: {{ $area }}
      owner: {{ $area }}
      {{- with $cnpg.recover.to }}
      recoveryTarget: {targetTime: {{ . | quote }}}
      {{- end }}
  externalClusters:
    - name: origin
      plugin:
        name: barman-cloud.cloudnative-pg.io
        parameters: {barmanObjectName: {{ $cnpg.objectStore }}, serverName: {{ $cnpg.recover.from }}}
    {{- else }}
    initdb: {database: {{ $area }}, owner: {{ $area }}}
    {{- end }}
  managed:
    roles:
      - {name: {{ $area }}, ensure: present, login: true, comment: owns the schema of its area and nothing else}
  {{- with $cnpg.objectStore }}
  plugins:
    - name: barman-cloud.cloudnative-pg.io
      isWALArchiver: true
      parameters: {barmanObjectName: {{ . }}}
  {{- end }}
---
apiVersion: postgresql.cnpg.io/v1
kind: Database
{{ include "lib.cnpg.metadata" (dict "root" . "name" $cluster) }}
spec:
  cluster: {name: {{ $cluster }}}
  name: {{ $area }}
  owner: {{ $area }}
  databaseReclaimPolicy: retain
  schemas:
    - {name: {{ $area }}, owner: {{ $area }}}
{{- with $cnpg.objectStore }}
---
apiVersion: postgresql.cnpg.io/v1
kind: ScheduledBackup
{{ include "lib.cnpg.metadata" (dict "root" $ "name" $cluster) }}
spec:
  cluster: {name: {{ $cluster }}}
  schedule: {{ $cnpg.schedule | quote }}
  immediate: true
  method: plugin
  pluginConfiguration: {name: barman-cloud.cloudnative-pg.io}
{{- end }}
{{- end }}
