"""The ways in which the SDKs can read an answer.

Each reader lets an SDK read one answer and adds to a `Told` what the SDK returns, as it arrives: when the SDK raises an
error on a broken answer, the `Told` holds what arrived before.
"""

import base64
import json

from told import add, dumped, failed

# ---- Chat Completions ------------------------------------------------------------------------------------------------

ASKED = [{"role": "user", "content": "?"}]


def chat_message(message, told, index):
    if index:
        told.others[index] = told.others.get(index, "") + (message.content or "")
        return
    add(told.texts, 0, message.content)
    add(told.refusals, 0, message.refusal)
    thought = getattr(message, "reasoning_content", None)
    if thought:
        told.thought(0)["text"] += thought
    for place, call in enumerate(message.tool_calls or []):
        known = told.call(getattr(call, "index", None) or (0 if hasattr(call, "index") else place))
        known["id"] = call.id or known["id"]
        # Chunks have no type for custom tools: their members are plain JSON.
        custom = getattr(call, "custom", None)
        custom = custom if isinstance(custom, dict) else custom and custom.model_dump()
        body = custom or (call.function and call.function.model_dump()) or {}
        known["name"] += body.get("name") or ""
        known["arguments"] += body.get("arguments") or body.get("input") or ""


def chat_finish(choice, told):
    """Records a finish reason. A response is complete when all of its answers have finished."""
    told.finishes[choice.index] = choice.finish_reason or told.finishes.get(choice.index)
    told.finish = told.finishes.get(0) if all(told.finishes.values()) else None


def chat_head(answer, told):
    told.model = told.model or answer.model
    if answer.usage:
        told.usage = dumped(answer.usage)
        prompt, completion = answer.usage.prompt_tokens_details, answer.usage.completion_tokens_details
        cached, written = (prompt and prompt.cached_tokens) or 0, (prompt and prompt.cache_write_tokens) or 0
        reasoning = (completion and completion.reasoning_tokens) or 0
        told.counts = [
            answer.usage.prompt_tokens - cached - written,
            answer.usage.completion_tokens - reasoning,
            reasoning,
            cached,
            written,
        ]


def chat_events(clients, model, told):
    options = {"include_usage": True}
    for chunk in clients.openai.chat.completions.create(
        model=model, messages=ASKED, stream=True, stream_options=options
    ):
        chat_head(chunk, told)
        for choice in chunk.choices:
            chat_message(choice.delta, told, choice.index)
            chat_finish(choice, told)


def chat_helper(clients, model, told):
    completion = None
    try:
        with clients.openai.chat.completions.stream(model=model, messages=ASKED) as stream:
            for event in stream:
                completion = event.snapshot if event.type == "chunk" else completion
    finally:
        if completion:
            chat_completion(completion, told)


def chat_whole(clients, model, told):
    chat_completion(clients.openai.chat.completions.create(model=model, messages=ASKED), told)


def chat_completion(completion, told):
    chat_head(completion, told)
    for choice in completion.choices:
        chat_message(choice.message, told, choice.index)
        chat_finish(choice, told)


# ---- Responses -------------------------------------------------------------------------------------------------------

CALLS = ("function_call", "custom_tool_call")


def responses_item(index, item, told):
    if item.type in CALLS:
        known = told.call(index)
        known["id"], known["name"] = item.call_id, item.name
        known["arguments"] = item.arguments if item.type == "function_call" else item.input
    elif item.type == "message":
        for place, part in enumerate(item.content):
            if part.type == "output_text":
                told.texts[index, place] = part.text
            elif part.type == "refusal":
                told.refusals[index, place] = part.refusal
    elif item.type == "reasoning":
        thought = told.thought(index)
        thought["sealed"] = item.encrypted_content
        thought["text"] = "\n\n".join(part.text for part in [*item.summary, *(item.content or [])])


def responses_end(response, told):
    told.model = response.model
    told.finish = response.incomplete_details.reason if response.incomplete_details else response.status
    if response.usage:
        usage = response.usage
        told.usage = dumped(usage)
        cached, written = usage.input_tokens_details.cached_tokens, usage.input_tokens_details.cache_write_tokens
        reasoning = usage.output_tokens_details.reasoning_tokens
        told.counts = [
            usage.input_tokens - cached - written,
            usage.output_tokens - reasoning,
            reasoning,
            cached,
            written,
        ]
    if response.error:
        error = response.error
        told.error = failed("told", "response.failed", [error.code], error.message, dumped(error))


