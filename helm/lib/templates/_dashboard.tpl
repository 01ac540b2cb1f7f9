{{- /* The Grafana dashboard of a service, as a ConfigMap for Grafana's sidecar. */}}

{{- define "lib.dashboard" -}}
{{- $fullname := include "lib.fullname" . -}}
{{- $of := printf "job=\"%s/%s\"" .Release.Namespace $fullname -}}
{{- $rows := include "lib.dashboard.service" . | fromYaml -}}
{{- $own := list -}}
{{- range .Values.app.prometheusRule.own }}
{{- $own = append $own (dict "title" (printf "%s: %s" .alert .summary) "unit" "short" "lines" (dict "" (printf "max(%s{OF})" .metric))) -}}
{{- end }}
{{- $all := $rows.rows -}}
{{- with $own }}{{ $all = append $all (dict "title" "Metrics of the service" "panels" .) }}{{ end -}}
{{- include "lib.dashboard.configMap" (dict "root" . "name" (printf "%s-dashboard" $fullname) "title" (printf "%s (%s)" $fullname .Release.Namespace) "of" $of "rows" $all "labels" .Values.app.dashboard.labels) }}
{{- end }}

{{- /* {root, name, title, of, rows, labels}: three panels per line. A row is {title, panels}, a panel {title, unit, lines: legend → expression}. */}}
{{- define "lib.dashboard.configMap" -}}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- with .labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    {{- include "lib.labels" .root | nindent 4 }}
data:
  {{ .name }}.json: |-
    {{- include "lib.dashboard.json" . | nindent 4 }}
{{- end }}

{{- define "lib.dashboard.json" -}}
{{- $of := .of -}}
{{- $source := dict "type" "prometheus" "uid" "${source}" -}}
{{- $panels := list -}}
{{- $id := 0 -}}
{{- $y := 0 -}}
{{- range $row := .rows }}
{{- $id = add1 $id -}}
{{- $panels = append $panels (dict "id" $id "type" "row" "title" $row.title "collapsed" false "panels" list "gridPos" (dict "x" 0 "y" $y "w" 24 "h" 1)) -}}
{{- $y = add1 $y -}}
{{- range $index, $panel := $row.panels }}
{{- $id = add1 $id -}}
{{- $targets := list -}}
{{- range $legend, $expr := $panel.lines }}
{{- $letter := printf "%c" (add 65 (len $targets)) -}}
{{- $targets = append $targets (dict "refId" $letter "datasource" $source "legendFormat" ($legend | default $panel.title) "expr" ($expr | replace "{OF" (printf "{%s" $of))) -}}
{{- end }}
{{- $place := dict "x" (mul 8 (mod $index 3)) "y" (add $y (mul 7 (div $index 3))) "w" 8 "h" 7 -}}
{{- $panels = append $panels (dict "id" $id "type" "timeseries" "title" $panel.title "datasource" $source "gridPos" $place "targets" $targets "fieldConfig" (dict "defaults" (dict "unit" $panel.unit "min" 0) "overrides" list)) -}}
{{- end }}
{{- $y = add $y (mul 7 (div (add (len $row.panels) 2) 3)) -}}
{{- end }}
{{- $variable := dict "name" "source" "label" "Prometheus" "type" "datasource" "query" "prometheus" -}}
{{- dict "uid" (.name | trunc 40) "title" .title "tags" (list "platform") "schemaVersion" 39 "editable" false "refresh" "30s" "timezone" "utc" "time" (dict "from" "now-3h" "to" "now") "templating" (dict "list" (list $variable)) "panels" $panels | toPrettyJson }}
{{- end }}

