{{- /* The alerts of a service. Each has a section in docs/runbooks/alerts.md. */}}

{{- /* {expr, root}: a PromQL expression. `{OF` is replaced with the label selector of the service, and a test finds the metrics of the service by it.
`{DATABASE` is replaced with that of the cluster of app.cnpg. */}}
{{- define "lib.expr" -}}
{{- $of := printf "job=\"%s/%s\"" .root.Release.Namespace (include "lib.fullname" .root) -}}
{{- $database := printf "job=\"%s/%s\"" .root.Release.Namespace (include "lib.cnpg.cluster" .root) -}}
{{ .expr | replace "{OF" (printf "{%s" $of) | replace "{DATABASE" (printf "{%s" $database) }}
{{- end }}

{{- /* {time, root}: a Prometheus duration, divided by app.prometheusRule.haste. */}}
{{- define "lib.duration" -}}
{{- $haste := int64 .root.Values.app.prometheusRule.haste -}}
{{- $units := dict "s" 1 "m" 60 "h" 3600 "d" 86400 -}}
{{- $seconds := mul (regexFind "^[0-9]+" .time | int64) (get $units (regexFind "[smhd]$" .time)) -}}
{{- if or (eq $haste 1) (eq $seconds 0) -}}
{{ .time }}
{{- else -}}
{{ max 1 (div $seconds $haste) }}s
{{- end -}}
{{- end }}