def responses_event(event, told):
    place = getattr(event, "output_index", None)
    if event.type == "response.output_text.delta":
        add(told.texts, (place, event.content_index), event.delta)
    elif event.type == "response.refusal.delta":
        add(told.refusals, (place, event.content_index), event.delta)
    elif event.type in ("response.reasoning_summary_text.delta", "response.reasoning_text.delta"):
        thought = told.thought(place)
        part = getattr(event, "summary_index", None), getattr(event, "content_index", None)
        thought["text"] += ("\n\n" if thought.setdefault("part", part) != part else "") + event.delta
        thought["part"] = part
    elif event.type in ("response.function_call_arguments.delta", "response.custom_tool_call_input.delta"):
        told.call(place)["arguments"] += event.delta
    elif event.type == "response.output_item.added" and event.item.type in CALLS:
        told.call(place).update(id=event.item.call_id, name=event.item.name)
    elif event.type == "response.output_item.added" and event.item.type == "reasoning":
        told.thought(place)
    elif event.type == "response.output_item.done" and event.item.type == "reasoning":
        told.thought(place)["sealed"] = event.item.encrypted_content
    elif event.type == "error":
        told.error = failed("told", "error", [event.code], event.message, dumped(event))
    elif event.type in ("response.completed", "response.incomplete", "response.failed"):
        responses_end(event.response, told)
    elif event.type == "response.created":
        told.model = event.response.model


def responses_events(clients, model, told):
    for event in clients.openai.responses.create(model=model, input="?", stream=True):
        responses_event(event, told)


def responses_helper(clients, model, told):
    final = None
    with clients.openai.responses.stream(model=model, input="?") as stream:
        for event in stream:
            place = getattr(event, "output_index", None)
            if event.type == "response.output_text.delta":
                told.texts[place, event.content_index] = event.snapshot
            elif event.type == "response.function_call_arguments.delta":
                told.call(place)["arguments"] = event.snapshot
            else:
                responses_event(event, told)
            if event.type in ("response.completed", "response.incomplete", "response.failed"):
                final = event.response
    if final:
        responses_output(final, told)


def responses_whole(clients, model, told):
    response = clients.openai.responses.create(model=model, input="?")
    responses_output(response, told)
    responses_end(response, told)


def responses_output(response, told):
    for index, item in enumerate(response.output):
        responses_item(index, item, told)


# ---- Messages --------------------------------------------------------------------------------------------------------

TOOLS = ("tool_use", "server_tool_use")


def anthropic_counts(usage, told):
    told.usage = {**(told.usage or {}), **{key: value for key, value in dumped(usage).items() if value is not None}}
    thinking = told.usage.get("output_tokens_details", {}).get("thinking_tokens", 0)
    told.counts = [
        told.usage.get("input_tokens", 0),
        told.usage.get("output_tokens", 0) - thinking,
        thinking,
        told.usage.get("cache_read_input_tokens", 0),
        told.usage.get("cache_creation_input_tokens", 0),
    ]


def anthropic_block(index, block, told, arguments=None):
    if block.type == "text":
        told.texts[index] = block.text
    elif block.type == "thinking":
        told.thoughts[index] = {"text": block.thinking, "signature": block.signature or None, "sealed": None}
    elif block.type == "redacted_thinking":
        told.thoughts[index] = {"text": "", "signature": None, "sealed": block.data}
    elif block.type in TOOLS:
        told.call(index).update(id=block.id, name=block.name, arguments=arguments)


def anthropic_events(clients, model, told):
    inputs = {}
    for event in clients.anthropic.messages.create(model=model, max_tokens=9, messages=ASKED, stream=True):
        if event.type == "message_start":
            told.model = event.message.model
            anthropic_counts(event.message.usage, told)
        elif event.type == "content_block_start":
            anthropic_block(event.index, event.content_block, told, "")
            inputs[event.index] = json.dumps(getattr(event.content_block, "input", None))
        elif event.type == "content_block_delta":
            anthropic_delta(event.index, event.delta, told)
        elif event.type == "content_block_stop" and event.index in told.calls:
            told.calls[event.index]["arguments"] = told.calls[event.index]["arguments"] or inputs[event.index]
        elif event.type == "message_delta":
            anthropic_counts(event.usage, told)
            told.finish = event.delta.stop_reason


