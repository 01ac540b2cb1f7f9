{{- /* The topics of a service and its user with permissions, for the Strimzi operator. */}}

{{- define "lib.strimzi.metadata" -}}
{{- $strimzi := .root.Values.app.strimzi -}}
metadata:
  name: {{ .name }}
  namespace: {{ $strimzi.namespace | default .root.Release.Namespace }}
  labels:
    {{- include "lib.labels" .root | nindent 4 }}
    strimzi.io/cluster: {{ required "app.strimzi.cluster must be set" $strimzi.cluster }}
{{- end }}

{{- define "lib.strimzi" -}}
{{- $root := . -}}
{{- $strimzi := .Values.app.strimzi -}}
{{- $declared := include "lib.declared" . | fromYaml -}}
{{- $suffix := (include "lib.config" . | fromYaml).KAFKA_GROUP_SUFFIX | default "" -}}
{{- $outside := list -}}
{{- range $declared.topics }}
{{- if and (hasPrefix "external." .name) (not (hasSuffix ".dlq" .name)) }}{{ $outside = append $outside .name }}{{ end -}}
apiVersion: kafka.strimzi.io/v1
kind: KafkaTopic
{{ include "lib.strimzi.metadata" (dict "root" $root "name" .name) }}
  annotations:
    # Uninstalling the release deletes this resource and keeps the topic with its messages.
    helm.sh/resource-policy: keep
spec:
  partitions: {{ .partitions }}
  replicas: {{ .replicas }}
  config:
    {{- range $name, $value := .config }}
    {{ $name }}: {{ $value | quote }}
    {{- end }}
---
{{ end -}}
apiVersion: kafka.strimzi.io/v1
kind: KafkaUser
{{ include "lib.strimzi.metadata" (dict "root" . "name" (include "lib.fullname" .)) }}
spec:
  authentication: {type: {{ $strimzi.authentication }}}
  authorization:
    type: simple
    acls:
      {{- range $declared.publishes }}
      - {resource: {type: topic, name: {{ . }}, patternType: literal}, operations: [Describe, Write]}
      {{- end }}
      {{- $groups := list -}}
      {{- range $declared.consumes }}
      {{- $groups = append $groups .group }}
      - {resource: {type: topic, name: {{ .topic }}, patternType: literal}, operations: [Describe, Read]}
      {{- end }}
      {{- range $groups | uniq }}
      - {resource: {type: group, name: {{ . }}{{ $suffix }}, patternType: literal}, operations: [Describe, Read]}
      {{- end }}
{{- with $outside }}
---
# For the publisher outside the platform.
apiVersion: kafka.strimzi.io/v1
kind: KafkaUser
{{ include "lib.strimzi.metadata" (dict "root" $root "name" (printf "%s-external" (include "lib.fullname" $root))) }}
spec:
  authentication: {type: {{ $strimzi.authentication }}}
  authorization:
    type: simple
    acls:
      {{- range . }}
      - {resource: {type: topic, name: {{ . }}, patternType: literal}, operations: [Describe, Write]}
      {{- end }}
{{- end }}
{{- end }}
