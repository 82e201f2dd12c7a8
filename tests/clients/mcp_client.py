"""Plays MCP's Python client against a server, in both eras: tools, progress, questions, tasks, resources, subscriptions.

    mcp_client.py URL TOKEN
"""

import asyncio
import sys
from typing import Any, ClassVar, Literal

import httpx2
from mcp import Client, MCPError
from mcp.client.extension import ClientExtension, ResultClaim
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, ElicitResult, Request, RequestParams, Result

URL, TOKEN = sys.argv[1:3]
HELLO = "Hello there, world."


class Task(Result):
    """A task that was told of, or looked at."""

    result_type: Literal["task", "complete"] = "task"
    taskId: str = ""
    status: str = ""
    result: dict[str, Any] | None = None


class Created(Task):
    result_type: Literal["task"] = "task"


class TaskParams(RequestParams):
    taskId: str


class GetTask(Request[TaskParams, str]):
    """This is what the header `Mcp-Name` says."""

    name_param: ClassVar[str | None] = "taskId"
    method: str = "tasks/get"


async def look(session, task):
    return await session.send_request(GetTask(params=TaskParams(taskId=task)), Task)


class Tasks(ClientExtension):
    """The tasks extension, which this client has no methods for: a task is looked at until it has its result."""

    identifier = "io.modelcontextprotocol/tasks"

    def __init__(self):
        self.seen = []

    def claims(self):
        return [ResultClaim(result_type="task", model=Created, resolve=self.resolve)]

    async def resolve(self, created, context):
        self.seen.append((created.taskId, created.status))
        while (task := await look(context.session, created.taskId)).status == "working":
            await asyncio.sleep(0.05)
        assert task.status == "completed", task
        return CallToolResult.model_validate(task.result)


def client(http, **options):
    return Client(streamable_http_client(URL, http_client=http), **options)


async def both(http, mode, version):
    async with client(http, mode=mode) as writ:
        assert writ.protocol_version == version, writ.protocol_version
        tools = [tool.name for tool in (await writ.list_tools()).tools]
        assert tools == ["helper", "session_fork", "session_read", "submission_interrupt"], tools
        seen = []

        async def progress(done, total, message):
            seen.append((done, message))

        result = await writ.call_tool("helper", {"message": "hi"}, progress_callback=progress)
        assert not result.is_error and result.content[0].text == HELLO, result
        assert seen and [n for n, _ in seen] == sorted({n for n, _ in seen}), seen
        session = result.structured_content["session_id"]
        again = await writ.call_tool("helper", {"message": "hi", "session_id": session})
        assert again.structured_content["session_id"] == session, again
        bad = await writ.call_tool("helper", {"message": "hi", "session_id": "helper/../x"})
        assert bad.is_error, bad
        read = await writ.call_tool("session_read", {"session_id": session})
        assert read.structured_content["count"] == 4, read
        uri = f"session://{session}"
        listed = [str(resource.uri) for resource in (await writ.list_resources()).resources]
        assert uri in listed, listed
        assert HELLO in (await writ.read_resource(uri)).contents[0].text
        assert (await writ.list_prompts()).prompts == []
        for wrong in (writ.call_tool("nobody", {}), writ.read_resource("session://helper/none")):
            try:
                await wrong
                raise AssertionError("it was not refused")
            except MCPError as error:
                assert error.code == -32602, error


async def modern(http):
    asked = []

    async def elicit(_, params):
        asked.append(params.message)
        return ElicitResult(action="accept", content={"confirm": True})

    async with client(http, elicitation_callback=elicit) as writ:
        result = await writ.call_tool("helper", {"message": "send"})
        assert not result.is_error and result.content[0].text == HELLO, result
        assert len(asked) == 1 and "send" in asked[0], asked
        uri = f"session://{result.structured_content['session_id']}"
        async with writ.listen(resource_subscriptions=[uri]) as subscription:
            assert subscription.honored.resource_subscriptions == [uri], subscription.honored
            arguments = {"message": "hi", "session_id": result.structured_content["session_id"]}
            await writ.call_tool("helper", arguments)
            async for event in subscription:
                assert event.uri == uri, event
                break

    tasks = Tasks()
    async with client(http, extensions=[tasks]) as writ:
        arguments = {"message": "hi", "idempotency_key": "a-key-of-python"}
        first = await writ.call_tool("helper", arguments)
        second = await writ.call_tool("helper", arguments)
        assert first.content[0].text == HELLO and first.structured_content == second.structured_content, (first, second)
        # It was done when it was asked for again.
        (task, _), again = tasks.seen
        assert again == (task, "completed"), tasks.seen


async def main():
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        await both(http, "auto", "2026-07-28")
        await both(http, "legacy", "2025-11-25")
        await modern(http)
    print("mcp_client.py: done")


asyncio.run(main())
