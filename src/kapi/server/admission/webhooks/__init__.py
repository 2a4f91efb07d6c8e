"""Admission webhooks: MutatingAdmissionWebhook and ValidatingAdmissionWebhook of Kubernetes.

plugin       the two plug-ins of the admission chain; read first
configurations   the stored configurations, compiled, and which webhooks concern a request
review       the AdmissionReview: what is asked, and what is accepted as an answer
objects      the objects of a request in the versions that webhooks want
call         one call of one webhook
functions    webhooks that are functions of the program that embeds the server
patch        the JSON patch of an answer, applied
metrics      apiserver_admission_webhook_*
"""
