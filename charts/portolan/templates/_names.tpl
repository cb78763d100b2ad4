{{- /* One installation per release; its Service's name is in the proxies' configuration. */ -}}
{{- define "portolan.name" -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "portolan.selector" -}}
app.kubernetes.io/name: portolan
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "portolan.labels" -}}
{{ include "portolan.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "portolan.image" -}}
{{- .Values.image | default (printf "ghcr.io/portolan/portolan:%s" .Chart.AppVersion) -}}
{{- end -}}