{{- define "lib.prometheusRule" -}}
{{- $rule := .Values.app.prometheusRule -}}
{{- $name := include "lib.fullname" . -}}
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
{{ include "lib.metadata" (dict "root" .) }}
    {{- with $rule.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  groups:
    - name: {{ $name }}
      rules:
        # Objectives over 30 days: 99.9% of requests get no 5xx and are not shed, and 99% get the answer within 0.5 s. An alert fires when
        # the rate of violations exceeds the allowed rate by the factor, both over the long and over the short window.
        {{- /* Shed requests are in no duration, so they are added. */}}
        {{- $errors := `((sum(rate(http_server_request_duration_seconds_count{OF, status=~"5.."}[WINDOW])) or vector(0)) + (sum(rate(http_server_requests_shed_total{OF}[WINDOW])) or vector(0))) / (sum(rate(http_server_request_duration_seconds_count{OF}[WINDOW])) + (sum(rate(http_server_requests_shed_total{OF}[WINDOW])) or vector(0))) > TIMES * 0.001` }}
        {{- $slow := `1 - sum(rate(http_server_request_duration_seconds_bucket{OF, le="0.512"}[WINDOW])) / sum(rate(http_server_request_duration_seconds_count{OF}[WINDOW])) > TIMES * 0.01` }}
        {{- range $budget := list (dict "alert" "ErrorBudgetBurn" "expr" $errors "summary" "fails requests") (dict "alert" "LatencyBudgetBurn" "expr" $slow "summary" "answers slowly") }}
        {{- range list (dict "times" 14.4 "long" "1h" "short" "5m" "severity" "page") (dict "times" 6 "long" "6h" "short" "30m" "severity" "page") (dict "times" 1 "long" "3d" "short" "6h" "severity" "ticket") }}
        {{- $times := toString .times }}
        - alert: {{ $budget.alert }}
          expr: |-
            {{- range $index, $window := list .long .short }}
            {{- if $index }}
            and
            {{- end }}
            {{ include "lib.expr" (dict "root" $ "expr" ($budget.expr | replace "TIMES" $times | replace "WINDOW" (include "lib.duration" (dict "root" $ "time" $window)))) }}
            {{- end }}
          labels: {severity: {{ .severity }}, area: {{ $name }}, window: {{ .long }}}
          annotations:
            summary: {{ $name }} {{ $budget.summary }} at {{ .times }} times the allowed rate over {{ .long }}
            runbook_url: {{ $rule.runbooks }}/alerts.md#{{ lower $budget.alert }}
        {{- end }}
        {{- end }}
        {{- $symptoms := list
          (dict "alert" "ServiceDown" "expr" "absent(up{OF} == 1)" "for" "2m" "severity" "page" "summary" "has no running process")
          (dict "alert" "ServeDown" "expr" "absent(http_server_active_requests{OF})" "for" "2m" "severity" "page" "summary" "has no process that serves requests")
          (dict "alert" "WorkerDown" "expr" "absent(outbox_pending{OF})" "for" "2m" "severity" "page" "summary" "has no running worker")
          (dict "alert" "NotReady" "expr" "max by (role) (service_ready{OF}) == 0" "for" "2m" "severity" "page" "summary" "has no ready process of a role")
          (dict "alert" "MetricsStale" "expr" "min by (source) (metrics_age_seconds{OF}) > 60" "for" "5m" "severity" "ticket" "summary" "has metrics that are not updated")
          (dict "alert" "LoadShedding" "expr" "sum(rate(http_server_requests_shed_total{OF}[5m])) > 0" "for" "10m" "severity" "ticket" "summary" "sheds requests")
          (dict "alert" "OutboxDelayed" "expr" "max(outbox_oldest_seconds{OF}) > 60" "for" "2m" "severity" "page" "summary" "has events that are not published")
          (dict "alert" "EventsParked" "expr" "max(outbox_parked{OF}) > 0" "for" "0m" "severity" "ticket" "summary" "has parked events")
          (dict "alert" "TopicsHeld" "expr" "max(outbox_held_topics{OF}) > 0" "for" "2m" "severity" "ticket" "summary" "has events of a topic that is missing or forbidden")
          (dict "alert" "RelayLeaseLost" "expr" "sum(increase(outbox_fenced_total{OF}[15m])) > 0" "for" "0m" "severity" "ticket" "summary" "has a relay that lost its lease")
          (dict "alert" "DatabaseHistoryChanged" "expr" "sum(increase(outbox_history_changed_total{OF}[15m])) > 0 or sum(outbox_history_changed_total{OF} unless outbox_history_changed_total{OF} offset 15m) > 0" "for" "0m" "severity" "ticket" "summary" "has a database that was promoted or restored")
          (dict "alert" "SequenceWentBack" "expr" "sum by (consumer) (increase(consumer_sequence_went_back_total{OF}[15m])) > 0" "for" "0m" "severity" "ticket" "summary" "has received sequences that were used before")
          (dict "alert" "MessagesDelayed" "expr" "max by (consumer) (consumer_oldest_seconds{OF}) > 300" "for" "5m" "severity" "page" "summary" "has unconsumed messages")
          (dict "alert" "ConsumerStopped" "expr" "sum by (consumer) (consumer_readable_partitions{OF}) == 0" "for" "2m" "severity" "page" "summary" "reads none of its topics")
          (dict "alert" "RevocationsStale" "expr" "max(access_revocations_age_seconds{OF}) > 60" "for" "0m" "severity" "page" "summary" "does not read the revocations of access")
          (dict "alert" "ConsumerDatabaseFailing" "expr" "max by (consumer) (consumer_paused{OF}) > 0" "for" "1m" "severity" "page" "summary" "consumes nothing because its database refuses every message")
          (dict "alert" "DeadLetters" "expr" "max(dead_letters{OF}) > 0" "for" "0m" "severity" "ticket" "summary" "has dead letters")
          (dict "alert" "JobKindFailing" "expr" "sum by (kind) (increase(jobs_failed_total{OF}[15m])) > 0 unless sum by (kind) (increase(jobs_done_total{OF}[15m])) > 0" "for" "15m" "severity" "ticket" "summary" "has jobs that always fail")
          (dict "alert" "JobFailing" "expr" "max by (kind) (jobs_attempts_max{OF}) > 10" "for" "5m" "severity" "ticket" "summary" "has a job that fails repeatedly")
          (dict "alert" "JobsDelayed" "expr" "max by (kind) (jobs_oldest_seconds{OF}) > 300" "for" "5m" "severity" "ticket" "summary" "has due jobs that do not start")
        -}}
        {{- if and .Values.app.cnpg.enabled .Values.app.cnpg.objectStore }}
        {{- $age := mul 3600 (int64 .Values.app.cnpg.backupMaxAgeHours) -}}
        {{- $symptoms = concat $symptoms (list
          (dict "alert" "BackupOld" "expr" (printf "(time() - max(barman_cloud_cloudnative_pg_io_last_available_backup_timestamp{DATABASE})) > %d or absent(barman_cloud_cloudnative_pg_io_last_available_backup_timestamp{DATABASE})" $age) "for" "1h" "severity" "page" "summary" "has no recent base backup of its database")
          (dict "alert" "ArchiveFailing" "expr" "sum(increase(cnpg_pg_stat_archiver_failed_count{DATABASE}[15m])) > 0" "for" "15m" "severity" "page" "summary" "has a database whose log is not archived")
        ) -}}
        {{- end }}
        {{- range $rule.own }}
        {{- $form := ternary "min(%s{OF}) == 0" "max(%s{OF}) > 0" (eq .fires "at 0") -}}
        {{- $symptoms = append $symptoms (dict "alert" .alert "expr" (printf $form .metric) "for" .for "severity" .severity "summary" .summary) -}}
        {{- end }}
        {{- range $symptoms }}
        {{- $expr := .expr }}
        {{- range $time := list "5m" "15m" }}
        {{- $short := include "lib.duration" (dict "root" $ "time" $time) }}
        {{- $expr = $expr | replace (printf "[%s]" $time) (printf "[%s]" $short) | replace (printf " offset %s" $time) (printf " offset %s" $short) }}
        {{- end }}
        {{- range $time := list "60" "300" }}
        {{- $expr = regexReplaceAll (printf "> %s$" $time) $expr (printf "> %d" (max 1 (div (int64 $time) (int64 $rule.haste)))) }}
        {{- end }}
        - alert: {{ .alert }}
          expr: {{ include "lib.expr" (dict "root" $ "expr" $expr) }}
          for: {{ include "lib.duration" (dict "root" $ "time" .for) }}
          labels: {severity: {{ .severity }}, area: {{ $name }}}
          annotations:
            summary: {{ $name }} {{ .summary }}
            runbook_url: {{ $rule.runbooks }}/alerts.md#{{ lower .alert }}
        {{- end }}
{{- end }}
