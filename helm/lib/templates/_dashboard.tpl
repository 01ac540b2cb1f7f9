{{- /* What people look at: a dashboard of Grafana's for the area, as a ConfigMap that its sidecar finds. */}}

{{- define "lib.dashboard" -}}
{{- $area := include "lib.fullname" . -}}
{{- $of := printf "job=\"%s/%s\"" .Release.Namespace $area -}}
{{- $rows := include "lib.dashboard.area" . | fromYaml -}}
{{- $own := list -}}
{{- range .Values.app.prometheusRule.own }}
{{- $own = append $own (dict "title" (printf "%s: %s" .alert .summary) "unit" "short" "lines" (dict "" (printf "max(%s{OF})" .metric))) -}}
{{- end }}
{{- $all := $rows.rows -}}
{{- with $own }}{{ $all = append $all (dict "title" "Its own" "panels" .) }}{{ end -}}
{{- include "lib.dashboard.configMap" (dict "root" . "name" (printf "%s-dashboard" $area) "title" (printf "%s (%s)" $area .Release.Namespace) "of" $of "rows" $all "labels" .Values.app.dashboard.labels) }}
{{- end }}

{{- /* {root, name, title, of, rows, labels}. A row is {title, panels}, a panel {title, unit, lines: legend → expression}; three panels stand side by side. */}}
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

{{- /* As YAML, since it reads like what it becomes. `OF` is as in alerts. */}}
{{- define "lib.dashboard.area" -}}
rows:
  - title: Requests
    panels:
      - title: Requests a second
        unit: reqps
        lines: {"{{ "{{status}}" }}": 'sum by (status) (rate(http_server_request_duration_seconds_count{OF}[$__rate_interval]))'}
      - title: Share that failed with 5xx (0.1% is promised)
        unit: percentunit
        lines: {"": 'sum(rate(http_server_request_duration_seconds_count{OF, status=~"5.."}[$__rate_interval])) / sum(rate(http_server_request_duration_seconds_count{OF}[$__rate_interval]))'}
      - title: Share that took more than half a second (1% is promised)
        unit: percentunit
        lines: {"": '1 - sum(rate(http_server_request_duration_seconds_bucket{OF, le="0.512"}[$__rate_interval])) / sum(rate(http_server_request_duration_seconds_count{OF}[$__rate_interval]))'}
      - title: Time of an answer
        unit: s
        lines:
          half: 'histogram_quantile(0.5, sum by (le) (rate(http_server_request_duration_seconds_bucket{OF}[$__rate_interval])))'
          99 of 100: 'histogram_quantile(0.99, sum by (le) (rate(http_server_request_duration_seconds_bucket{OF}[$__rate_interval])))'
      - title: The slowest routes, 99 of 100
        unit: s
        lines: {"{{ "{{route}}" }}": 'topk(5, histogram_quantile(0.99, sum by (le, route) (rate(http_server_request_duration_seconds_bucket{OF}[$__rate_interval]))))'}
      - title: Under way, and not let in
        unit: short
        lines:
          under way at {{ "{{listener}}" }}: 'sum by (listener) (http_server_active_requests{OF})'
          not let in a second, for {{ "{{queue}}" }}: 'sum by (queue) (rate(http_server_requests_shed_total{OF}[$__rate_interval]))'
  - title: Events that it tells
    panels:
      - title: Events that wait
        unit: short
        lines:
          to be sent: 'max(outbox_pending{OF})'
          for a person: 'max(outbox_parked{OF})'
      - title: Age of the oldest
        unit: s
        lines: {"": 'max(outbox_oldest_seconds{OF})'}
      - title: From the insertion to the acknowledgement
        unit: s
        lines:
          half: 'histogram_quantile(0.5, sum by (le) (rate(outbox_commit_to_ack_seconds_bucket{OF}[$__rate_interval])))'
          99 of 100: 'histogram_quantile(0.99, sum by (le) (rate(outbox_commit_to_ack_seconds_bucket{OF}[$__rate_interval])))'
      - title: Events sent a second
        unit: short
        lines: {"": 'sum(rate(outbox_commit_to_ack_seconds_count{OF}[$__rate_interval]))'}
      - title: Leases taken, tenures that lost theirs
        unit: short
        lines:
          taken: 'sum(increase(outbox_takeovers_total{OF}[$__rate_interval]))'
          lost: 'sum(increase(outbox_fenced_total{OF}[$__rate_interval]))'
      - title: Events parked
        unit: short
        lines: {"": 'sum(increase(outbox_refused_total{OF}[$__rate_interval]))'}
  - title: Messages that it takes
    panels:
      - title: Messages behind
        unit: short
        lines: {"{{ "{{consumer}}" }}": 'sum by (consumer) (consumer_lag{OF})'}
      - title: Age of the oldest that waits
        unit: s
        lines: {"{{ "{{consumer}}" }}": 'max by (consumer) (consumer_oldest_seconds{OF})'}
      - title: Messages a second
        unit: short
        lines:
          applied by {{ "{{consumer}}" }}: 'sum by (consumer) (rate(consumer_applied_total{OF}[$__rate_interval]))'
          seen before by {{ "{{consumer}}" }}: 'sum by (consumer) (rate(consumer_duplicates_total{OF}[$__rate_interval]))'
          tried again by {{ "{{consumer}}" }}: 'sum by (consumer) (rate(consumer_retries_total{OF}[$__rate_interval]))'
      - title: Messages put aside
        unit: short
        lines:
          there are: 'max(dead_letters{OF})'
          newly by {{ "{{consumer}}" }}: 'sum by (consumer) (increase(consumer_dead_letters_total{OF}[$__rate_interval]))'
      - title: Groups whose database refuses all
        unit: short
        lines: {"{{ "{{consumer}}" }}": 'max by (consumer) (consumer_paused{OF})'}
      - title: Memory of messages that wait
        unit: bytes
        lines: {"{{ "{{consumer}}" }}": 'sum by (consumer) (consumer_held_bytes{OF})'}
  - title: Jobs
    panels:
      - title: Attempts a second
        unit: short
        lines:
          '{{ "{{kind}}" }}': 'sum by (kind) (rate(jobs_done_total{OF}[$__rate_interval]))'
          '{{ "{{kind}}" }}, failed': 'sum by (kind) (rate(jobs_failed_total{OF}[$__rate_interval]))'
      - title: How late they begin, 99 of 100
        unit: s
        lines: {"{{ "{{kind}}" }}": 'histogram_quantile(0.99, sum by (le, kind) (rate(jobs_late_seconds_bucket{OF}[$__rate_interval])))'}
      - title: How long an attempt takes, 99 of 100
        unit: s
        lines: {"{{ "{{kind}}" }}": 'histogram_quantile(0.99, sum by (le, kind) (rate(jobs_seconds_bucket{OF}[$__rate_interval])))'}
{{- end }}

