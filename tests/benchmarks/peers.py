"""The same call through other frameworks, against the same floor. `make bench` runs this where `make peers` has been.

One call of lookup_incident by name, through each framework's public way to run a tool, up to what JSON can hold;
all of them, keel too, in one process and in turns. Each gets its cheapest form: a body that is `async` where a plain
one would be sent to a thread, no model, no trace. So these are not the costs of a whole turn, and a low figure
is no merit by itself: the last column says what the call was judged for on its way. All schemas but keel's let "5"
pass for 5.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import itertools
import json
import os
import re
import subprocess
import time
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from typing import Any

from table import Row

import bootstrap

ROUNDS = 60
CALLS = 100
ARGUMENTS = {"incident_id": "INC-001"}
MISSING = "Rows for other frameworks, on the same call: `make peers` fetches them, then run this again."
FAILED = "Rows for other frameworks could not be measured. The last line that was said: {said}"
# None of the calls needs a network, a key or a tracer, so none is offered one.
HIDDEN = re.compile(r"^(OPENAI|LANGSMITH|LANGCHAIN|LOGFIRE|OTEL|PYTHONPATH)")

Call = Callable[[], Any] | Callable[[], Awaitable[Any]]


def rows(place: bootstrap.Place) -> tuple[list[Row], str | None]:
    """What others cost, measured in their own environment; without one no rows, and the line that says so."""
    beside = bootstrap.peers_place(place)
    if not bootstrap.is_ready(beside):
        return [], MISSING
    environ = {name: value for name, value in os.environ.items() if not HIDDEN.match(name)}
    environ["PYTHONPATH"] = place.root
    done = subprocess.run([beside.python, __file__], capture_output=True, text=True, check=False, env=environ)
    if done.returncode:
        return [], FAILED.format(said="".join(done.stderr.strip().splitlines()[-1:]))
    return [Row(*row) for row in json.loads(done.stdout.splitlines()[-1])], None


async def by_keel() -> Call:
    from run import make

    from keel import ToolCall

    harness, context = make(10)
    call = ToolCall(call_id="c-1", name="lookup_incident", arguments=ARGUMENTS)
    return lambda: harness.execute(call, context).data


async def by_pydantic_ai() -> Call:
    from pydantic_ai import RunContext
    from pydantic_ai.messages import ToolCallPart, ToolReturnPart
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.tool_manager import ToolManager
    from pydantic_ai.toolsets import FunctionToolset
    from pydantic_ai.usage import RunUsage

    tools = FunctionToolset()
    tools.add_function(body(dumps=False))
    context = RunContext(deps=None, model=TestModel(), usage=RunUsage())
    manager = await ToolManager(tools).for_run_step(context)
    part = ToolCallPart("lookup_incident", ARGUMENTS, tool_call_id="c-1")

    async def call() -> Any:
        returned = await manager.handle_call(part)
        return ToolReturnPart("lookup_incident", returned, tool_call_id="c-1").model_response_object()

    return call


async def by_openai_agents() -> Call:
    from agents import function_tool
    from agents.tool_context import ToolContext

    tools = {"lookup_incident": function_tool(body(dumps=True))}
    text = json.dumps(ARGUMENTS)

    async def call() -> Any:
        context = ToolContext(None, tool_name="lookup_incident", tool_call_id="c-1", tool_arguments=text)
        return await tools["lookup_incident"].on_invoke_tool(context, text)

    return call


async def by_langchain_core() -> Call:
    tools = {"lookup_incident": langchain_tool()}
    return lambda: tools["lookup_incident"].invoke(langchain_call()).content


async def by_langgraph() -> Call:
    from langchain_core.messages import AIMessage
    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode

    graph = StateGraph(MessagesState).add_node("tools", ToolNode([langchain_tool()])).add_edge(START, "tools").compile()

    def call() -> Any:
        state = graph.invoke({"messages": [AIMessage("", tool_calls=[langchain_call()])]})
        return state["messages"][-1].content

    return call


async def by_mcp() -> Call:
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("desk")
    server.add_tool(body(dumps=False))

    async def call() -> Any:
        return (await server.call_tool("lookup_incident", ARGUMENTS)).structured_content

    return call


# The function, what to call it, its package, what a call is judged for on this way unless something is added to it.
MEASURED = (
    (by_keel, "keel, in the same run as those below", None, "name, permission, schema (strict), output"),
    (by_pydantic_ai, "pydantic-ai", "pydantic-ai-slim", "name, schema"),
    (by_openai_agents, "openai-agents' FunctionTool", "openai-agents", "schema"),
    (by_langchain_core, "langchain-core's StructuredTool", "langchain-core", "schema"),
    (by_langgraph, "langgraph's ToolNode, one-node graph", "langgraph", "name, schema"),
    (by_mcp, "mcp's MCPServer", "mcp", "name, schema, output"),
)


def body(dumps: bool) -> Callable[..., Awaitable[Any]]:
    """The course's tool as a coroutine; it dumps by itself where the framework would not make JSON of a model."""
    from run import lookup_incident as look_up

    from keel.lab.world import Incident, IncidentId

    async def lookup_incident(incident_id: IncidentId) -> Incident:
        """Look up one incident by its id."""
        found = look_up(incident_id)
        return found.model_dump(mode="json") if dumps else found

    # Annotations as they are: some frameworks look names up in this module alone.
    lookup_incident.__annotations__ = {"incident_id": IncidentId, "return": dict[str, Any] if dumps else Incident}
    return lookup_incident


def langchain_tool() -> Any:
    from langchain_core.tools import StructuredTool
    from run import lookup_incident

    from keel.lab.world import IncidentId

    def dumped(incident_id: Any) -> dict[str, Any]:
        """Look up one incident by its id."""
        return lookup_incident(incident_id).model_dump(mode="json")

    dumped.__annotations__ = {"incident_id": IncidentId, "return": dict[str, Any]}
    return StructuredTool.from_function(dumped, name="lookup_incident")


def langchain_call() -> dict[str, Any]:
    return {"type": "tool_call", "id": "c-1", "name": "lookup_incident", "args": ARGUMENTS}


async def spent(call: Call, calls: int) -> float:
    """Seconds for so many calls, in the loop that is running already."""
    waits = inspect.iscoroutinefunction(call)
    start = time.perf_counter()
    if waits:
        for _ in itertools.repeat(None, calls):
            await call()
    else:
        for _ in itertools.repeat(None, calls):
            call()
    return time.perf_counter() - start


async def measure() -> list[Row]:
    """Every framework's smallest time against the floor's, all measured in turns."""
    from run import floor

    least = floor(ARGUMENTS)
    calls = [await make() for make, *_ in MEASURED]
    smallest = [float("inf")] * (1 + len(calls))
    for call in calls:
        got = call()
        got = await got if inspect.isawaitable(got) else got
        assert (json.loads(got) if isinstance(got, str) else got) == least()
    gc.disable()
    gc.freeze()  # so that what is collected between the rounds is what the rounds left
    for _ in range(ROUNDS):
        for at, call in enumerate((least, *calls)):
            smallest[at] = min(smallest[at], await spent(call, CALLS))
        gc.collect()
    gc.enable()
    named = [name if package is None else f"{name} {version(package)}" for _, name, package, _ in MEASURED]
    return [
        Row(f"dispatch by {name}", figure / smallest[0], None, judged)
        for name, figure, (*_, judged) in zip(named, smallest[1:], MEASURED, strict=True)
    ]


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure())))
