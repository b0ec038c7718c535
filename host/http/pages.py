"""The two pages that discovery points at, as plain text (HA-20, HA-27)."""

DOCUMENTATION = """\
Takoform Host API v2 on takohost

Discovery:  GET /.well-known/takoform/v2 gives baseUrl, capabilities and limits.
Forms:      ModuleWorker 0.3.0, WorkerBundle 0.2.0, WorkerVersion 0.5.0, WorkerDeployment 0.4.0,
            DurableWorkflow 0.3.0. GET {baseUrl}/support?form=URL says what is supported.
Mutations:  POST {baseUrl}/resources, PUT and DELETE {baseUrl}/resources/{uid}. Each needs an Idempotency-Key;
            PUT and DELETE also Takoform-Expected-Generation. The answer is the Operation: 200 when it has
            settled, 202 while it has not. Repeat an unanswered request with its own key.
JSON:       at most 100 containers inside each other, at most 4300 characters in a number.
"""

AUTHENTICATION = """\
Who owns what on this host

With the scheme None there is one principal, "local": everybody who can reach this loopback address acts as it,
and every well-formed Space belongs to it. A principal is a stable identity, not a credential: its Resources,
rights and idempotency keys belong to the identity and stay when a credential is replaced. Nothing that belongs
to one principal can be read, listed or told from absent by another.
"""