{{- /* All areas of a namespace side by side, whatever release each has. */}}
{{- define "lib.dashboard.platform" -}}
rows:
  - title: What callers see
    panels:
      - title: Requests a second
        unit: reqps
        lines: {"{{ "{{job}}" }}": 'sum by (job) (rate(http_server_request_duration_seconds_count{OF}[$__rate_interval]))'}
      - title: Share that failed with 5xx (0.1% is promised)
        unit: percentunit
        lines: {"{{ "{{job}}" }}": 'sum by (job) (rate(http_server_request_duration_seconds_count{OF, status=~"5.."}[$__rate_interval])) / sum by (job) (rate(http_server_request_duration_seconds_count{OF}[$__rate_interval]))'}
      - title: Time of an answer, 99 of 100
        unit: s
        lines: {"{{ "{{job}}" }}": 'histogram_quantile(0.99, sum by (le, job) (rate(http_server_request_duration_seconds_bucket{OF}[$__rate_interval])))'}
      - title: Processes that answer
        unit: short
        lines: {"{{ "{{job}}" }}": 'sum by (job) (up{OF})'}
      - title: Not let in a second
        unit: reqps
        lines: {"{{ "{{job}}" }}": 'sum by (job) (rate(http_server_requests_shed_total{OF}[$__rate_interval]))'}
  - title: What they do not see at once
    panels:
      - title: Age of the oldest event that waits
        unit: s
        lines: {"{{ "{{job}}" }}": 'max by (job) (outbox_oldest_seconds{OF})'}
      - title: Age of the oldest message that waits
        unit: s
        lines: {"{{ "{{consumer}}" }}": 'max by (consumer) (consumer_oldest_seconds{OF})'}
      - title: Messages behind
        unit: short
        lines: {"{{ "{{consumer}}" }}": 'sum by (consumer) (consumer_lag{OF})'}
      - title: Put aside, or parked
        unit: short
        lines:
          put aside by {{ "{{job}}" }}: 'max by (job) (dead_letters{OF})'
          parked by {{ "{{job}}" }}: 'max by (job) (outbox_parked{OF})'
      - title: Jobs that fail, a second
        unit: short
        lines: {"{{ "{{job}} {{kind}}" }}": 'sum by (job, kind) (rate(jobs_failed_total{OF}[$__rate_interval]))'}
{{- end }}
