"""The two pages that discovery points at, as plain text (HA-20, HA-27)."""

DOCUMENTATION = """\
Takoform Host API v2 on takohost

Discovery:  GET /.well-known/takoform/v2 gives baseUrl, capabilities and limits.
Forms:      ModuleWorker 0.3.0, WorkerBundle 0.2.0, StaticAssetBundle 0.2.0, WorkerVersion 0.5.0,
            WorkerDeployment 0.4.0, WorkerEndpoint 0.3.0, DurableWorkflow 0.3.0.
            GET {baseUrl}/support?form=URL says what is supported.
Mutations:  POST {baseUrl}/resources, PUT and DELETE {baseUrl}/resources/{uid}. Each needs an Idempotency-Key;
            PUT and DELETE also Takoform-Expected-Generation. The answer is the Operation: 200 when it has
            settled, 202 while it has not. Repeat an unanswered request with its own key.
Previews:   POST {baseUrl}/previews makes the checks of a mutation and leaves nothing behind.
Private inputs: privateInputs of a WorkerVersion holds exactly the names of requiredSensitiveVars. The host keeps
            a value sealed until the Operation has handed it on, for one hour at most. An Operation in
            waiting_input continues with the same map: PUT {baseUrl}/operations/{id}/private-inputs.
JSON:       at most 100 containers inside each other, at most 4300 characters in a number.
"""

AUTHENTICATION = """\
Who owns what on this host

A principal is a stable identity, not a credential. Resources, Spaces, rights and idempotency keys belong to the
principal: each has Spaces of its own, and one principal's Space "s" is not another's. Nothing that belongs to one
principal can be read, listed, referred to or told from absent by another.

With the scheme None there is one principal, "local": everybody who can reach this loopback address acts as it.

With the scheme Bearer the operator keeps a file of principals. Each entry has the hashes of the principal's tokens
(there may be several), the Spaces it may use, and its rights there: read, change and refer are separate. To replace
a credential the operator makes a new token (takohost token new), adds its hash to the same principal and removes
the old hash once it is out of use. The principal stays the same, so its Resources, rights and idempotency keys stay
with it. A removed hash or right ends with the next request.
"""
