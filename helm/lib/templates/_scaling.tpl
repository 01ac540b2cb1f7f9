{{- /* {of, bounds} */}}
{{- define "lib.scaling.bounds" -}}
{{- if gt (int .bounds.minReplicas) (int .bounds.maxReplicas) -}}
{{- fail (printf "%s.minReplicas is more than its maxReplicas" .of) -}}
{{- end -}}
{{- end }}

{{- define "lib.hpa" -}}
{{- $scaling := .root.Values.app.serve.autoscaling -}}
{{- include "lib.scaling.bounds" (dict "of" "app.serve.autoscaling" "bounds" $scaling) -}}
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
{{ include "lib.metadata" . }}
spec:
  scaleTargetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: {{ include "lib.fullname" .root }}-serve
  minReplicas: {{ $scaling.minReplicas }}
  maxReplicas: {{ $scaling.maxReplicas }}
  metrics:
    - type: Resource
      resource:
        name: cpu
        target: {type: Utilization, averageUtilization: {{ $scaling.cpuUtilization }}}
{{- end }}

{{- define "lib.scaledObject" -}}
{{- $keda := .root.Values.app.work.keda -}}
{{- $consumes := (include "lib.declared" .root | fromYaml).consumes -}}
{{- $partitions := 0 -}}
{{- range $consumes }}{{ $partitions = include "lib.partitions" (dict "root" $.root "topic" .topic "declared" .partitions) | int | max $partitions }}{{ end -}}
{{- if and $consumes (gt (int $keda.maxReplicas) (int $partitions)) -}}
{{- fail (printf "app.work.keda.maxReplicas is more than the topics' %d partitions: the rest would idle" (int $partitions)) -}}
{{- end -}}
{{- include "lib.scaling.bounds" (dict "of" "app.work.keda" "bounds" $keda) -}}
{{- $config := include "lib.config" .root | fromYaml -}}
{{- $brokers := $config.KAFKA_BROKERS -}}
{{- $suffix := $config.KAFKA_GROUP_SUFFIX | default "" -}}
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
{{ include "lib.metadata" . }}
spec:
  scaleTargetRef:
    name: {{ include "lib.fullname" .root }}-work
  minReplicaCount: {{ $keda.minReplicas }}
  maxReplicaCount: {{ $keda.maxReplicas }}
  {{- if $consumes }}
  # While the lag cannot be read, no replica is removed. The operator accepts a fallback only with a trigger besides cpu.
  fallback: {failureThreshold: 3, replicas: {{ $keda.minReplicas }}, behavior: currentReplicasIfHigher}
  {{- end }}
  advanced:
    horizontalPodAutoscalerConfig:
      behavior:
        # Each change of the group size causes a rebalance.
        scaleDown: {stabilizationWindowSeconds: 300}
  triggers:
    - type: cpu
      metricType: Utilization
      metadata: {value: {{ $keda.cpuUtilization | int64 | toString | quote }}}
    {{- range $consumes }}
    - type: kafka
      metricType: AverageValue
      metadata:
        bootstrapServers: {{ required "app.config.KAFKA_BROKERS must be set for KEDA" $brokers | quote }}
        consumerGroup: {{ .group }}{{ $suffix }}
        topic: {{ .topic }}
        lagThreshold: {{ $keda.lagThreshold | int64 | toString | quote }}
        limitToPartitionsWithLag: "true"
        offsetResetPolicy: earliest
      {{- with $keda.authenticationRef }}
      authenticationRef: {name: {{ . }}}
      {{- end }}
    {{- end }}
{{- end }}

{{- define "lib.pdb" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
{{ include "lib.metadata" . }}
spec:
  maxUnavailable: 1
  # Pods that are not ready do not block a drain.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "lib.selector" .root | nindent 6 }}
      app.kubernetes.io/component: {{ .role }}
{{- end }}
