"""Validates conversation histories against the request types of the providers' official SDKs.

Reads JSON lines {"provider": ..., "messages": [...]} on stdin. Prints one JSON line {"line": n, "what": ...} for each
breach, n counted from 1, and {"checked": n} as the last line. Exit status 3: the types of these SDK versions do not
refuse what they must (see self_test), so that a check with them would prove nothing.
"""

import collections.abc
import json
import os
import sys
import types
import typing

import typing_extensions
from anthropic.types import MessageParam
from google.genai import types as genai
from openai.types.chat import ChatCompletionMessageParam
from openai.types.responses import ResponseInputItemParam
from pydantic import BaseModel, TypeAdapter, ValidationError

NOT_JSON = {typing.IO, os.PathLike}
UNIONS = {typing.Union, types.UnionType}
ARRAYS = {list, collections.abc.Iterable, collections.abc.Sequence}
# The field is described as required, but the SDK's own Part.from_uri leaves it unset for uploaded files.
NOT_REQUIRED = {("FileData", "mime_type")}


def closed(kind, seen):
    """Closes every TypedDict in `kind`, and replaces every lazy Iterable by a list, which is validated to its end."""
    if typing_extensions.is_typeddict(kind):
        close(kind, seen)
        return kind
    origin = typing_extensions.get_origin(kind)
    if origin is None or origin is typing_extensions.Literal or origin is typing.Literal:
        return kind
    if origin is typing_extensions.Annotated:
        return closed(kind.__origin__, seen)
    arguments = [closed(each, seen) for each in typing_extensions.get_args(kind) if is_json(each)]
    if origin in ARRAYS:
        return list[arguments[0]]
    if origin is dict or origin is collections.abc.Mapping:
        return dict[arguments[0], arguments[1]]
    if origin is typing_extensions.Required:
        return typing_extensions.Required[arguments[0]]
    if origin is typing_extensions.NotRequired:
        return typing_extensions.NotRequired[arguments[0]]
    if origin in UNIONS:
        return typing.Union[tuple(arguments)]
    raise TypeError(f"cannot close {kind!r}")


def is_json(kind):
    """Whether a JSON value can have this type: no file handle, no path, no object that the SDK built from a response."""
    origin = typing_extensions.get_origin(kind)
    if origin is typing_extensions.Annotated:
        return is_json(kind.__origin__)
    if origin in UNIONS:
        return any(map(is_json, typing_extensions.get_args(kind)))
    bare = origin or kind
    return bare not in NOT_JSON and not (isinstance(bare, type) and issubclass(bare, BaseModel))


def close(kind, seen):
    if kind in seen:
        return
    seen.add(kind)
    hints = typing_extensions.get_type_hints(kind, include_extras=True)
    kind.__annotations__ = {key: closed(hint, seen) for key, hint in hints.items()}
    config = getattr(kind, "__pydantic_config__", {})
    kind.__pydantic_config__ = {**config, "extra": "forbid", "arbitrary_types_allowed": True}


def adapter(item):
    return TypeAdapter(list[closed(item, set())])


def typed_dict_check(item):
    validator = adapter(item)

    def check(messages):
        try:
            validator.validate_python(messages, strict=True)
        except ValidationError as error:
            return explain(error, messages)
        return []

    return check


def explain(error, messages):
    """Describes the breaches; where a union refused a value, only those of the member that fits best."""
    errors = [(each["loc"], each["type"], each["msg"]) for each in error.errors(include_url=False)]
    return [f"{'.'.join(map(str, place))}: {message}" for place, _, message in best(errors, (), messages)]


def best(errors, place, value):
    """The errors of `value`, with locations relative to it, as (path in the history, type, message)."""
    leaves, below, members = [], {}, {}
    for location, kind, message in errors:
        if not location or (kind == "missing" and len(location) == 1):
            leaves.append(((*place, *location), kind, message))
            continue
        step, rest = location[0], (location[1:], kind, message)
        inside = isinstance(value, list) and isinstance(step, int) or isinstance(value, dict) and step in value
        (below if inside else members).setdefault(step, []).append(rest)
    for step, rest in below.items():
        leaves.extend(best(rest, (*place, step), value[step]))
    if members:
        found = [best(rest, place, value) for rest in members.values()]
        leaves.extend(min(found, key=lambda breaches: misfit(breaches, place)))
    return leaves


