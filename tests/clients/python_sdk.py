"""A client on the official Python SDK.

    python python_sdk.py SCENARIO FOLDER [SESSION] -- AGENT [ARGUMENT…]

Prints what typescript.mjs prints, for the same scenarios.
"""

import asyncio
import json
import os
import sys

import acp

LIST = "1. read the code\n2. write the fix\n3. run the tests"


class Client:
    """What the person does, and what the person sees."""

    def __init__(self, cwd, session):
        self.cwd = cwd
        self.session = session
        self.agent = None
        self.waiting = {}

    def on_connect(self, agent):
        self.agent = agent

    def seen(self, kind):
        """The next update of a kind."""
        return self.waiting.setdefault(kind, asyncio.get_running_loop().create_future())

    async def session_update(self, session_id, update, **_):
        show({"session": session_id, "update": plain(update)})
        if waiting := self.waiting.pop(update.session_update, None):
            waiting.set_result(None)

    async def ask(self, method, answer):
        try:
            result = await answer
        except acp.RequestError as error:
            told = {"code": error.code, "message": str(error), "data": error.data}
            show({"to": method, "error": told})
        except ConnectionError as error:
            show({"to": method, "error": {"message": str(error)}})
        else:
            show({"to": method, "result": plain(result)})
            return result

    async def initialize(self):
        await self.ask("initialize", self.agent.initialize(protocol_version=acp.PROTOCOL_VERSION))

    async def create(self):
        created = await self.ask("session/new", self.agent.new_session(self.cwd, mcp_servers=[]))
        self.session = created.session_id

    async def load(self):
        await self.ask("session/load", self.agent.load_session(self.cwd, self.session))

    async def resume(self):
        await self.ask("session/resume", self.agent.resume_session(self.session, self.cwd))

    async def list(self):
        await self.ask("session/list", self.agent.list_sessions(self.cwd))

    async def prompt(self, text):
        blocks = [acp.text_block(text)]
        await self.ask("session/prompt", self.agent.prompt(self.session, blocks))

    async def cancel(self):
        await self.agent.cancel(self.session)

    async def close(self):
        await self.ask("session/close", self.agent.close_session(self.session))


def show(seen):
    print(json.dumps(seen, ensure_ascii=False), flush=True)


def plain(model):
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


async def chat(client):
    """One turn in a new session."""
    await client.create()
    await client.prompt(LIST)


async def cancel(client):
    """The person stops the turn at the first plan, and then asks for something else."""
    await client.create()
    planned = client.seen("plan")
    stopped = asyncio.create_task(client.prompt(LIST))
    await asyncio.wait([planned, stopped], return_when=asyncio.FIRST_COMPLETED)
    await client.cancel()
    await stopped
    await client.prompt("1. tidy up")


async def leave(client):
    """The client goes away at the first plan, without a word."""
    await client.create()
    planned = client.seen("plan")
    prompt = asyncio.create_task(client.prompt(LIST))
    await asyncio.wait([planned, prompt], return_when=asyncio.FIRST_COMPLETED)
    os._exit(0)


async def load(client):
    """A session of an earlier process, with its history."""
    await client.load()
    await client.list()
    await client.prompt("1. tidy up")
    await client.close()
    await client.resume()
    await client.close()


async def resume(client):
    """A session of an earlier process, without its history."""
    await client.resume()
    await client.prompt("1. tidy up")
    await client.close()


async def unknown(client):
    """A session that never was."""
    client.session = "no-such-session"
    await client.load()


SCENARIOS = {scenario.__name__: scenario for scenario in (chat, cancel, leave, load, resume, unknown)}


async def main():
    split = sys.argv.index("--")
    scenario, cwd, *session = sys.argv[1:split]
    client = Client(cwd, *session or [None])
    # The agent's standard error is the test's.
    streams = {"stderr": None}
    agent = sys.argv[split + 1 :]
    async with acp.spawn_agent_process(client, *agent, cwd=cwd, transport_kwargs=streams):
        await client.initialize()
        await SCENARIOS[scenario](client)


asyncio.run(main())
