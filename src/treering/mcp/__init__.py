"""The Model Context Protocol: agents look up sessions, their own and their colleagues', by tools and resources.

`treering mcp` speaks it over stdio, and `treering serve` at `/mcp`. Both let one `Peer` answer each message of a client
(`messages`), over what that client may reach (`reach`): by `tools`, whose arguments are structs, or by `resources`.
What is shown of an entry has no secrets in it and is bounded (`shown`).

The protocol is spoken without its SDK, of which a server would use JSON-RPC and types alone: what lies beneath is the
server's own, with its rights, bounds and streams. Nothing here knows HTTP, or where sessions are kept.
"""