def misfit(breaches, place):
    tags = {(*place, "role"), (*place, "type")}
    wrong_tag = any(where in tags and kind in ("literal_error", "missing") for where, kind, _ in breaches)
    wrong_kind = any(where == place for where, _, _ in breaches)
    return wrong_kind, wrong_tag, len(breaches)


def gemini_check(messages):
    if not isinstance(messages, list):
        return ["messages: not a list"]
    breaches = []
    for index, content in enumerate(messages):
        try:
            genai.Content.model_validate_json(json.dumps(content), strict=True)
        except ValidationError as error:
            for each in error.errors(include_url=False):
                place = ".".join(map(str, (index, *each["loc"])))
                breaches.append(f"{place}: {each['msg']}")
        else:
            breaches.extend(missing(genai.Content, content, str(index)))
    return breaches


def missing(model, value, place):
    """Reports missing required fields: the SDK's models enforce none, but the fields' descriptions begin with "Required."."""
    for name, field in model.model_fields.items():
        given = value.get(field.alias or name, value.get(name))
        required = (field.description or "").startswith("Required.")
        if given is None:
            if required and (model.__name__, name) not in NOT_REQUIRED:
                yield f"{place}.{field.alias or name}: Field required"
            continue
        inner = model_in(field.annotation)
        if inner and isinstance(given, dict):
            yield from missing(inner, given, f"{place}.{field.alias or name}")
        elif inner and isinstance(given, list):
            for index, each in enumerate(given):
                yield from missing(inner, each, f"{place}.{field.alias or name}.{index}")


def model_in(kind):
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind
    found = (model_in(each) for each in typing.get_args(kind))
    return next((each for each in found if each), None)


CHECKS = {
    "openai-chat": typed_dict_check(ChatCompletionMessageParam),
    "openai-responses": typed_dict_check(ResponseInputItemParam),
    "anthropic": typed_dict_check(MessageParam),
    "gemini": gemini_check,
}

IMAGE = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
SAMPLES = {
    "openai-chat": ({"role": "user", "content": [IMAGE]}, ("content", 0, "image_url"), "url"),
    "openai-responses": (
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "x"}]},
        ("summary", 0),
        "text",
    ),
    "anthropic": (
        {"role": "user", "content": [{"type": "text", "text": "x"}]},
        ("content", 0),
        "text",
    ),
    "gemini": (
        {"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": "AAAA"}}]},
        ("parts", 0, "inlineData"),
        "mimeType",
    ),
}


def changed(sample, path, change):
    copy = json.loads(json.dumps(sample))
    target = copy
    for step in path:
        target = target[step]
    change(target)
    return copy


def self_test():
    """Each provider's types must accept a sample, and refuse three changes deep inside it and one at its top."""
    for provider, (sample, path, member) in SAMPLES.items():
        check = CHECKS[provider]
        changes = {
            "an extra member": (path, lambda target: target.update(surplus=1)),
            "an extra member at the top": ((), lambda target: target.update(surplus=1)),
            "a wrong type": (path, lambda target: target.update({member: 7})),
            "a member missing": (path, lambda target: target.pop(member)),
        }
        if check([sample]):
            return f"{provider}: a valid history was refused: {check([sample])}"
        for name, (place, change) in changes.items():
            if not check([changed(sample, place, change)]):
                return f"{provider}: {name} was accepted"
    return None


def main():
    failure = self_test()
    if failure:
        print(failure, file=sys.stderr)
        return 3
    checked = 0
    for checked, line in enumerate(sys.stdin, 1):
        history = json.loads(line)
        for what in CHECKS[history["provider"]](history["messages"]):
            print(json.dumps({"line": checked, "what": what}))
    print(json.dumps({"checked": checked}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
