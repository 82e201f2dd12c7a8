"""Plays A2A's Python client against a server, by both bindings.

    a2a_client.py URL TOKEN
"""

import asyncio
import sys
import uuid

import httpx
from a2a.client import ClientConfig, create_client
from a2a.types.a2a_pb2 import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskState,
)
from a2a.utils.errors import TaskNotCancelableError, TaskNotFoundError, UnsupportedOperationError

URL, TOKEN = sys.argv[1].rstrip("/"), sys.argv[2]


def to_send(text, **configuration):
    message = Message(message_id=str(uuid.uuid4()), role=Role.ROLE_USER, parts=[Part(text=text)])
    request = SendMessageRequest(message=message)
    for name, value in configuration.items():
        setattr(request.configuration, name, value)
    return request


async def refused(error, awaitable):
    try:
        await awaitable
    except error:
        return
    raise AssertionError(f"{error.__name__} is due")


async def items(stream):
    return [item async for item in stream]


async def play(binding):
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60) as http:

        async def client(streaming):
            config = ClientConfig(httpx_client=http, supported_protocol_bindings=[binding], streaming=streaming)
            return await create_client(URL, config)

        plain, streaming = await client(False), await client(True)
        [answer] = await items(plain.send_message(to_send("Say something.")))
        task = answer.task
        assert task.status.state == TaskState.TASK_STATE_COMPLETED, task
        assert task.artifacts[0].parts[0].text, task

        told = await items(streaming.send_message(to_send("Say something more.")))
        assert told[0].HasField("task"), told[0]
        assert told[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED, told[-1]
        assert any(item.HasField("artifact_update") and item.artifact_update.last_chunk for item in told), told

        got = await plain.get_task(GetTaskRequest(id=task.id))
        assert got == task, (got, task)
        listed = await plain.list_tasks(ListTasksRequest(page_size=1))
        assert listed.tasks[0].id == told[0].task.id and listed.next_page_token, listed
        listed = await plain.list_tasks(ListTasksRequest(page_size=1, page_token=listed.next_page_token))
        assert listed.tasks[0].id == task.id, listed

        await refused(TaskNotCancelableError, plain.cancel_task(CancelTaskRequest(id=task.id)))
        await refused(TaskNotFoundError, plain.get_task(GetTaskRequest(id="00-00000000000000000000000000")))
        await refused(UnsupportedOperationError, items(streaming.subscribe(SubscribeToTaskRequest(id=task.id))))

        # One that works is followed, and cancelled; whatever comes first wins.
        [answer] = await items(plain.send_message(to_send("And more.", return_immediately=True)))
        followed = asyncio.create_task(items(streaming.subscribe(SubscribeToTaskRequest(id=answer.task.id))))
        try:
            cancelled = await plain.cancel_task(CancelTaskRequest(id=answer.task.id))
            assert cancelled.id == answer.task.id
        except TaskNotCancelableError:
            pass
        try:
            told = await followed
            assert told[0].task.id == answer.task.id, told
        except UnsupportedOperationError:
            told = []
        end = await plain.get_task(GetTaskRequest(id=answer.task.id))
        ends = (TaskState.TASK_STATE_COMPLETED, TaskState.TASK_STATE_CANCELED)
        assert end.status.state in ends, end
        print(f"a2a-sdk by {binding}: {len(told)} items of a task that ended {TaskState.Name(end.status.state)}")


async def main():
    for binding in ("JSONRPC", "HTTP+JSON"):
        await play(binding)


asyncio.run(main())
