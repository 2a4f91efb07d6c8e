"""The CEL expressions of admission: match conditions of webhooks, and all expressions of admission policies.

`environments` declares what they may refer to, `expressions` compiles them, `typecheck` checks them against the schemas
of the kinds that a policy matches. They are evaluated in `kapi.server.admission`.
"""