def anthropic_delta(index, delta, told):
    if delta.type == "text_delta":
        told.texts[index] += delta.text
    elif delta.type == "thinking_delta":
        told.thoughts[index]["text"] += delta.thinking
    elif delta.type == "signature_delta":
        told.thoughts[index]["signature"] = (told.thoughts[index]["signature"] or "") + delta.signature
    elif delta.type == "input_json_delta":
        told.calls[index]["arguments"] += delta.partial_json


def anthropic_helper(clients, model, told):
    begun, inputs, unread = False, {}, set()
    with clients.anthropic.messages.stream(model=model, max_tokens=9, messages=ASKED) as stream:
        try:
            for event in stream:
                begun = True
                if event.type == "content_block_delta" and event.delta.type == "input_json_delta":
                    add(inputs, event.index, event.delta.partial_json)
        finally:
            for index, text in inputs.items():
                if not is_json(text):
                    unread.add(index)
            if begun:
                anthropic_message(stream.current_message_snapshot, told, unread)


def is_json(text):
    try:
        json.loads(text or "{}")
    except json.JSONDecodeError:
        return False
    return True


def anthropic_whole(clients, model, told):
    anthropic_message(clients.anthropic.messages.create(model=model, max_tokens=9, messages=ASKED), told, ())


def anthropic_message(message, told, unread):
    told.model, told.finish = message.model, message.stop_reason
    anthropic_counts(message.usage, told)
    for index, block in enumerate(message.content):
        # For an input that is not complete JSON yet, the helper returns a guess, which is ignored.
        arguments = None if index in unread else json.dumps(getattr(block, "input", None))
        anthropic_block(index, block, told, arguments)


# ---- Gemini ----------------------------------------------------------------------------------------------------------


def gemini_answer(answer, told):
    told.model = answer.model_version or told.model
    if answer.usage_metadata:
        usage = answer.usage_metadata
        told.usage = dumped(usage)
        cached = usage.cached_content_token_count or 0
        told.counts = [
            (usage.prompt_token_count or 0) - cached,
            usage.candidates_token_count or 0,
            usage.thoughts_token_count or 0,
            cached,
            0,
        ]
    feedback = answer.prompt_feedback
    if feedback and feedback.block_reason:
        codes, message = [feedback.block_reason.value], feedback.block_reason_message
        told.error = failed("told", "prompt_feedback", codes, message, dumped(feedback))
    for candidate in answer.candidates or []:
        for part in (candidate.content and candidate.content.parts) or []:
            gemini_part(part, told)
        told.finish = candidate.finish_reason.value if candidate.finish_reason else told.finish


def gemini_part(part, told):
    signature = base64.b64encode(part.thought_signature).decode() if part.thought_signature else None
    place = len(told.texts) + len(told.thoughts) + len(told.calls)
    if part.function_call:
        call = part.function_call
        told.call(place).update(id=call.id, name=call.name, arguments=json.dumps(call.args or {}), signature=signature)
    elif part.thought:
        last = max(told.thoughts, default=-1)
        thought = told.thought(last if last >= 0 and last == place - 1 else place)
        thought["text"] += part.text
        thought["signature"] = signature or thought["signature"]
    elif part.text:
        told.texts[place] = part.text


def gemini_events(clients, model, told):
    for answer in clients.gemini.models.generate_content_stream(model=model, contents="?"):
        gemini_answer(answer, told)


def gemini_whole(clients, model, told):
    gemini_answer(clients.gemini.models.generate_content(model=model, contents="?"), told)


# ---- All -------------------------------------------------------------------------------------------------------------

# The ways in which an SDK can read an answer, by format and by whether a stream was requested.
READERS = {
    ("openai-chat", True): {"events": chat_events, "helper": chat_helper},
    ("openai-chat", False): {"whole": chat_whole},
    ("openai-responses", True): {"events": responses_events, "helper": responses_helper},
    ("openai-responses", False): {"whole": responses_whole},
    ("anthropic", True): {"events": anthropic_events, "helper": anthropic_helper},
    ("anthropic", False): {"whole": anthropic_whole},
    ("gemini", True): {"events": gemini_events},
    ("gemini", False): {"whole": gemini_whole},
}
