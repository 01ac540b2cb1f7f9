{{- /* Names and labels. Every helper takes the root context of the service, or {root, role}. */}}

{{- define "lib.name" -}}
{{ .Chart.Name }}
{{- end }}

{{- define "lib.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "lib.selector" -}}
app.kubernetes.io/name: {{ include "lib.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* Labels of pods, without the version of the chart, which must not restart them. */}}
{{- define "lib.podLabels" -}}
{{ include "lib.selector" . }}
app.kubernetes.io/version: {{ .Values.app.image.tag | default .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: platform
{{- end }}

{{- define "lib.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "lib.podLabels" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "lib.metadata" -}}
{{- $name := include "lib.fullname" .root -}}
metadata:
  name: {{ if .role }}{{ $name }}-{{ .role }}{{ else }}{{ $name }}{{ end }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "lib.labels" .root | nindent 4 }}
    {{- with .role }}
    app.kubernetes.io/component: {{ . }}
    {{- end }}
{{- end }}

{{- define "lib.image" -}}
{{- $image := .Values.app.image -}}
{{- $registry := $image.registry | default (.Values.global).imageRegistry -}}
{{- $registry := required "app.image.registry (or global.imageRegistry) must be set" $registry -}}
{{- $repository := $image.repository | default (printf "platform/%s" .Chart.Name) -}}
{{- if $image.digest -}}
{{ $registry }}/{{ $repository }}@{{ $image.digest }}
{{- else -}}
{{ $registry }}/{{ $repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{- define "lib.serviceAccountName" -}}
{{- $account := .Values.app.serviceAccount -}}
{{- if $account.create -}}
{{ $account.name | default (include "lib.fullname" .) }}
{{- else -}}
{{ $account.name | default "default" }}
{{- end }}
{{- end }}
