"""The host's side of bindings, one folder a kind. Authorised by what the host fixed in a call, never by its body."""
