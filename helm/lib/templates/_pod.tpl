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
{{- with .Values.app.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- range $name := list "nodeSelector" "tolerations" "affinity" }}
{{- with get $.Values.app $name }}
{{ $name }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{- /* {root, config, keys}: rejects additional parts of a pod that would replace those of the chart. */}}
{{- define "lib.pod.known" -}}
{{- $app := .root.Values.app -}}
{{- $of := concat $app.variables.common $app.variables.own -}}
{{- range $app.extraEnv -}}
{{- if or (has .name $of) (hasSuffix "_LISTEN" .name) (hasSuffix "_FILE" .name) -}}
{{- fail (printf "app.extraEnv: %s belongs to the service; set app.config.%s or app.secretKeys.%s" .name .name .name) -}}
{{- end -}}
{{- if hasKey $.config .name }}{{ fail (printf "app.extraEnv: %s is set by app.config, global.config or app.trustedCA already" .name) }}{{ end -}}
{{- end -}}
{{- range concat $app.extraVolumes $app.extraVolumeMounts -}}
{{- if has .name (list "app" "migrator" "trusted-ca" "temporary-files") -}}
{{- fail (printf "app.extraVolumes: %s is a volume of the chart; choose another name" .name) -}}
{{- end -}}
{{- if and $app.temporaryFiles (eq (.mountPath | default "") "/tmp") -}}
{{- fail "app.extraVolumeMounts: /tmp is the volume of app.temporaryFiles" -}}
{{- end -}}
{{- end -}}
{{- if and $app.trustedCA.configMap $app.trustedCA.secret -}}
{{- fail "app.trustedCA: set either configMap or secret" -}}
{{- end -}}
{{- end }}

{{- /* {root, command, volume}: a container without its resources. */}}
{{- define "lib.container" -}}
{{- $app := .root.Values.app -}}
{{- $config := include "lib.config" .root | fromYaml -}}
{{- include "lib.pod.known" (dict "root" .root "config" $config) -}}
image: {{ include "lib.image" .root }}
imagePullPolicy: {{ $app.image.pullPolicy }}
args: [{{ .command }}]
env:
  {{- range $name, $value := $config }}
  - name: {{ $name }}
    value: {{ $value | quote }}
  {{- end }}
  {{- range include "lib.secretKeys" .root | fromYamlArray }}
  - name: {{ . }}_FILE
    value: /run/secrets/{{ if and (eq . "DATABASE_URL") (eq $.volume "migrator") }}migrator{{ else }}app{{ end }}/{{ . }}
  {{- end }}
  {{- if $app.cnpg.enabled }}
  - {name: DATABASE_CA_FILE, value: /run/secrets/app/DATABASE_CA}
  {{- end }}
  {{- with $app.extraEnv }}
  {{- toYaml . | nindent 2 }}
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
  {{- if $config.SSL_CERT_DIR | default "" | eq "/run/trusted-ca" }}
  - {name: trusted-ca, mountPath: /run/trusted-ca, readOnly: true}
  {{- end }}
  {{- if $app.temporaryFiles }}
  - {name: temporary-files, mountPath: /tmp}
  {{- end }}
  {{- with $app.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
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
      - secret:
          # The authority that issued the certificate of the server.
          name: {{ include "lib.cnpg.cluster" .root }}-ca
          items:
            - {key: ca.crt, path: DATABASE_CA}
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
{{- with $app.trustedCA.configMap }}
- name: trusted-ca
  configMap:
    name: {{ . }}
    items:
      - {key: {{ $app.trustedCA.key }}, path: ca.crt}
{{- end }}
{{- with $app.trustedCA.secret }}
- name: trusted-ca
  secret:
    secretName: {{ . }}
    items:
      - {key: {{ $app.trustedCA.key }}, path: ca.crt}
{{- end }}
{{- with $app.temporaryFiles }}
- name: temporary-files
  emptyDir: {sizeLimit: {{ . }}}
{{- end }}
{{- with $app.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}
