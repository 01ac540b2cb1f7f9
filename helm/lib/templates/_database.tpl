{{- /* A PostgreSQL cluster of the service, for the CloudNativePG operator, so that it can be restored alone. */}}

{{- define "lib.cnpg.cluster" -}}
{{ .Values.app.cnpg.name | default (printf "%s-db" (include "lib.fullname" .)) }}
{{- end }}

{{- /* The largest number of connections that the pods open: during a rolling update each role has one pod more.
The largest numbers of replicas count without an autoscaler, too. PostgreSQL restarts if the sum changes, so it must not change with replicas that an
operator adds. */}}
{{- define "lib.cnpg.connections" -}}
{{- $app := .Values.app -}}
{{- $config := include "lib.config" . | fromYaml -}}
{{- $pool := int ($config.DATABASE_POOL_SIZE | default 16) -}}
{{- $lookups := mul (ternary 2 1 $app.internal.enabled) (int ($config.HTTP_WORKERS | default 2)) -}}
{{- $serve := add 1 (max (int $app.serve.replicas) (int $app.serve.autoscaling.maxReplicas)) -}}
{{- $work := add 1 (max (int $app.work.replicas) (int $app.work.keda.maxReplicas)) -}}
{{- /* Beside its pool each pod has a connection for readiness, `serve` those for lookups, and `work` the relay's. Each pod of
`messenger` has one for the wake-ups of streams, and `serve` one for the comparison with a read replica. */ -}}
{{- $pool = ternary (add $pool 1) $pool (eq .Chart.Name "messenger") -}}
{{- $comparison := ternary 1 0 (or (hasKey $config "DATABASE_READ_URL") (has "DATABASE_READ_URL" (include "lib.secretKeys" . | fromYamlArray))) -}}
{{- add (mul $serve (add $pool $lookups 1 $comparison)) (mul $work (add $pool 2)) -}}
{{- end }}

{{- /* {root, name} */}}
{{- define "lib.cnpg.metadata" -}}
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "lib.labels" .root | nindent 4 }}
  annotations:
    # Uninstalling the release keeps the data.
    helm.sh/resource-policy: keep
{{- end }}

{{- /* A daily time for base backups, so that clusters do not all start at once. */}}
{{- define "lib.cnpg.schedule" -}}
{{- $hash := adler32sum (printf "%s/%s" .Release.Namespace (include "lib.cnpg.cluster" .)) | int64 -}}
{{ .Values.app.cnpg.schedule | default (printf "0 %d %d * * *" (mod $hash 60) (add 1 (mod (div $hash 60) 4))) }}
{{- end }}

