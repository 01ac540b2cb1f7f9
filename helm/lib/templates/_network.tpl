{{- /* {root, role: ""|internal, port} */}}
{{- define "lib.service" -}}
apiVersion: v1
kind: Service
{{ include "lib.metadata" . }}
spec:
  type: ClusterIP
  selector:
    {{- include "lib.selector" .root | nindent 4 }}
    app.kubernetes.io/component: serve
  ports:
    - {name: http, port: 80, targetPort: {{ .port }}, appProtocol: http}
{{- end }}

{{- /* A peer: the pods of the listed services. */}}
{{- define "lib.pods" -}}
- podSelector:
    matchExpressions:
      - {key: app.kubernetes.io/name, operator: In, values: {{ toJson . }}}
      - {key: app.kubernetes.io/part-of, operator: In, values: [platform]}
{{- end }}

{{- define "lib.networkPolicy" -}}
{{- $app := .Values.app -}}
{{- $policy := $app.networkPolicy -}}
{{- $declared := include "lib.declared" . | fromYaml -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
{{ include "lib.metadata" (dict "root" .) }}
spec:
  podSelector:
    matchLabels:
      {{- include "lib.selector" . | nindent 6 }}
  policyTypes: [Ingress, Egress]
  ingress:
    {{- with $policy.ingress.public }}
    - ports: [{port: 8080}]
      from:
        {{- toYaml . | nindent 8 }}
    {{- end }}
    {{- if and $app.internal.enabled (or $declared.callers $policy.ingress.internal) }}
    - ports: [{port: 8081}]
      from:
        {{- with $declared.callers }}
        {{- include "lib.pods" . | nindent 8 }}
        {{- end }}
        {{- with $policy.ingress.internal }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    {{- end }}
    {{- with $policy.ingress.admin }}
    - ports: [{port: 9090}]
      from:
        {{- toYaml . | nindent 8 }}
    {{- end }}
  egress:
    {{- with $declared.calls }}
    - ports: [{port: 8081}]
      to:
        {{- include "lib.pods" . | nindent 8 }}
    {{- end }}
    {{- range $name, $rule := $policy.egress }}
    # {{ $name }}
    - ports:
        {{- range $rule.ports }}
        - {port: {{ . }}, protocol: TCP}
        {{- if eq $name "dns" }}
        - {port: {{ . }}, protocol: UDP}
        {{- end }}
        {{- end }}
      {{- with $rule.to }}
      to:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    {{- end }}
{{- end }}

{{- define "lib.httpRoute" -}}
{{- $route := .Values.app.httpRoute -}}
{{- /* `required` accepts an empty list. */}}
{{- if not $route.parentRefs }}{{ fail "app.httpRoute.parentRefs must name a Gateway" }}{{ end -}}
{{- if not $route.paths }}{{ fail "app.httpRoute.paths must not be empty" }}{{ end -}}
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
{{ include "lib.metadata" (dict "root" .) }}
spec:
  parentRefs:
    {{- toYaml $route.parentRefs | nindent 4 }}
  {{- with $route.hostnames }}
  hostnames:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  rules:
    - matches:
        {{- range $route.paths }}
        - path: {type: PathPrefix, value: {{ . }}}
        {{- end }}
      backendRefs:
        - {name: {{ include "lib.fullname" . }}, port: 80}
{{- end }}

{{- define "lib.podMonitor" -}}
{{- $monitor := .Values.app.podMonitor -}}
apiVersion: monitoring.coreos.com/v1
kind: PodMonitor
{{ include "lib.metadata" (dict "root" .) }}
    {{- with $monitor.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  selector:
    matchLabels:
      {{- include "lib.selector" . | nindent 6 }}
  podMetricsEndpoints:
    - port: admin
      path: /metrics
      interval: {{ $monitor.interval }}
{{- end }}
