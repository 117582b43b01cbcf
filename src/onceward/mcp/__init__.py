"""The Model Context Protocol server: the operations of an app as tools of an assistant. It needs the extra `mcp`."""
