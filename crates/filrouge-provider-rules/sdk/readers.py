"""The ways in which the SDKs can read an answer.

Each reader lets an SDK read one answer and adds to a `StreamReport` what the SDK returns, as it arrives: when the SDK raises an
error on a broken answer, the `StreamReport` holds what arrived before.
"""

import base64
import json

from report import add, dumped, failed

# ---- Chat Completions ------------------------------------------------------------------------------------------------

ASKED = [{"role": "user", "content": "?"}]


def chat_message(message, report, index):
    if index:
        report.others[index] = report.others.get(index, "") + (message.content or "")
        return
    add(report.texts, 0, message.content)
    add(report.refusals, 0, message.refusal)
    thought = getattr(message, "reasoning_content", None)
    if thought:
        report.thought(0)["text"] += thought
    for place, call in enumerate(message.tool_calls or []):
        known = report.call(getattr(call, "index", None) or (0 if hasattr(call, "index") else place))
        known["id"] = call.id or known["id"]
        # Chunks have no type for custom tools: their members are plain JSON.
        custom = getattr(call, "custom", None)
        custom = custom if isinstance(custom, dict) else custom and custom.model_dump()
        body = custom or (call.function and call.function.model_dump()) or {}
        known["name"] += body.get("name") or ""
        known["arguments"] += body.get("arguments") or body.get("input") or ""


def chat_finish(choice, report):
    """Records a finish reason. A response is complete when all of its answers have finished."""
    report.finishes[choice.index] = choice.finish_reason or report.finishes.get(choice.index)
    report.finish = report.finishes.get(0) if all(report.finishes.values()) else None


def chat_head(answer, report):
    report.model = report.model or answer.model
    if answer.usage:
        report.usage = dumped(answer.usage)
        prompt, completion = answer.usage.prompt_tokens_details, answer.usage.completion_tokens_details
        cached, written = (prompt and prompt.cached_tokens) or 0, (prompt and prompt.cache_write_tokens) or 0
        reasoning = (completion and completion.reasoning_tokens) or 0
        report.counts = [
            answer.usage.prompt_tokens - cached - written,
            answer.usage.completion_tokens - reasoning,
            reasoning,
            cached,
            written,
        ]


def chat_events(clients, model, report):
    options = {"include_usage": True}
    for chunk in clients.openai.chat.completions.create(
        model=model, messages=ASKED, stream=True, stream_options=options
    ):
        chat_head(chunk, report)
        for choice in chunk.choices:
            chat_message(choice.delta, report, choice.index)
            chat_finish(choice, report)


def chat_helper(clients, model, report):
    completion = None
    try:
        with clients.openai.chat.completions.stream(model=model, messages=ASKED) as stream:
            for event in stream:
                completion = event.snapshot if event.type == "chunk" else completion
    finally:
        if completion:
            chat_completion(completion, report)


def chat_whole(clients, model, report):
    chat_completion(clients.openai.chat.completions.create(model=model, messages=ASKED), report)


def chat_completion(completion, report):
    chat_head(completion, report)
    for choice in completion.choices:
        chat_message(choice.message, report, choice.index)
        chat_finish(choice, report)


# ---- Responses -------------------------------------------------------------------------------------------------------

CALLS = ("function_call", "custom_tool_call")


def responses_item(index, item, report):
    if item.type in CALLS:
        known = report.call(index)
        known["id"], known["name"] = item.call_id, item.name
        known["arguments"] = item.arguments if item.type == "function_call" else item.input
    elif item.type == "message":
        for place, part in enumerate(item.content):
            if part.type == "output_text":
                report.texts[index, place] = part.text
            elif part.type == "refusal":
                report.refusals[index, place] = part.refusal
    elif item.type == "reasoning":
        thought = report.thought(index)
        thought["sealed"] = item.encrypted_content
        thought["text"] = "\n\n".join(part.text for part in [*item.summary, *(item.content or [])])


