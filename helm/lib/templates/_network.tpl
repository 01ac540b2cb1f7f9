{{- /* {root, role: ""|internal, port} */}}
{{- define "lib.service" -}}
apiVersion: v1
kind: Service
{{ include "lib.metadata" . }}
  {{- with .root.Values.app.service.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
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

{{- /* {root, name, rule}: the peers of an egress rule as a YAML list. Without `to`, the pods that an operator creates for the service, otherwise all pods
of the cluster and the private networks. Some network plugins do not match pods by address. */}}
{{- define "lib.egress.peers" -}}
{{- $app := .root.Values.app -}}
{{- if kindIs "slice" .rule.to -}}
{{ toYaml .rule.to }}
{{- else if and (eq .name "postgres") $app.cnpg.enabled -}}
- podSelector: {matchLabels: {cnpg.io/cluster: {{ include "lib.cnpg.cluster" .root }}}}
{{- else if and (eq .name "kafka") $app.strimzi.enabled -}}
- namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: {{ $app.strimzi.namespace | default .root.Release.Namespace }}}}
  podSelector: {matchLabels: {strimzi.io/cluster: {{ $app.strimzi.cluster }}}}
{{- else -}}
- namespaceSelector: {}
{{- range $app.networkPolicy.privateNetworks }}
- ipBlock: {cidr: {{ . | quote }}}
{{- end }}
{{- end -}}
{{- end }}

{{- define "lib.networkPolicy" -}}
{{- $app := .Values.app -}}
{{- $policy := $app.networkPolicy -}}
{{- $declared := include "lib.declared" . | fromYaml -}}
{{- $variables := concat (keys (include "lib.config" . | fromYaml)) (include "lib.secretKeys" . | fromYamlArray) -}}
{{- if and $app.httpRoute.enabled (eq (toJson $policy.ingress.public) `[{"podSelector":{}}]`) -}}
{{- fail "app.networkPolicy.ingress.public must select the pods of the Gateway where app.httpRoute.enabled is true, for example [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: envoy-gateway-system}}}]" -}}
{{- end -}}
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
    {{- if not (and $rule.when (not (has $rule.when $variables))) }}
    # {{ $name }}
    - ports:
        {{- range $rule.ports }}
        - {port: {{ . }}, protocol: TCP}
        {{- if eq $name "dns" }}
        - {port: {{ . }}, protocol: UDP}
        {{- end }}
        {{- end }}
      {{- with include "lib.egress.peers" (dict "root" $ "name" $name "rule" $rule) | fromYamlArray }}
      to:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    {{- end }}
    {{- end }}
{{- end }}

{{- define "lib.httpRoute" -}}
{{- $route := .Values.app.httpRoute -}}
{{- /* `required` accepts an empty list. */}}
{{- if not $route.parentRefs }}{{ fail "app.httpRoute.parentRefs must name a Gateway" }}{{ end -}}
{{- if not $route.paths }}{{ fail "app.httpRoute.paths must not be empty" }}{{ end -}}
{{- if not (include "lib.config" . | fromYaml).TRUSTED_PROXIES -}}
{{- fail "app.config.TRUSTED_PROXIES (or global.config.TRUSTED_PROXIES) must name the addresses of the Gateway's pods where app.httpRoute.enabled is true, for example 10.42.7.0/24: otherwise all guests share one rate limit" -}}
{{- end -}}
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
{{ include "lib.metadata" (dict "root" .) }}
  {{- with $route.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
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
      {{- with $route.filters }}
      filters:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      backendRefs:
        - {name: {{ include "lib.fullname" . }}, port: 80}
      {{- with $route.timeouts }}
      timeouts:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $route.retry }}
      retry:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    {{- with $route.streams }}
    # Responses without an end. The longest matching path decides.
    - matches:
        {{- range . }}
        - path: {type: PathPrefix, value: {{ . }}}
        {{- end }}
      {{- with $route.filters }}
      filters:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      backendRefs:
        - {name: {{ include "lib.fullname" $ }}, port: 80}
      timeouts: {request: 0s}
    {{- end }}
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
