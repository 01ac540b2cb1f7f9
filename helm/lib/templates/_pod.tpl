{{- /* Common parts of all pods of a service: both roles and the migration. */}}

{{- define "lib.pod.security" -}}
automountServiceAccountToken: false
# Service links would set variables with the prefixes of our settings.
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.app.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end }}

{{- /* {root, command, volume}: a container without its resources. */}}
{{- define "lib.container" -}}
{{- $app := .root.Values.app -}}
image: {{ include "lib.image" .root }}
imagePullPolicy: {{ $app.image.pullPolicy }}
args: [{{ .command }}]
env:
  {{- range $name, $value := include "lib.config" .root | fromYaml }}
  - name: {{ $name }}
    value: {{ $value | quote }}
  {{- end }}
  {{- range include "lib.secretKeys" .root | fromYamlArray }}
  - name: {{ . }}_FILE
    value: /run/secrets/{{ if and (eq . "DATABASE_URL") (eq $.volume "migrator") }}migrator{{ else }}app{{ end }}/{{ . }}
  {{- end }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
volumeMounts:
  - {name: app, mountPath: /run/secrets/app, readOnly: true}
  {{- if eq .volume "migrator" }}
  - {name: migrator, mountPath: /run/secrets/migrator, readOnly: true}
  {{- end }}
{{- end }}

{{- define "lib.migrate.container" -}}
{{- $migrator := ternary "migrator" "app" (ne .root.Values.app.migration.existingSecret "") -}}
- name: migrate
  {{- include "lib.container" (dict "root" .root "command" "migrate" "volume" $migrator) | nindent 2 }}
  resources:
    {{- toYaml .resources | nindent 4 }}
{{- end }}

{{- /* {root, migrates} */}}
{{- define "lib.volumes" -}}
{{- $app := .root.Values.app -}}
{{- $keys := include "lib.mountedKeys" .root | fromYamlArray -}}
- name: app
  {{- if $app.cnpg.enabled }}
  projected:
    defaultMode: 0440
    sources:
      - secret:
          # The operator creates this Secret with the cluster.
          name: {{ include "lib.cnpg.cluster" .root }}-app
          items:
            - {key: uri, path: DATABASE_URL}
      {{- if $keys }}
      - secret:
          name: {{ required "app.existingSecret must be set" $app.existingSecret }}
          items:
            {{- range $keys }}
            - {key: {{ . }}, path: {{ . }}}
            {{- end }}
      {{- end }}
  {{- else }}
  secret:
    secretName: {{ required "app.existingSecret must be set" $app.existingSecret }}
    defaultMode: 0440
    items:
      {{- range $keys }}
      - {key: {{ . }}, path: {{ . }}}
      {{- end }}
  {{- end }}
{{- if and .migrates $app.migration.existingSecret }}
- name: migrator
  secret:
    secretName: {{ $app.migration.existingSecret }}
    defaultMode: 0440
    items:
      - {key: DATABASE_URL, path: DATABASE_URL}
{{- end }}
{{- end }}
