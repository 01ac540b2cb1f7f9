{{- /* The text after an install of a service: how to reach it, and what is left to do. */}}
{{- define "lib.notes" -}}
{{- $app := .Values.app -}}
{{- $name := include "lib.fullname" . -}}
{{- $kubectl := printf "kubectl --namespace %s" .Release.Namespace -}}
{{ .Chart.Name }} {{ .Chart.AppVersion }} is installed as {{ $name }}.

Wait until it is ready:

  {{ $kubectl }} rollout status deployment/{{ $name }}-serve deployment/{{ $name }}-work

Pods that wait for a Secret name it in `{{ $kubectl }} describe pod`.

Reach its API:
{{ if $app.httpRoute.enabled }}
  {{ range ($app.httpRoute.hostnames | default (list "the address of the Gateway")) }}{{ . }} {{ end }}with the paths {{ join " " $app.httpRoute.paths }}
{{- end }}
  {{ $kubectl }} port-forward service/{{ $name }} 8080:80
  then open http://localhost:8080/docs/{{ .Chart.Name }}/
{{- if and $app.networkPolicy.enabled (not $app.httpRoute.enabled) }}

Only pods of the namespace {{ .Release.Namespace }} may connect to it. For an ingress controller or a gateway, set
app.networkPolicy.ingress.public to its pods and app.config.TRUSTED_PROXIES to its addresses.
{{- end }}
{{- if eq .Chart.Name "identity" }}

Create the first administrator once; it prints what is missing:

  {{ $kubectl }} exec deployment/{{ $name }}-work -- /usr/local/bin/service bootstrap --help
{{- end }}
{{- if and $app.cnpg.enabled (not $app.cnpg.objectStore) }}

The database {{ include "lib.cnpg.cluster" . }} has no backups: set app.cnpg.objectStore.
{{- end }}
{{- end }}
