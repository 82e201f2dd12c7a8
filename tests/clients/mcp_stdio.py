"""MCP's own Python client against `writ mcp`, over pipes.

    python mcp_stdio.py WRIT SCRIPT DATA
"""

import asyncio
import sys

from mcp import Client, StdioServerParameters, stdio_client


async def main(writ, script, data):
    server = StdioServerParameters(command=writ, args=["mcp", "--data", data, "--script", script])
    async with Client(stdio_client(server)) as client:
        tools = await client.list_tools()
        assert "helper" in [tool.name for tool in tools.tools], tools
        result = await client.call_tool("helper", {"message": "hi"})
        assert not result.is_error and result.content[0].text.startswith("Hello there, world."), result
    print("mcp_stdio.py: done")


asyncio.run(main(*sys.argv[1:]))
