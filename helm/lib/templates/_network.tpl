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

{{- define "lib.networkPolicy" -}}
{{- $app := .Values.app -}}
{{- $policy := $app.networkPolicy -}}
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
    {{- if and $app.internal.enabled $app.internal.callers }}
    - ports: [{port: 8081}]
      from:
        - podSelector:
            matchExpressions:
              - {key: app.kubernetes.io/name, operator: In, values: {{ toJson $app.internal.callers }}}
              - {key: app.kubernetes.io/part-of, operator: In, values: [platform]}
    {{- end }}
    {{- with $policy.ingress.admin }}
    - ports: [{port: 9090}]
      from:
        {{- toYaml . | nindent 8 }}
    {{- end }}
  egress:
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
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
{{ include "lib.metadata" (dict "root" .) }}
spec:
  parentRefs:
    {{- required "app.httpRoute.parentRefs must name a Gateway" $route.parentRefs | toYaml | nindent 4 }}
  {{- with $route.hostnames }}
  hostnames:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  rules:
    - matches:
        {{- range required "app.httpRoute.paths must not be empty" $route.paths }}
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
