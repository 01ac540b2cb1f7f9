{{- /* {root, role, scaled}: one Deployment. `scaled`: an autoscaler sets the replicas. */}}
{{- define "lib.deployment" -}}
{{- $root := .root -}}
{{- $app := $root.Values.app -}}
{{- $settings := get $app .role -}}
{{- $migrates := eq $app.migration.mode "initContainer" -}}
apiVersion: apps/v1
kind: Deployment
{{ include "lib.metadata" . }}
  {{- with $app.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- if not .scaled }}
  replicas: {{ $settings.replicas }}
  {{- end }}
  revisionHistoryLimit: 3
  strategy:
    rollingUpdate: {maxSurge: 1, maxUnavailable: 0}
  selector:
    matchLabels: &selector
      {{- include "lib.selector" $root | nindent 6 }}
      app.kubernetes.io/component: {{ .role }}
  template:
    metadata:
      labels:
        {{- include "lib.podLabels" $root | nindent 8 }}
        app.kubernetes.io/component: {{ .role }}
        {{- with $app.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with $app.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: {{ include "lib.serviceAccountName" $root }}
      {{- include "lib.pod.security" $root | nindent 6 }}
      # The drain time, 30 s to finish requests, and a reserve.
      terminationGracePeriodSeconds: {{ add 40 (include "lib.config" $root | fromYaml).HTTP_DRAIN_SECONDS }}
      topologySpreadConstraints:
        {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
        - topologyKey: {{ . }}
          maxSkew: 1
          whenUnsatisfiable: ScheduleAnyway
          labelSelector: {matchLabels: *selector}
          matchLabelKeys: [pod-template-hash]
        {{- end }}
      {{- if $migrates }}
      initContainers:
        {{- include "lib.migrate.container" (dict "root" $root "resources" $settings.resources) | nindent 8 }}
      {{- end }}
      containers:
        - name: {{ .role }}
          {{- include "lib.container" (dict "root" $root "command" .role "volume" "app") | nindent 10 }}
          ports:
            {{- if eq .role "serve" }}
            - {name: public, containerPort: 8080}
            {{- if $app.internal.enabled }}
            - {name: internal, containerPort: 8081}
            {{- end }}
            {{- end }}
            - {name: admin, containerPort: 9090}
          # Does not check the database and the broker, because a restart would not repair them.
          startupProbe:
            httpGet: {path: /health/live, port: admin}
            periodSeconds: 2
            failureThreshold: 30
          livenessProbe:
            httpGet: {path: /health/live, port: admin}
            periodSeconds: 10
            timeoutSeconds: 3
          readinessProbe:
            httpGet: {path: /health/ready, port: admin}
            periodSeconds: 5
            timeoutSeconds: 3
          resources:
            {{- toYaml $settings.resources | nindent 12 }}
      volumes:
        {{- include "lib.volumes" (dict "root" $root "migrates" $migrates) | nindent 8 }}
{{- end }}

{{- define "lib.migrate" -}}
{{- $app := .Values.app -}}
{{- $role := dict "root" . "role" "migrate" -}}
apiVersion: batch/v1
kind: Job
{{ include "lib.metadata" $role }}
  annotations:
    # Before the rollout: the new pods need the new schema, and the old pods must work with it.
    helm.sh/hook: pre-install,pre-upgrade
    helm.sh/hook-weight: "-5"
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
spec:
  backoffLimit: 0
  activeDeadlineSeconds: {{ int64 $app.migration.deadlineSeconds }}
  template:
    metadata:
      labels:
        {{- include "lib.podLabels" . | nindent 8 }}
        app.kubernetes.io/component: migrate
    spec:
      restartPolicy: Never
      {{- if not $app.serviceAccount.create }}
      # A service account of this chart does not exist yet when the hook runs.
      serviceAccountName: {{ include "lib.serviceAccountName" . }}
      {{- end }}
      {{- include "lib.pod.security" . | nindent 6 }}
      containers:
        {{- include "lib.migrate.container" (dict "root" . "resources" $app.work.resources) | nindent 8 }}
      volumes:
        {{- include "lib.volumes" (dict "root" . "migrates" true) | nindent 8 }}
{{- end }}

{{- define "lib.serviceAccount" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "lib.serviceAccountName" . }}
  namespace: {{ .Release.Namespace }}
  labels:
    {{- include "lib.labels" . | nindent 4 }}
  {{- with .Values.app.serviceAccount.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
automountServiceAccountToken: false
{{- end }}