{{- define "lib.cnpg" -}}
{{- $cnpg := .Values.app.cnpg -}}
{{- $cluster := include "lib.cnpg.cluster" . -}}
{{- $name := include "lib.name" . -}}
{{- if and $cnpg.recover.from (not $cnpg.objectStore) }}{{ fail "app.cnpg.objectStore must be set where app.cnpg.recover.from is" }}{{ end -}}
{{- /* The Job runs before the operator has created the database and its Secret. */}}
{{- if eq .Values.app.migration.mode "hook" }}{{ fail "app.cnpg.enabled: app.migration.mode hook needs a database that is there before the release" }}{{ end -}}
{{- if eq $cnpg.recover.from ($cnpg.archive | default $cluster) }}{{ fail "app.cnpg.recover.from is the archive of the cluster itself: set another app.cnpg.name or app.cnpg.archive" }}{{ end -}}
{{- $connections := int (include "lib.cnpg.connections" .) -}}
{{- /* Migrations, commands, the operator, and people who look. */ -}}
{{- $needed := add $connections 20 -}}
{{- $max := int ($cnpg.maxConnections | default $needed) -}}
{{- if lt $max (int $needed) }}{{ fail (printf "app.cnpg.maxConnections is %d, but the pods and 20 others may open %d connections" $max $needed) }}{{ end -}}
{{- if hasKey $cnpg.parameters "max_connections" }}{{ fail "app.cnpg.parameters.max_connections: set app.cnpg.maxConnections" }}{{ end -}}
apiVersion: postgresql.cnpg.io/v1
kind: Cluster
{{ include "lib.cnpg.metadata" (dict "root" . "name" $cluster) }}
spec:
  instances: {{ $cnpg.instances }}
  {{- if $cnpg.imageCatalog }}
  imageCatalogRef: {apiGroup: postgresql.cnpg.io, kind: ClusterImageCatalog, name: {{ $cnpg.imageCatalog }}, major: {{ $cnpg.major }}}
  {{- else }}
  imageName: {{ $cnpg.repository }}:{{ $cnpg.major }}
  {{- end }}
  {{- with $cnpg.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  storage: {size: {{ $cnpg.storage }}}
  enableSuperuserAccess: false
  postgresql:
    parameters:
      max_connections: {{ $max | quote }}
      {{- range $name, $value := $cnpg.parameters }}
      {{ $name }}: {{ $value | quote }}
      {{- end }}
    {{- if and $cnpg.synchronous (gt (int $cnpg.instances) 1) }}
    # A commit waits for a standby, so that a failover loses no transaction.
    synchronous: {method: any, number: 1, dataDurability: required}
    {{- end }}
  {{- with $cnpg.resources }}
  resources:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  bootstrap:
    {{- if $cnpg.recover.from }}
    recovery:
      source: origin
      database: {{ $name }}
      owner: {{ $name }}
      {{- with $cnpg.recover.to }}
      recoveryTarget: {targetTime: {{ . | quote }}}
      {{- end }}
  externalClusters:
    - name: origin
      plugin:
        name: barman-cloud.cloudnative-pg.io
        parameters: {barmanObjectName: {{ $cnpg.objectStore }}, serverName: {{ $cnpg.recover.from }}}
    {{- else }}
    initdb: {database: {{ $name }}, owner: {{ $name }}}
    {{- end }}
  managed:
    roles:
      - {name: {{ $name }}, ensure: present, login: true, comment: owns the schema of its service and nothing else}
  {{- with $cnpg.objectStore }}
  plugins:
    - name: barman-cloud.cloudnative-pg.io
      isWALArchiver: true
      parameters: {barmanObjectName: {{ . }}{{ with $cnpg.archive }}, serverName: {{ . }}{{ end }}}
  {{- end }}
---
apiVersion: postgresql.cnpg.io/v1
kind: Database
{{ include "lib.cnpg.metadata" (dict "root" . "name" $cluster) }}
spec:
  cluster: {name: {{ $cluster }}}
  name: {{ $name }}
  owner: {{ $name }}
  databaseReclaimPolicy: retain
  schemas:
    - {name: {{ $name }}, owner: {{ $name }}}
{{- with $cnpg.objectStore }}
---
apiVersion: postgresql.cnpg.io/v1
kind: ScheduledBackup
{{ include "lib.cnpg.metadata" (dict "root" $ "name" $cluster) }}
spec:
  cluster: {name: {{ $cluster }}}
  schedule: {{ include "lib.cnpg.schedule" $ | quote }}
  immediate: true
  method: plugin
  pluginConfiguration: {name: barman-cloud.cloudnative-pg.io}
{{- end }}
{{- end }}

{{- define "lib.cnpg.podMonitor" -}}
{{- $monitor := .Values.app.podMonitor -}}
{{- $cluster := include "lib.cnpg.cluster" . -}}
apiVersion: monitoring.coreos.com/v1
kind: PodMonitor
metadata:
  name: {{ $cluster }}
  namespace: {{ .Release.Namespace }}
  labels:
    {{- include "lib.labels" . | nindent 4 }}
    {{- with $monitor.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  selector:
    matchLabels: {cnpg.io/cluster: {{ $cluster }}}
  podMetricsEndpoints:
    - {port: metrics, interval: {{ $monitor.interval }}}
{{- end }}
