"""Tools of MCP servers: the servers of the operator's file, what they offer, and calls of it behind a gate.

A server runs only if it stands in the file that the operator named; nothing else can start one. This needs the
extra ``unspool[mcp]``, and nothing here is imported unless such a file is used.
"""
