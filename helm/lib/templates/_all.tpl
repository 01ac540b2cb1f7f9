{{- /* All manifests of a service: the only template that its chart includes. */}}
{{- define "lib.all" -}}
{{- range $name, $_ := omit .Values "app" "global" "enabled" -}}
{{- fail (printf "%s: values of a service go below app" $name) -}}
{{- end -}}
{{- $app := .Values.app -}}
{{- include "lib.partitions.known" . -}}
{{- $serve := dict "root" . "role" "serve" "scaled" $app.serve.autoscaling.enabled -}}
{{- $work := dict "root" . "role" "work" "scaled" $app.work.keda.enabled -}}
{{- include "lib.deployment" $serve }}
---
{{ include "lib.deployment" $work }}
---
{{ include "lib.service" (dict "root" . "port" "public") }}
{{- if $app.internal.enabled }}
---
{{ include "lib.service" (dict "root" . "role" "internal" "port" "internal") }}
{{- end }}
{{- if $app.serviceAccount.create }}
---
{{ include "lib.serviceAccount" . }}
{{- end }}
{{- if eq $app.migration.mode "hook" }}
---
{{ include "lib.migrate" . }}
{{- end }}
{{- if $app.serve.autoscaling.enabled }}
---
{{ include "lib.hpa" $serve }}
{{- end }}
{{- if $app.work.keda.enabled }}
---
{{ include "lib.scaledObject" $work }}
{{- end }}
{{- if $app.podDisruptionBudget.enabled }}
---
{{ include "lib.pdb" $serve }}
---
{{ include "lib.pdb" $work }}
{{- end }}
{{- if $app.networkPolicy.enabled }}
---
{{ include "lib.networkPolicy" . }}
{{- end }}
{{- if $app.strimzi.enabled }}
---
{{ include "lib.strimzi" . }}
{{- end }}
{{- if $app.cnpg.enabled }}
---
{{ include "lib.cnpg" . }}
{{- end }}
{{- if $app.externalSecret.enabled }}
---
{{ include "lib.externalSecrets" . }}
{{- end }}
{{- if $app.httpRoute.enabled }}
---
{{ include "lib.httpRoute" . }}
{{- end }}
{{- if $app.podMonitor.enabled }}
---
{{ include "lib.podMonitor" . }}
{{- if $app.cnpg.enabled }}
---
{{ include "lib.cnpg.podMonitor" . }}
{{- end }}
{{- end }}
{{- if $app.prometheusRule.enabled }}
---
{{ include "lib.prometheusRule" . }}
{{- end }}
{{- if $app.dashboard.enabled }}
---
{{ include "lib.dashboard" . }}
{{- end }}
{{- end }}
