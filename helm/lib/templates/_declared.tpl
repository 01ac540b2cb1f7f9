{{- /* What the area's service declares, as `cargo dev contracts` has written it beside the chart. */}}
{{- define "lib.declared" -}}
{{ .Files.Get "declared.yaml" | required "declared.yaml is missing: cargo dev contracts" }}
{{- end }}
