{{- /* The topics of a service and its user with permissions, for the Strimzi operator. */}}

{{- /* {root, topic, declared}: the number of partitions of a topic. */}}
{{- define "lib.partitions" -}}
{{ get .root.Values.app.strimzi.partitions .topic | default .declared | int64 }}
{{- end }}

{{- /* Rejects a number of partitions of an unknown topic, and one below the declared number: Kafka removes no partition. */}}
{{- define "lib.partitions.known" -}}
{{- $declared := include "lib.declared" . | fromYaml -}}
{{- $known := dict -}}
{{- range $declared.topics }}{{ $_ := set $known .name .partitions }}{{ end -}}
{{- range $declared.consumes }}{{ $_ := set $known .topic .partitions }}{{ end -}}
{{- range $topic, $partitions := .Values.app.strimzi.partitions -}}
{{- if not (hasKey $known $topic) }}{{ fail (printf "app.strimzi.partitions: the service neither creates nor consumes %s" $topic) }}{{ end -}}
{{- if lt (int $partitions) (int (get $known $topic)) }}{{ fail (printf "app.strimzi.partitions: %s is declared with more partitions, and Kafka removes none" $topic) }}{{ end -}}
{{- end -}}
{{- end }}

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
  partitions: {{ include "lib.partitions" (dict "root" $root "topic" .name "declared" .partitions) }}
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
