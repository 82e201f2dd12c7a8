"""The protocol's own Python client against `writ acp`.

    python acp_client.py WRIT SCRIPT DATA
"""

import asyncio
import sys

import acp
from acp import RequestError, spawn_agent_process, text_block
from acp.schema import AllowedOutcome, RequestPermissionResponse


class Editor(acp.Client):
    def __init__(self):
        self.seen, self.questions, self.news = [], [], asyncio.Event()

    async def session_update(self, session_id, update, **_):
        self.seen.append(update)
        self.news.set()

    async def request_permission(self, session_id, tool_call, options, **_):
        self.questions.append(tool_call)
        allow = next(option for option in options if option.kind == "allow_once")
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=allow.option_id))

    def of(self, kind):
        return [update for update in self.seen if update.session_update == kind]

    def words(self):
        return "".join(update.content.text for update in self.of("agent_message_chunk"))

    async def until(self, fits):
        while not any(fits(update) for update in self.seen):
            self.news.clear()
            await self.news.wait()


async def code_of(request):
    try:
        await request
    except RequestError as error:
        return error.code
    raise AssertionError("it was not refused")


async def first(writ, script, data):
    editor = Editor()
    async with spawn_agent_process(editor, writ, "acp", "--data", data, "--script", script) as (agent, process):
        greeted = await agent.initialize(protocol_version=1)
        assert greeted.protocol_version == 1 and greeted.agent_capabilities.load_session
        session = (await agent.new_session(cwd="/work", mcp_servers=[])).session_id

        async def prompt(text):
            editor.seen.clear()
            return (await agent.prompt(session_id=session, prompt=[text_block(text)])).stop_reason

        assert await prompt("hi") == "end_turn" and editor.words() == "Hello there, world.", editor.seen
        assert await prompt("look") == "end_turn"
        assert [call.status for call in editor.of("tool_call_update")] == ["in_progress", "completed"], editor.seen
        assert await prompt("send") == "end_turn"
        assert len(editor.questions) == 1, editor.questions
        assert editor.of("tool_call_update")[-1].status == "completed", editor.seen

        waiting = asyncio.create_task(prompt("wait"))
        await asyncio.sleep(0)
        await editor.until(lambda update: getattr(update, "status", None) == "in_progress")
        await agent.cancel(session_id=session)
        assert await waiting == "cancelled"
        assert await code_of(agent.prompt(session_id="helper/none", prompt=[text_block("hi")])) == -32002
        assert await code_of(agent.load_session(session_id="helper/none", cwd="/work")) == -32002
        waiting = asyncio.create_task(prompt("wait"))
        await asyncio.sleep(0)
        await editor.until(lambda update: getattr(update, "status", None) == "in_progress")
        process.kill()
        await process.wait()
        waiting.cancel()
        return session


async def second(writ, script, data, session):
    editor = Editor()
    async with spawn_agent_process(editor, writ, "acp", "--data", data, "--script", script) as (agent, process):
        await agent.initialize(protocol_version=1)
        interrupted = []
        while not interrupted:
            editor.seen.clear()
            await agent.load_session(session_id=session, cwd="/work", mcp_servers=[])
            asked = [update.content.text for update in editor.of("user_message_chunk")]
            assert asked == ["hi", "look", "send", "wait", "wait"], asked
            meta = [(call.status, (call.field_meta or {}).get("writ/outcome")) for call in editor.of("tool_call_update")]
            interrupted = [status for status, outcome in meta[3:] if outcome == "interrupted"]
        assert set(interrupted) == {"failed"}, interrupted
        listed = await agent.list_sessions()
        assert [one.session_id for one in listed.sessions] == [session] and listed.next_cursor is None, listed
        answer = await agent.prompt(session_id=session, prompt=[text_block("hi")])
        assert answer.stop_reason == "end_turn"
        await agent.close_session(session_id=session)


async def main(writ, script, data):
    session = await first(writ, script, data)
    await second(writ, script, data, session)
    print("acp_client.py: done")


asyncio.run(main(*sys.argv[1:]))
