"""What of a request is new, compared with what a session holds."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from filrouge._record.held import Held
from filrouge._record.plan import Plan, PlannedTurn, plan
from filrouge._record.wires import ANTHROPIC, CHAT, GEMINI, RESPONSES, Wire

Json = dict[str, Any]


class Session:
    """A session in memory: it holds what plans record, and what a model says."""

    def __init__(self, wire: Wire = CHAT) -> None:
        self.wire, self.held, self.turns = wire, Held(), itertools.count(1)
        self._seq = itertools.count(1)
        self.newest = ""

    def ask(self, **body: Any) -> Plan:
        """Records what a request says."""
        planned = plan(self.wire.asked(body), self.held)
        for turn in [*planned.past, planned.turn]:
            self.record(turn)
        return planned

    def record(self, planned: PlannedTurn) -> None:
        """Records a turn."""
        self.newest = planned.turn_id or f"t{next(self.turns)}"
        if planned.turn_id is None:
            self.add("user", "question", {"type": "text", "text": planned.question})
        for item in planned.items:
            self.add(item["role"], item["channel"], *item["parts"])
        if planned.answer is not None:
            self.say(planned.answer)

    def add(self, role: Any, channel: str, *parts: Json) -> None:
        """Adds an item to the newest turn."""
        item: Any = {"seq": next(self._seq), "turn_id": self.newest, "role": role, "channel": channel, "parts": parts}
        self.held.add(item)

    def say(self, text: str) -> None:
        """The model answers."""
        self.add("assistant", "final", {"type": "text", "text": text})

    def call(self, call_id: str, name: str, args: Json) -> None:
        """The model calls a tool."""
        self.add("assistant", "tool_call", {"type": "tool_call", "call_id": call_id, "name": name, "args": args})

    def redact(self) -> None:
        """Erases the newest turn."""
        turn = self.held.newest_answer
        assert turn is not None
        turn.spoken.clear()


def user(text: str) -> Json:
    return {"role": "user", "content": text}


def model(text: str) -> Json:
    return {"role": "assistant", "content": text}


def chat_call(call_id: str | None, name: str = "look", text: str | None = None) -> Json:
    call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": '{"where": "left"}'}}
    return {"role": "assistant", "content": text, "tool_calls": [call]}


def result(call_id: str, content: str = "a wall") -> Json:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def texts(turn: PlannedTurn) -> list[str]:
    """The channels and texts of the planned items."""
    return [
        f"{item['channel']}: {part.get('text', part.get('content'))}" for item in turn.items for part in item["parts"]
    ]


def test_a_growing_list_adds_its_last_message() -> None:
    session = Session()
    messages = [user("one?")]
    assert session.ask(messages=messages).turn == PlannedTurn("one?", [])
    session.say("One.")
    messages += [model("One."), user("two?")]
    assert session.ask(messages=messages) == Plan([], PlannedTurn("two?", []), PlannedTurn("two?", []))
    session.say("Two.")
    messages += [model(" Two.\n"), user("one?")]
    assert session.ask(messages=messages).turn.question == "one?", "white space does not matter, and words may repeat"


def test_a_shortened_list_adds_its_last_message() -> None:
    session = Session()
    for text in ("one?", "two?", "three?"):
        session.ask(messages=[user(text)])
        session.say(text.upper())
    planned = session.ask(messages=[user("[summary]"), model("[understood]"), user("four?")])
    assert planned.past == [] and planned.turn == PlannedTurn("four?", [])
    session.say("Four.")
    assert session.ask(messages=[user("four?")]).turn == PlannedTurn("four?", []), "asked again"


def test_the_history_before_the_first_request_becomes_turns() -> None:
    planned = Session().ask(
        messages=[user("one?"), chat_call("c1", text="I look."), result("c1"), model("One."), user("two?")]
    )
    (past,) = planned.past
    assert (past.question, past.answer) == ("one?", "One.")
    assert texts(past) == ["observation: I look.", "tool_call: None", "tool_result: a wall"]
    assert planned.turn == PlannedTurn("two?", [])


def test_what_nobody_recorded_meanwhile_becomes_turns() -> None:
    session = Session()
    session.ask(messages=[user("one?")])
    session.say("One.")
    messages = [
        user("one?"),
        model("One."),
        user("two?"),
        model("Two."),
        user("three?"),
        chat_call("c9"),
        user("four?"),
    ]
    planned = session.ask(messages=messages)
    assert [(past.question, past.answer) for past in planned.past] == [("two?", "Two."), ("three?", None)]
    assert planned.turn.question == "four?"


def test_the_same_answer_to_another_question_is_another_answer() -> None:
    session = Session()
    session.ask(messages=[user("one?")])
    session.say("Done.")
    planned = session.ask(messages=[user("one?"), model("Done."), user("two?"), model("Done."), user("three?")])
    assert [(past.question, past.answer) for past in planned.past] == [("two?", "Done.")]
    assert planned.turn.question == "three?"


def test_an_answer_that_the_application_changed_is_not_recorded() -> None:
    session = Session()
    for text in ("one?", "two?"):
        session.ask(messages=[user(text)])
        session.say(text.upper())
    planned = session.ask(messages=[user("one?"), model("ONE?"), user("two?"), model("changed"), user("three?")])
    assert planned.past == [] and planned.turn == PlannedTurn("three?", [])


def test_redacted_words_are_not_recorded_again() -> None:
    session = Session()
    messages = [user("one?"), model("ONE?"), user("secret?"), model("SECRET?"), user("three?")]
    for text in ("one?", "secret?"):
        session.ask(messages=[user(text)])
        session.say(text.upper())
    session.redact()
    planned = session.ask(messages=messages)
    assert planned.past == [] and planned.turn == PlannedTurn("three?", [])


def test_tool_results_continue_the_turn_of_their_calls() -> None:
    session = Session()
    session.ask(messages=[user("where?")])
    session.call("c1", "look", {"where": "left"})
    session.call("c2", "look", {"where": "right"})
    turn = session.newest
    both = {**chat_call("c1"), "tool_calls": chat_call("c1")["tool_calls"] + chat_call("c2")["tool_calls"]}
    messages = [user("where?"), both, result("c1"), result("c2", "a door"), user("hurry")]
    planned = session.ask(messages=messages)
    assert planned.turn.turn_id == turn
    assert texts(planned.turn) == ["tool_result: a wall", "tool_result: a door", "observation: hurry"]
    assert planned.restated.question == "where?"
    assert texts(planned.restated)[2:] == texts(planned.turn), "if the turn has ended, all of it is said again"
    again = session.ask(messages=messages)
    assert again.turn.turn_id == turn and texts(again.turn) == ["observation: hurry"], "no result is there twice"


def test_results_of_unknown_calls_begin_a_turn_with_their_question() -> None:
    session = Session()
    session.ask(messages=[user("earlier?")])
    session.say("Earlier.")
    planned = session.ask(messages=[user("where?"), chat_call("c7"), result("c7")])
    assert planned.turn.turn_id is None and planned.turn.question == "where?"
    assert texts(planned.turn) == ["tool_call: None", "tool_result: a wall"]


def test_a_result_that_ends_a_lost_turn_is_kept_with_the_answer() -> None:
    session = Session()
    session.ask(messages=[user("where?")])
    session.call("c1", "look", {"where": "left"})
    messages = [user("where?"), chat_call("c1"), result("c1"), model("Left."), user("and then?")]
    planned = session.ask(messages=messages)
    (past,) = planned.past
    assert past.turn_id == "t1" and past.answer == "Left." and texts(past) == ["tool_result: a wall"]
    assert planned.turn.question == "and then?"


def test_the_system_prompt_is_recorded_when_it_changes() -> None:
    session = Session()
    system = {"role": "system", "content": "Be brief."}
    assert texts(session.ask(messages=[system, user("one?")]).turn) == ["instructions: Be brief."]
    session.say("One.")
    messages = [system, user("one?"), model("One."), {"role": "developer", "content": "Hurry."}, user("two?")]
    planned = session.ask(messages=messages)
    assert planned.turn.question == "two?" and texts(planned.turn) == ["system_note: Hurry."]
    changed = {"role": "system", "content": "Be long."}
    assert texts(session.ask(messages=[changed, user("three?")]).turn) == ["instructions: Be long."]


@pytest.mark.parametrize(
    ("body", "question"),
    [
        ({"messages": [{"role": "system", "content": "Write a haiku."}]}, "[no text]"),
        ({"messages": []}, "[no text]"),
        ({"messages": [user("Write"), model("A haiku:")]}, "Write"),
    ],
)
def test_a_request_without_a_question_is_recorded_too(body: Json, question: str) -> None:
    assert Session().ask(**body).turn.question == question


def test_a_prefilled_answer_is_part_of_the_turn() -> None:
    session = Session(ANTHROPIC)
    session.ask(messages=[user("one?")])
    session.say("One.")
    planned = session.ask(messages=[user("one?"), model("One."), user("two?"), model("It is")])
    assert planned.past == [] and planned.turn.question == "two?" and texts(planned.turn) == ["observation: It is"]


def test_a_paused_turn_goes_on() -> None:
    session = Session(ANTHROPIC)
    session.ask(messages=[user("search?")])
    session.add("assistant", "observation", {"type": "text", "text": "Looking further."})
    planned = session.ask(messages=[user("search?"), model("Looking further.")])
    assert planned.turn == PlannedTurn("", [], turn_id="t1")


def test_images_belong_to_the_question() -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    turn = Session().ask(messages=[{"role": "user", "content": [image, {"type": "text", "text": "What?"}]}]).turn
    assert turn == PlannedTurn("What?", [{"role": "user", "channel": "question", "parts": [image]}])
    assert Session().ask(messages=[{"role": "user", "content": [image]}]).turn.question == ""


def test_responses_with_a_previous_response_send_only_what_is_new() -> None:
    session = Session(RESPONSES)
    session.ask(input="where?", instructions="Be brief.")
    session.call("c1", "look", {})
    output = {"type": "function_call_output", "call_id": "c1", "output": "a wall"}
    planned = session.ask(input=[output], instructions="Be brief.")
    assert planned.turn.turn_id == "t1" and texts(planned.turn) == ["tool_result: a wall"]
    session.say("Left.")
    assert session.ask(input="and then?").turn == PlannedTurn("and then?", [])


def test_responses_items_are_compared() -> None:
    session = Session(RESPONSES)
    session.ask(input="where?")
    session.add("assistant", "thought", {"type": "reasoning", "text": "Hm.", "provider": "openai", "id": "rs_1"})
    session.call("c1", "look", {"where": "left"})
    given = [
        {"role": "user", "content": "where?"},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]},
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look", "arguments": '{"where":"left"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "a wall"},
    ]
    planned = session.ask(input=given)
    assert planned.turn.turn_id == "t1" and texts(planned.turn) == ["tool_result: a wall"]
    assert texts(planned.restated) == ["thought: Hm.", "tool_call: None", "tool_result: a wall"]


def test_blocks_of_anthropic_are_compared() -> None:
    session = Session(ANTHROPIC)
    session.ask(messages=[user("where?")], system=[{"type": "text", "text": "Be brief."}])
    session.add("assistant", "thought", {"type": "reasoning", "text": "Hm.", "signature": "s", "provider": "anthropic"})
    session.call("toolu_1", "look", {"where": "left"})
    blocks: list[Json] = [
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"where": "left"}},
    ]
    answer: Json = {
        "type": "tool_result",
        "tool_use_id": "toolu_1",
        "is_error": True,
        "content": [{"type": "text", "text": "?"}],
    }
    messages: list[Json] = [user("where?"), {"role": "assistant", "content": blocks}]
    messages.append({"role": "user", "content": [answer, {"type": "text", "text": "hurry"}]})
    turn = session.ask(messages=messages, system="Be brief.").turn
    assert turn.turn_id == "t1"
    assert turn.items == [
        {
            "role": "tool",
            "channel": "tool_result",
            "parts": [
                {"type": "tool_result", "call_id": "toolu_1", "ok": False, "content": [{"type": "text", "text": "?"}]}
            ],
        },
        {"role": "user", "channel": "observation", "parts": [{"type": "text", "text": "hurry"}]},
    ]


def test_calls_of_gemini_have_no_ids() -> None:
    session = Session(GEMINI)
    session.ask(contents=[{"role": "user", "parts": [{"text": "where?"}]}])
    for number, where in enumerate(("left", "right")):
        session.call(f"call_x_{number}", "look", {"where": where})
    call = {
        "role": "model",
        "parts": [{"functionCall": {"name": "look", "args": {"where": w}}} for w in ("left", "right")],
    }
    results = [{"functionResponse": {"name": "look", "response": {"result": r}}} for r in ("a wall", "a door")]
    contents = [{"role": "user", "parts": [{"text": "where?"}]}, call, {"role": "user", "parts": results}]
    planned = session.ask(contents=contents)
    assert planned.turn.turn_id == "t1"
    assert [item["parts"][0]["call_id"] for item in planned.turn.items] == ["call_x_0", "call_x_1"]
    ids = [item["parts"][0]["call_id"] for item in planned.restated.items]
    assert ids == ["call_1", "call_2", "call_1", "call_2"], "a turn that is said again has ids of its own"