{{- /* The rows as YAML. `{OF` is replaced as in the alerts. */}}
{{- define "lib.dashboard.service" -}}
rows:
  - title: Requests
    panels:
      - title: Requests per second
        unit: reqps
        lines: {"{{ "{{status}}" }}": 'sum by (status) (rate(http_server_request_duration_seconds_count{OF}[$__rate_interval]))'}
      - title: Share of 5xx answers (objective 0.1%)
        unit: percentunit
        lines: {"": 'sum(rate(http_server_request_duration_seconds_count{OF, status=~"5.."}[$__rate_interval])) / sum(rate(http_server_request_duration_seconds_count{OF}[$__rate_interval]))'}
      - title: Share of answers slower than 0.5 s (objective 1%)
        unit: percentunit
        lines: {"": '1 - sum(rate(http_server_request_duration_seconds_bucket{OF, le="0.512"}[$__rate_interval])) / sum(rate(http_server_request_duration_seconds_count{OF}[$__rate_interval]))'}
      - title: Response time
        unit: s
        lines:
          median: 'histogram_quantile(0.5, sum by (le) (rate(http_server_request_duration_seconds_bucket{OF}[$__rate_interval])))'
          99th percentile: 'histogram_quantile(0.99, sum by (le) (rate(http_server_request_duration_seconds_bucket{OF}[$__rate_interval])))'
      - title: The slowest routes, 99th percentile
        unit: s
        lines: {"{{ "{{route}}" }}": 'topk(5, histogram_quantile(0.99, sum by (le, route) (rate(http_server_request_duration_seconds_bucket{OF}[$__rate_interval]))))'}
      - title: Active and shed requests
        unit: short
        lines:
          active at {{ "{{listener}}" }}: 'sum by (listener) (http_server_active_requests{OF})'
          shed per second, {{ "{{queue}}" }}: 'sum by (queue) (rate(http_server_requests_shed_total{OF}[$__rate_interval]))'
  - title: Published events
    panels:
      - title: Unpublished events
        unit: short
        lines:
          pending: 'max(outbox_pending{OF})'
          parked: 'max(outbox_parked{OF})'
      - title: Age of the oldest event
        unit: s
        lines: {"": 'max(outbox_oldest_seconds{OF})'}
      - title: Time from insertion to acknowledgement
        unit: s
        lines:
          median: 'histogram_quantile(0.5, sum by (le) (rate(outbox_commit_to_ack_seconds_bucket{OF}[$__rate_interval])))'
          99th percentile: 'histogram_quantile(0.99, sum by (le) (rate(outbox_commit_to_ack_seconds_bucket{OF}[$__rate_interval])))'
      - title: Events published per second
        unit: short
        lines: {"": 'sum(rate(outbox_commit_to_ack_seconds_count{OF}[$__rate_interval]))'}
      - title: Leases acquired and lost
        unit: short
        lines:
          acquired: 'sum(increase(outbox_takeovers_total{OF}[$__rate_interval]))'
          lost: 'sum(increase(outbox_fenced_total{OF}[$__rate_interval]))'
      - title: Events parked
        unit: short
        lines: {"": 'sum(increase(outbox_refused_total{OF}[$__rate_interval]))'}
  - title: Consumed messages
    panels:
      - title: Consumer lag in messages
        unit: short
        lines: {"{{ "{{consumer}}" }}": 'sum by (consumer) (consumer_lag{OF})'}
      - title: Age of the oldest unconsumed message
        unit: s
        lines: {"{{ "{{consumer}}" }}": 'max by (consumer) (consumer_oldest_seconds{OF})'}
      - title: Age of the revocations of access
        unit: s
        lines: {"": 'max(access_revocations_age_seconds{OF})'}
      - title: Partitions that consumers can read
        unit: short
        lines: {"{{ "{{consumer}}" }}": 'sum by (consumer) (consumer_readable_partitions{OF})'}
      - title: Messages per second
        unit: short
        lines:
          applied by {{ "{{consumer}}" }}: 'sum by (consumer) (rate(consumer_applied_total{OF}[$__rate_interval]))'
          duplicates of {{ "{{consumer}}" }}: 'sum by (consumer) (rate(consumer_duplicates_total{OF}[$__rate_interval]))'
          retried by {{ "{{consumer}}" }}: 'sum by (consumer) (rate(consumer_retries_total{OF}[$__rate_interval]))'
      - title: Dead letters
        unit: short
        lines:
          current: 'max(dead_letters{OF})'
          new, by {{ "{{consumer}}" }}: 'sum by (consumer) (increase(consumer_dead_letters_total{OF}[$__rate_interval]))'
      - title: Consumers paused because the database refuses every message
        unit: short
        lines: {"{{ "{{consumer}}" }}": 'max by (consumer) (consumer_paused{OF})'}
      - title: Memory of waiting messages
        unit: bytes
        lines: {"{{ "{{consumer}}" }}": 'sum by (consumer) (consumer_held_bytes{OF})'}
  - title: Jobs
    panels:
      - title: Attempts per second
        unit: short
        lines:
          '{{ "{{kind}}" }}': 'sum by (kind) (rate(jobs_done_total{OF}[$__rate_interval]))'
          '{{ "{{kind}}" }}, failed': 'sum by (kind) (rate(jobs_failed_total{OF}[$__rate_interval]))'
      - title: Delay of the start, 99th percentile
        unit: s
        lines: {"{{ "{{kind}}" }}": 'histogram_quantile(0.99, sum by (le, kind) (rate(jobs_late_seconds_bucket{OF}[$__rate_interval])))'}
      - title: Duration of an attempt, 99th percentile
        unit: s
        lines: {"{{ "{{kind}}" }}": 'histogram_quantile(0.99, sum by (le, kind) (rate(jobs_seconds_bucket{OF}[$__rate_interval])))'}
{{- end }}

