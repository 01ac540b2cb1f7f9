{{- /* The declarations of the service, which `cargo dev contracts` writes to declared.yaml. */}}
{{- define "lib.declared" -}}
{{ .Files.Get "declared.yaml" | required "declared.yaml is missing: cargo dev contracts" }}
{{- end }}