def responses_end(response, report):
    report.model = response.model
    report.finish = response.incomplete_details.reason if response.incomplete_details else response.status
    if response.usage:
        usage = response.usage
        report.usage = dumped(usage)
        cached, written = usage.input_tokens_details.cached_tokens, usage.input_tokens_details.cache_write_tokens
        reasoning = usage.output_tokens_details.reasoning_tokens
        report.counts = [
            usage.input_tokens - cached - written,
            usage.output_tokens - reasoning,
            reasoning,
            cached,
            written,
        ]
    if response.error:
        error = response.error
        report.error = failed("report", "response.failed", [error.code], error.message, dumped(error))


def responses_event(event, report):
    place = getattr(event, "output_index", None)
    if event.type == "response.output_text.delta":
        add(report.texts, (place, event.content_index), event.delta)
    elif event.type == "response.refusal.delta":
        add(report.refusals, (place, event.content_index), event.delta)
    elif event.type in ("response.reasoning_summary_text.delta", "response.reasoning_text.delta"):
        thought = report.thought(place)
        part = getattr(event, "summary_index", None), getattr(event, "content_index", None)
        thought["text"] += ("\n\n" if thought.setdefault("part", part) != part else "") + event.delta
        thought["part"] = part
    elif event.type in ("response.function_call_arguments.delta", "response.custom_tool_call_input.delta"):
        report.call(place)["arguments"] += event.delta
    elif event.type == "response.output_item.added" and event.item.type in CALLS:
        report.call(place).update(id=event.item.call_id, name=event.item.name)
    elif event.type == "response.output_item.added" and event.item.type == "reasoning":
        report.thought(place)
    elif event.type == "response.output_item.done" and event.item.type == "reasoning":
        report.thought(place)["sealed"] = event.item.encrypted_content
    elif event.type == "error":
        report.error = failed("report", "error", [event.code], event.message, dumped(event))
    elif event.type in ("response.completed", "response.incomplete", "response.failed"):
        responses_end(event.response, report)
    elif event.type == "response.created":
        report.model = event.response.model


def responses_events(clients, model, report):
    for event in clients.openai.responses.create(model=model, input="?", stream=True):
        responses_event(event, report)


def responses_helper(clients, model, report):
    final = None
    with clients.openai.responses.stream(model=model, input="?") as stream:
        for event in stream:
            place = getattr(event, "output_index", None)
            if event.type == "response.output_text.delta":
                report.texts[place, event.content_index] = event.snapshot
            elif event.type == "response.function_call_arguments.delta":
                report.call(place)["arguments"] = event.snapshot
            else:
                responses_event(event, report)
            if event.type in ("response.completed", "response.incomplete", "response.failed"):
                final = event.response
    if final:
        responses_output(final, report)


def responses_whole(clients, model, report):
    response = clients.openai.responses.create(model=model, input="?")
    responses_output(response, report)
    responses_end(response, report)


def responses_output(response, report):
    for index, item in enumerate(response.output):
        responses_item(index, item, report)


# ---- Messages --------------------------------------------------------------------------------------------------------

TOOLS = ("tool_use", "server_tool_use")


def anthropic_counts(usage, report):
    report.usage = {**(report.usage or {}), **{key: value for key, value in dumped(usage).items() if value is not None}}
    thinking = report.usage.get("output_tokens_details", {}).get("thinking_tokens", 0)
    report.counts = [
        report.usage.get("input_tokens", 0),
        report.usage.get("output_tokens", 0) - thinking,
        thinking,
        report.usage.get("cache_read_input_tokens", 0),
        report.usage.get("cache_creation_input_tokens", 0),
    ]


def anthropic_block(index, block, report, arguments=None):
    if block.type == "text":
        report.texts[index] = block.text
    elif block.type == "thinking":
        report.thoughts[index] = {"text": block.thinking, "signature": block.signature or None, "sealed": None}
    elif block.type == "redacted_thinking":
        report.thoughts[index] = {"text": "", "signature": None, "sealed": block.data}
    elif block.type in TOOLS:
        report.call(index).update(id=block.id, name=block.name, arguments=arguments)


