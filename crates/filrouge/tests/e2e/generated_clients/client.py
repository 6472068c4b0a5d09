"""Uses the client that openapi-python-client generated: `client.py ORIGIN`.

Starts a turn, appends an item, finalizes, and receives a typed error. Prints one JSON document.
"""

import json
import sys

from filrouge_client import Client
from filrouge_client.api.items import append_items
from filrouge_client.api.turns import finalize_turn, get_turn, replace_turn, start_turn
from filrouge_client.models import AppendItems, FinalizeTurn, NewItem, Part, Problem, ProblemCode
from filrouge_client.models import ReplaceTurn, Role, StartTurn, Turn, TurnStatus

client = Client(base_url=sys.argv[1])
session = "python/1"

started = start_turn.sync_detailed(
    session, client=client, body=StartTurn(request_id="r1", question_neutral="When do you open?")
)
turn = started.parsed
assert isinstance(turn, Turn) and turn.status == TurnStatus.OPEN, turn

part = Part(type_="text")
part["text"] = "The sign says nine."
item = NewItem(channel="thought", role=Role.ASSISTANT, parts=[part], item_id="i1")
appended = append_items.sync(session, turn.turn_id, client=client, body=AppendItems(items=[item]))
assert appended.last_seq == 2, appended

finalized = finalize_turn.sync(session, turn.turn_id, client=client, body=FinalizeTurn(answer_neutral="At nine."))
assert isinstance(finalized, Turn) and finalized.status == TurnStatus.FINALIZED, finalized

body = ReplaceTurn(request_id="r2", question_neutral="When do you open?", answer_neutral="At ten.")
replacing = replace_turn.sync(session, turn.turn_id, client=client, body=body)
assert isinstance(replacing, Turn) and replacing.answer_neutral == "At ten.", replacing

refused = append_items.sync_detailed(
    session, turn.turn_id, client=client, body=AppendItems(items=[NewItem(channel="thought", role=Role.ASSISTANT, parts=[part])])
)
problem = refused.parsed
assert isinstance(problem, Problem) and problem.status == refused.status_code == 409, refused
assert problem.code == ProblemCode.TURN_CLOSED, problem

absent = get_turn.sync("python/absent", turn.turn_id, client=client)
assert isinstance(absent, Problem) and absent.code == ProblemCode.SESSION_NOT_FOUND, absent

print(json.dumps({"question": finalized.question_neutral, "answer": finalized.answer_neutral, "code": problem.code.value}))
