"""Runs the official Python client against a server.

Usage: official.py newest|older stdio PROGRAM ARGUMENT... | http URL

Lists and calls every tool, reads a resource, and gets the prompt. The client itself checks each structured answer
against the schema that the server sent. Prints one JSON document.
"""

import asyncio
import json
import os
import sys


def parsed(result):
    """Converts a tool's result, whose members the two versions of the client name differently."""
    return {
        "error": bool(getattr(result, "is_error", getattr(result, "isError", None))),
        "structured": getattr(result, "structured_content", getattr(result, "structuredContent", None)),
        "text": result.content[0].text,
    }


async def call_everything(session, answers):
    listed = await session.list_tools()
    answers["tools"] = [tool.name for tool in listed.tools]
    first = parsed(await session.call_tool("list_sessions", {"limit": 500, "maxChars": 100000}))
    assert not first["error"], first
    sessions = first["structured"]["sessions"]
    answers["sessions"] = len(sessions)
    for tool in answers["tools"]:
        if tool == "list_sessions":
            continue
        if tool == "find_similar_turns":
            result = parsed(await session.call_tool(tool, {"question": "which key?"}))
            assert not result["error"], result
            answers[tool] = "called"
            continue
        for session_id in [row["id"] for row in sessions]:
            arguments = {"sessionID": session_id}
            if tool == "search_sessions":
                arguments["query"] = "the"
            result = parsed(await session.call_tool(tool, arguments))
            assert not result["error"], (tool, session_id, result)
            assert result["text"].startswith("Recorded data from "), result
            if "session" in result["structured"]:
                assert result["structured"]["session"]["id"] == session_id
        answers[tool] = "called"
    refused = parsed(await session.call_tool("get_session_history", {"sessionID": "absent"}))
    assert refused["error"] and json.loads(refused["text"])["code"] == "session_not_found", refused
    resources = await session.list_resources()
    answers["resources"] = len(resources.resources)
    read = await session.read_resource(resources.resources[0].uri)
    assert read.contents[0].text.startswith("Recorded data from ")
    prompt = await session.get_prompt("recall", {"question": "which key?"})
    assert "search_sessions" in prompt.messages[0].content.text


async def newest(kind, rest, answers):
    from mcp import Client, StdioServerParameters

    if kind == "http":
        target = rest[0]
    else:
        target = StdioServerParameters(command=rest[0], args=rest[1:], env=dict(os.environ))
    async with Client(target) as client:
        answers["version"] = str(getattr(client, "protocol_version", ""))
        await call_everything(client, answers)


async def older(kind, rest, answers):
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client
    from mcp.client.streamable_http import streamablehttp_client

    if kind == "http":
        streams = streamablehttp_client(rest[0])
    else:
        streams = stdio_client(StdioServerParameters(command=rest[0], args=rest[1:], env=dict(os.environ)))
    async with streams as (read, write, *_):
        async with ClientSession(read, write) as session:
            initialized = await session.initialize()
            answers["version"] = str(initialized.protocolVersion)
            await call_everything(session, answers)


def main():
    which, kind, *rest = sys.argv[1:]
    answers = {}
    asyncio.run({"newest": newest, "older": older}[which](kind, rest, answers))
    print(json.dumps(answers))


main()
