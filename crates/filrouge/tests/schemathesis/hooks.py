"""Hooks of schemathesis: adjusts requests, accepts legitimate refusals of valid requests, and adds checks.

README.md explains the reasons.
"""

import itertools
import json
import os
import re
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from zlib import crc32

import requests
import schemathesis
from hypothesis import strategies as st
from schemathesis.generation.meta import negated_parameters

USERS = {
    user["name"]: {header["name"]: header["value"] for header in user["fixedHeaders"]}
    for user in json.loads(Path("users.json").read_text())["auth"]
}

# The session in the examples of the OpenAPI document.
EXAMPLE_SESSION = "call/2026-11-21/1"

NUMBERS = itertools.count()

# Formats -------------------------------------------------------------------------------------------------------------

VISIBLE = st.characters(codec="utf-8", exclude_categories=("Cc", "Cs"))
ASCII = st.characters(min_codepoint=0x20, max_codepoint=0x7E)
NO_NUL = st.characters(codec="utf-8", min_codepoint=1, exclude_categories=("Cs",))


def text_within(limit, wide, min_size):
    """Generates texts of at most `limit` bytes: short ones of `wide` characters, and longer ones of ASCII."""
    return st.one_of(
        st.text(wide, min_size=min_size, max_size=limit // 4),
        st.text(ASCII, min_size=min_size, max_size=limit),
    )


schemathesis.openapi.format("utf8-64", text_within(64, VISIBLE, 1))
schemathesis.openapi.format("utf8-256", text_within(256, VISIBLE, 1))
schemathesis.openapi.format("utf8-4096", text_within(4096, NO_NUL, 0))

# Callers ------------------------------------------------------------------------------------------------------------


def use_existing_turn(case):
    """Points seven of eight calls about a turn, and erasures, to a new turn of the caller: its id cannot be guessed."""
    user = owner_of(case)
    number = next(NUMBERS)
    if user not in ("ada", "bob") or number % 8 == 0 or case.meta is None or case.meta.phase.name.value == "stateful":
        return
    session = f"reached/{user}/{number}"
    question = {"request_id": f"request-{number}", "question_neutral": "?"}
    if case.path.endswith(("/replace", "/redact")):
        question["answer_neutral"] = "!"
    url = f"{os.environ['FILROUGE_ORIGIN']}/api/v1/sessions/{quote(session, safe='')}/turns"
    turn = requests.post(url, json=question, headers=USERS[user], timeout=30)
    turn.raise_for_status()
    case.path_parameters["session_id"] = quote(session, safe="")
    if "turn_id" in case.path_parameters:
        case.path_parameters["turn_id"] = turn.json()["turn_id"]


def shorten_leases(case):
    """Shortens leases and waits for them, and removes a second fence."""
    body = case.body if isinstance(case.body, dict) else {}
    if isinstance(body.get("fence"), int) and case.headers:
        case.headers.pop("Filrouge-Fence", None)
    query = case.query or {}
    if query.get("on_busy") == "wait" and case.path.endswith("/turns") and query.get("wait") is None:
        case.query["wait"] = 50
    if case.method == "POST" and case.path.endswith(("/lease", "/resume")) and "holder" in body:
        if body.get("ttl_ms") is None or type(body["ttl_ms"]) is int and 0 < body["ttl_ms"] <= 600_000:
            body["ttl_ms"] = 20
        if body.get("wait_ms") is None or type(body["wait_ms"]) is int and 0 <= body["wait_ms"] <= 30_000:
            body["wait_ms"] = 50 if query.get("on_busy") != "reject" else 0


SEARCH_PARAMETERS = ("q", "regex", "similar")
SELECTIONS_OF_ITEMS = ("before", "cursor", "item_id", "order", "seqs")


def use_one_search_parameter(case, negated):
    """Leaves seven of eight searches one parameter and no cursor: two, and invented cursors, are refused."""
    number = next(NUMBERS)
    if case.path != "/api/v1/search" or not case.query or number % 8 == 0:
        return
    present = [name for name in SEARCH_PARAMETERS if name in case.query and name not in negated]
    for name in present[:-1] if number % 2 else present[1:]:
        del case.query[name]
    if "cursor" in case.query and "cursor" not in negated:
        del case.query["cursor"]


@schemathesis.hook
def before_call(context, case, kwargs):
    """Adjusts a request so that the server does not refuse it at once.

    A user's key acts only for that user. A request that names another one is refused, so most requests name none. The
    session of the examples is not erased, because most later requests would find it erased. Long polls are shortened.
    """
    negated = {name for name, _ in negated_parameters(case.meta)}
    for name in ("Filrouge-Identity", "Filrouge-Session-Token"):
        value = (case.headers or {}).get(name)
        if isinstance(value, str) and name not in negated and crc32(value.encode("utf-8", "surrogatepass")) % 8:
            del case.headers[name]
    named = set(case.path_parameters or {})
    needs_turn = "turn_id" in named or ("session_id" in named and case.method == "DELETE")
    if needs_turn and not negated & {"session_id", "turn_id"}:
        use_existing_turn(case)
    wait = str((case.query or {}).get("wait"))
    if wait.isdecimal() and int(wait) <= 60_000:
        case.query["wait"] = int(wait) % 1000
    shorten_leases(case)
    use_one_search_parameter(case, negated)
    if case.method == "DELETE" and unquote(str((case.path_parameters or {}).get("session_id"))) == EXAMPLE_SESSION:
        case.path_parameters["session_id"] = quote(f"{EXAMPLE_SESSION}/erased", safe="")


# Legitimate refusals -------------------------------------------------------------------------------------------------


def error_code(response):
    """Returns the code of an error response, or None."""
    try:
        return response.json().get("code")
    except (ValueError, AttributeError):
        return None


def items_of(case):
    body = case.body
    items = body.get("items") if isinstance(body, dict) else None
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def repeats_an_item_id(case):
    ids = [item["item_id"] for item in items_of(case) if item.get("item_id") is not None]
    return len(ids) != len(set(ids))


def has_non_64_bit_integer(case):
    names = ("expected_seq", "fence", "seq", "known_seq", "known_fence", "ttl_ms", "wait_ms")
    values = [case.body.get(name) for name in names] if isinstance(case.body, dict) else []
    return any(isinstance(one, float) or isinstance(one, int) and one >= 1 << 64 for one in values)


def releases_without_fence(case):
    """Returns whether the case requests a release and has the fence in none of its possible places."""
    body = case.body if isinstance(case.body, dict) else {}
    release = body.get("release") is True or case.path.endswith("/lease") and case.method in ("PUT", "DELETE")
    values = [body.get("fence"), (case.query or {}).get("fence"), (case.headers or {}).get("Filrouge-Fence")]
    return release and all(one is None for one in values)


def has_two_fences(case):
    values = [(case.query or {}).get("fence"), (case.headers or {}).get("Filrouge-Fence")]
    return None not in values and str(values[0]) != str(values[1])


def waits_without_on_busy(case):
    query = case.query or {}
    return query.get("wait") is not None and query.get("on_busy") != "wait"


def asks_nothing(case):
    """Returns whether the case starts or replaces a turn without a question."""
    body = case.body if isinstance(case.body, dict) else {}
    questions = [body.get(name) for name in ("question_neutral", "question_translated")]
    return case.path.endswith(("/turns", "/replace")) and questions == [None, None]


def is_invalid_search(case, response):
    """Returns whether a search has two parameters, an invented cursor, or an empty or malformed query."""
    query = case.query or {}
    if case.path != "/api/v1/search":
        return False
    present = [name for name in SEARCH_PARAMETERS if query.get(name) is not None]
    detail = response.json().get("detail", "")
    return len(present) > 1 or query.get("cursor") is not None or detail.startswith("query, character ")


def legitimate_refusal(case, response):
    """Returns why the schema cannot express the refusal of a valid request, or None if the refusal is a fault."""
    code = error_code(response)
    if code == "invalid" and is_invalid_search(case, response):
        return "OpenAPI cannot express the query language, nor that parameters exclude each other"
    if code == "invalid" and asks_nothing(case):
        return "that one of two members is required is said in words, for generators of clients"
    if code == "answer_missing":
        return "whether the turn has an answer to promote is not in the request"
    if code == "session_erased":
        return "the session was erased before"
    with_cursors = ("/api/v1/changes", "/api/v1/sessions", "/api/v1/turns")
    if code == "invalid" and case.path in with_cursors and {"after", "cursor"} & set(case.query or {}):
        return "which cursors were returned is not in the request"
    if code == "invalid" and case.path.endswith("/items") and set(SELECTIONS_OF_ITEMS) & set(case.query or {}):
        return "OpenAPI cannot express which parameters exclude each other, nor the size of a set of seqs"
    if code == "invalid" and has_non_64_bit_integer(case):
        return "for JSON Schema 1.0 is an integer, and integers are unbounded"
    if code == "lease_timeout":
        return "another case holds the session"
    if code == "invalid" and (releases_without_fence(case) or has_two_fences(case)):
        return "OpenAPI cannot express that a fence is in exactly one of several places"
    if code == "invalid" and waits_without_on_busy(case):
        return "OpenAPI cannot express that a parameter requires a value of another one"
    if code == "invalid" and case.path.endswith("/checkpoints") and isinstance((case.body or {}).get("seq"), int):
        return "the session's newest seq is not in the request"
    if code == "invalid" and case.path == "/api/v1/sessions/{session_id}/redact":
        return "the session's newest seq is not in the request, nor the number of items of a range"
    if code == "precondition_failed":
        return "the session's state differs from that in If-Match"
    if code == "invalid" and repeats_an_item_id(case):
        return "JSON Schema cannot express that a member is unique among the elements of an array"
    return None


def value_at(body, pointer):
    """Returns the value in `body` that a place in a schema, given as a JSON pointer, describes."""
    for keyword, name in re.findall(r"/(oneOf|anyOf|allOf)/\d+|/properties/([^/]+)", pointer):
        if not keyword:
            body = body.get(name) if isinstance(body, dict) else None
    return body


def only_format_is_negated(case, message):
    """Returns whether only a custom format was negated. It cannot be negated, so the generated value may conform."""
    negated = message.partition("Invalid component:")[2]
    pointers = re.findall(r"violates `format` at (\S+)", negated)
    if not pointers or len(re.findall(r"(?:^|\s)- ", negated)) != len(pointers):
        return False
    texts = [value_at(case.body, pointer) for pointer in pointers]
    return all(isinstance(t, str) and "\0" not in t and len(t.encode("utf-8", "replace")) <= 4096 for t in texts)


@schemathesis.hook
def filter_failure(context, failure, case, response):
    if type(failure).__name__ == "RejectedPositiveData":
        return legitimate_refusal(case, response) is None
    if type(failure).__name__ == "AcceptedNegativeData":
        if "in header - object with unexpected properties" in failure.message:
            return False  # HTTP allows additional headers
        return not only_format_is_negated(case, failure.message)
    return True


# Codes of errors -----------------------------------------------------------------------------------------------------


@schemathesis.check
def error_codes_are_documented(ctx, response, case):
    """Checks that the document lists the code of an error for its operation and status."""
    documented = case.operation.definition.raw["responses"].get(str(response.status_code), {}).get("$ref")
    if response.status_code < 400 or documented is None:
        return
    shared = case.operation.schema.raw_schema["components"]["responses"]
    codes = shared[documented.rsplit("/", 1)[1]]["x-filrouge-codes"]
    assert error_code(response) in codes, f"{error_code(response)} is not one of {codes}"


# Foreign ids look absent ---------------------------------------------------------------------------------------------

ABSENT_ID = "5f0c2b8e-5a61-8d7e-9b1c-2d4e6f708192"
VARYING_HEADERS = {"date", "filrouge-request-id", "x-request-id", "content-length"}
# Creating a session under an existing id is refused, which reveals the id (DESIGN §1, P6).
REVEALS_EXISTENCE = {"startTurn": "session_conflict", "resumeSession": "session_conflict"}
SESSION = re.compile(r"^(/api/v1/sessions/)([^/]+)(/turns/([^/]+))?")


def send_as(prepared, user, url):
    """Sends the same request to `url` as another user."""
    again = prepared.copy()
    for name in {name for headers in USERS.values() for name in headers}:
        again.headers.pop(name, None)
    again.headers.update(USERS[user])
    again.url = url
    with requests.Session() as session:
        return session.send(again, timeout=30, allow_redirects=False)


def comparable(response, ids, quoted):
    """Returns what must be equal for a foreign and an absent id. `quoted` leaves `detail` out."""
    headers = {name.lower(): value for name, value in response.headers.items()}
    body = response.json()
    detail = body.pop("detail")
    if not quoted:
        for name in ids:
            detail = detail.replace(name, "ID")
        body["detail"] = detail
    return response.status_code, {n: v for n, v in headers.items() if n not in VARYING_HEADERS}, body


def owner_of(request):
    """Returns the name of the user whose key a request has, or None."""
    for name, headers in USERS.items():
        if all(request.headers.get(header) == value for header, value in headers.items()):
            return name
    return None


@schemathesis.check
def foreign_ids_look_absent(ctx, response, case):
    """Checks that a caller learns as little about another owner's session as about one that never existed."""
    prepared = response.request
    parts = urlsplit(prepared.url)
    place = SESSION.match(parts.path)
    owner = owner_of(prepared)
    if place is None or owner is None or not 200 <= response.status_code < 300 or case.method == "DELETE":
        return
    stranger = next(name for name in USERS if name != owner)
    foreign = send_as(prepared, stranger, prepared.url)
    operation = case.operation.definition.raw.get("operationId")
    creates = operation != "resumeSession" or (isinstance(case.body, dict) and case.body.get("create") is True)
    if operation in REVEALS_EXISTENCE and creates:
        code = REVEALS_EXISTENCE[operation]
        assert error_code(foreign) == code, f"{stranger} got {foreign.status_code}: {foreign.text}"
        return
    never = place[1] + ABSENT_ID + (f"/turns/{ABSENT_ID}" if place[3] else "")
    url = urlunsplit(parts._replace(path=never + parts.path[place.end():]))
    absent = send_as(prepared, stranger, url)
    ids = [unquote(place[2])] + ([unquote(place[4])] if place[4] else [])
    # If `detail` quotes an id, its spelling depends on the characters of the id.
    quoted = not all(re.fullmatch(r"[ !#-\[\]-~]+", name) for name in ids)
    assert comparable(foreign, ids, quoted) == comparable(absent, [ABSENT_ID], quoted), (
        f"{stranger} can distinguish {owner}'s session from an absent one:\n{foreign.status_code} {foreign.text}\n"
        f"{absent.status_code} {absent.text}"
    )
    return
