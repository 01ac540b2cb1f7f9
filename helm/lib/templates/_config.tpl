{{- /* The environment variables of a service. */}}

{{- /* The list of variables from the Secret. */}}
{{- define "lib.secretKeys" -}}
{{- $keys := list -}}
{{- range $name, $on := .Values.app.secretKeys -}}
{{- if $on -}}{{- $keys = append $keys $name -}}{{- end -}}
{{- end -}}
{{ toYaml $keys }}
{{- end }}

{{- /* The list of variables from the service's own Secret: with CloudNativePG, all but the database URL. */}}
{{- define "lib.mountedKeys" -}}
{{- $keys := include "lib.secretKeys" . | fromYamlArray -}}
{{- if .Values.app.cnpg.enabled }}{{ $keys = without $keys "DATABASE_URL" }}{{ end -}}
{{ toYaml $keys }}
{{- end }}

{{- /* The environment as YAML: the URLs of the callees, overridden by global.config, then by app.config. */}}
{{- define "lib.config" -}}
{{- $app := .Values.app -}}
{{- $secret := include "lib.secretKeys" . | fromYamlArray -}}
{{- $shared := (.Values.global).config | default dict -}}
{{- include "lib.config.known" (dict "names" (concat $app.variables.common $app.variables.own $app.variables.standard) "config" $app.config "of" "app.config") -}}
{{- include "lib.config.known" (dict "names" (concat $app.variables.common $app.variables.standard) "config" $shared "of" "global.config") -}}
{{- /* The time until every proxy has removed the pod, and limits that no person reaches. */}}
{{- $config := dict "HTTP_DRAIN_SECONDS" "5" "ACTOR_REQUESTS_PER_MINUTE" "600" "ACTOR_EXPENSIVE_REQUESTS_PER_MINUTE" "120" -}}
{{- if $app.strimzi.enabled }}{{ $_ := set $config "KAFKA_TOPICS" "elsewhere" }}{{ end -}}
{{- if or $app.trustedCA.configMap $app.trustedCA.secret }}{{ $_ := set $config "SSL_CERT_DIR" "/run/trusted-ca" }}{{ end -}}
{{- $callees := list -}}
{{- range $callee := (include "lib.declared" . | fromYaml).calls -}}
{{- $host := printf "%s-internal" (include "lib.fullname" $ | replace $.Chart.Name $callee) -}}
{{- $callees = append $callees $host -}}
{{- $_ := set $config (printf "%s_URL" (upper $callee)) (printf "http://%s" $host) -}}
{{- end -}}
{{- /* Not `merge`, which treats false and 0 as absent. */}}
{{- range $layer := list $shared $app.config -}}
{{- range $name, $value := $layer -}}
{{- /* Numbers arrive as floats, and a large one would be printed as 5e+06. */}}
{{- $_ := set $config $name (ternary ($value | int64 | toString) ($value | toString) (kindIs "float64" $value)) -}}
{{- end -}}
{{- end -}}
{{- /* Calls between services do not leave the cluster. */}}
{{- if or $config.HTTP_PROXY $config.HTTPS_PROXY -}}
{{- with join "," (concat (compact (list $config.NO_PROXY)) $callees) }}{{ $_ := set $config "NO_PROXY" . }}{{ end -}}
{{- end -}}
{{- range $name := list "KAFKA_BROKERS" "AUTH_ISSUER" -}}
{{- if not (or (get $config $name) (has $name $secret)) -}}
{{- fail (printf "app.config.%s (or global.config.%s) must be set" $name $name) -}}
{{- end -}}
{{- end -}}
{{ toYaml $config }}
{{- end }}

{{- /* {names, config, of}: rejects variables that the service does not read. */}}
{{- define "lib.config.known" -}}
{{- range $name, $_ := .config -}}
{{- if not (has $name $.names) -}}
{{- fail (printf "%s.%s: the service reads no such variable" $.of $name) -}}
{{- end -}}
{{- end -}}
{{- end }}
