{{- define "lib.hpa" -}}
{{- $scaling := .root.Values.app.serve.autoscaling -}}
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
{{- if gt (int $keda.maxReplicas) (int $keda.partitions) -}}
{{- fail "app.work.keda.maxReplicas is more than the topics' partitions: the rest would idle" -}}
{{- end -}}
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
  # While the lag cannot be read.
  fallback: {failureThreshold: 3, replicas: {{ $keda.minReplicas }}}
  advanced:
    horizontalPodAutoscalerConfig:
      behavior:
        # Each change of the group's size costs a rebalance.
        scaleDown: {stabilizationWindowSeconds: 300}
  triggers:
    - type: cpu
      metricType: Utilization
      metadata: {value: {{ $keda.cpuUtilization | int64 | toString | quote }}}
    {{- range $keda.triggers }}
    - type: kafka
      metricType: AverageValue
      metadata:
        bootstrapServers: {{ required "app.config.KAFKA_BROKERS must be set for KEDA" $brokers | quote }}
        consumerGroup: {{ .consumerGroup }}{{ $suffix }}
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
  # A pod that is not ready anyhow must not hold up a drain.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "lib.selector" .root | nindent 6 }}
      app.kubernetes.io/component: {{ .role }}
{{- end }}