{{- /* The dashboard of all services of a namespace, in any releases. */}}
{{- define "lib.dashboard.platform" -}}
rows:
  - title: Requests
    panels:
      - title: Requests per second
        unit: reqps
        lines: {"{{ "{{job}}" }}": 'sum by (job) (rate(http_server_request_duration_seconds_count{OF}[$__rate_interval]))'}
      - title: Share of 5xx answers (objective 0.1%)
        unit: percentunit
        lines: {"{{ "{{job}}" }}": 'sum by (job) (rate(http_server_request_duration_seconds_count{OF, status=~"5.."}[$__rate_interval])) / sum by (job) (rate(http_server_request_duration_seconds_count{OF}[$__rate_interval]))'}
      - title: Response time, 99th percentile
        unit: s
        lines: {"{{ "{{job}}" }}": 'histogram_quantile(0.99, sum by (le, job) (rate(http_server_request_duration_seconds_bucket{OF}[$__rate_interval])))'}
      - title: Running processes
        unit: short
        lines: {"{{ "{{job}}" }}": 'sum by (job) (up{OF})'}
      - title: Shed requests per second
        unit: reqps
        lines: {"{{ "{{job}}" }}": 'sum by (job) (rate(http_server_requests_shed_total{OF}[$__rate_interval]))'}
  - title: Events, messages and jobs
    panels:
      - title: Age of the oldest unpublished event
        unit: s
        lines: {"{{ "{{job}}" }}": 'max by (job) (outbox_oldest_seconds{OF})'}
      - title: Age of the oldest unconsumed message
        unit: s
        lines: {"{{ "{{consumer}}" }}": 'max by (consumer) (consumer_oldest_seconds{OF})'}
      - title: Consumer lag in messages
        unit: short
        lines: {"{{ "{{consumer}}" }}": 'sum by (consumer) (consumer_lag{OF})'}
      - title: Dead letters and parked events
        unit: short
        lines:
          dead letters of {{ "{{job}}" }}: 'max by (job) (dead_letters{OF})'
          parked events of {{ "{{job}}" }}: 'max by (job) (outbox_parked{OF})'
      - title: Failed jobs per second
        unit: short
        lines: {"{{ "{{job}} {{kind}}" }}": 'sum by (job, kind) (rate(jobs_failed_total{OF}[$__rate_interval]))'}
{{- end }}