def anthropic_events(clients, model, report):
    inputs = {}
    for event in clients.anthropic.messages.create(model=model, max_tokens=9, messages=ASKED, stream=True):
        if event.type == "message_start":
            report.model = event.message.model
            anthropic_counts(event.message.usage, report)
        elif event.type == "content_block_start":
            anthropic_block(event.index, event.content_block, report, "")
            inputs[event.index] = json.dumps(getattr(event.content_block, "input", None))
        elif event.type == "content_block_delta":
            anthropic_delta(event.index, event.delta, report)
        elif event.type == "content_block_stop" and event.index in report.calls:
            report.calls[event.index]["arguments"] = report.calls[event.index]["arguments"] or inputs[event.index]
        elif event.type == "message_delta":
            anthropic_counts(event.usage, report)
            report.finish = event.delta.stop_reason


def anthropic_delta(index, delta, report):
    if delta.type == "text_delta":
        report.texts[index] += delta.text
    elif delta.type == "thinking_delta":
        report.thoughts[index]["text"] += delta.thinking
    elif delta.type == "signature_delta":
        report.thoughts[index]["signature"] = (report.thoughts[index]["signature"] or "") + delta.signature
    elif delta.type == "input_json_delta":
        report.calls[index]["arguments"] += delta.partial_json


def anthropic_helper(clients, model, report):
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
                anthropic_message(stream.current_message_snapshot, report, unread)


def is_json(text):
    try:
        json.loads(text or "{}")
    except json.JSONDecodeError:
        return False
    return True


def anthropic_whole(clients, model, report):
    anthropic_message(clients.anthropic.messages.create(model=model, max_tokens=9, messages=ASKED), report, ())


def anthropic_message(message, report, unread):
    report.model, report.finish = message.model, message.stop_reason
    anthropic_counts(message.usage, report)
    for index, block in enumerate(message.content):
        # For an input that is not complete JSON yet, the helper returns a guess, which is ignored.
        arguments = None if index in unread else json.dumps(getattr(block, "input", None))
        anthropic_block(index, block, report, arguments)


# ---- Gemini ----------------------------------------------------------------------------------------------------------


def gemini_answer(answer, report):
    report.model = answer.model_version or report.model
    if answer.usage_metadata:
        usage = answer.usage_metadata
        report.usage = dumped(usage)
        cached = usage.cached_content_token_count or 0
        report.counts = [
            (usage.prompt_token_count or 0) - cached,
            usage.candidates_token_count or 0,
            usage.thoughts_token_count or 0,
            cached,
            0,
        ]
    feedback = answer.prompt_feedback
    if feedback and feedback.block_reason:
        codes, message = [feedback.block_reason.value], feedback.block_reason_message
        report.error = failed("report", "prompt_feedback", codes, message, dumped(feedback))
    for candidate in answer.candidates or []:
        for part in (candidate.content and candidate.content.parts) or []:
            gemini_part(part, report)
        report.finish = candidate.finish_reason.value if candidate.finish_reason else report.finish


def gemini_part(part, report):
    signature = base64.b64encode(part.thought_signature).decode() if part.thought_signature else None
    place = len(report.texts) + len(report.thoughts) + len(report.calls)
    if part.function_call:
        call = part.function_call
        report.call(place).update(id=call.id, name=call.name, arguments=json.dumps(call.args or {}), signature=signature)
    elif part.thought:
        last = max(report.thoughts, default=-1)
        thought = report.thought(last if last >= 0 and last == place - 1 else place)
        thought["text"] += part.text
        thought["signature"] = signature or thought["signature"]
    elif part.text:
        report.texts[place] = part.text


def gemini_events(clients, model, report):
    for answer in clients.gemini.models.generate_content_stream(model=model, contents="?"):
        gemini_answer(answer, report)


def gemini_whole(clients, model, report):
    gemini_answer(clients.gemini.models.generate_content(model=model, contents="?"), report)


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
