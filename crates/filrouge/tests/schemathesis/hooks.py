"""Rules for requests that the document cannot express, legitimate refusals of valid requests, and one more check.

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

# The session of the document's examples.
EXAMPLE = "call/2026-11-21/1"

NUMBERS = itertools.count()

# Formats -------------------------------------------------------------------------------------------------------------

VISIBLE = st.characters(codec="utf-8", exclude_categories=("Cc", "Cs"))
ASCII = st.characters(min_codepoint=0x20, max_codepoint=0x7E)
NO_NUL = st.characters(codec="utf-8", min_codepoint=1, exclude_categories=("Cs",))


def within(limit, wide, smallest):
    """Texts from every plane of Unicode, and longer ones with one byte per character: never over `limit` bytes."""
    return st.one_of(
        st.text(wide, min_size=smallest, max_size=limit // 4),
        st.text(ASCII, min_size=smallest, max_size=limit),
    )


schemathesis.openapi.format("utf8-64", within(64, VISIBLE, 1))
schemathesis.openapi.format("utf8-256", within(256, VISIBLE, 1))
schemathesis.openapi.format("utf8-4096", within(4096, NO_NUL, 0))

# Callers ------------------------------------------------------------------------------------------------------------


def use_an_existing_turn(case):
    """Gives an existing turn to seven of eight calls about a turn, and to erasures: its id cannot be guessed."""
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
    """Makes leases and waits for them short, and names a fence only once."""
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


def use_one_search_parameter(case, negated):
    """Gives one parameter and no cursor to seven of eight searches: two parameters, and made-up cursors, are refused."""
    number = next(NUMBERS)
    if case.path != "/api/v1/search" or not case.query or number % 8 == 0:
        return
    given = [name for name in SEARCH_PARAMETERS if name in case.query and name not in negated]
    for name in given[:-1] if number % 2 else given[1:]:
        del case.query[name]
    if "cursor" in case.query and "cursor" not in negated:
        del case.query["cursor"]


@schemathesis.hook
def before_call(context, case, kwargs):
    """Removes most of what would make the server refuse a request at once.

    A user's key acts for that user alone: a request that names another one is refused, so most requests name none. The
    session of the examples is not erased: otherwise most later requests would find it erased. Long polls are short.
    """
    negated = {name for name, _ in negated_parameters(case.meta)}
    for name in ("Filrouge-Identity", "Filrouge-Session-Token"):
        value = (case.headers or {}).get(name)
        if isinstance(value, str) and name not in negated and crc32(value.encode("utf-8", "surrogatepass")) % 8:
            del case.headers[name]
    named = set(case.path_parameters or {})
    about_one = "turn_id" in named or ("session_id" in named and case.method == "DELETE")
    if about_one and not negated & {"session_id", "turn_id"}:
        use_an_existing_turn(case)
    wait = str((case.query or {}).get("wait"))
    if wait.isdecimal() and int(wait) <= 60_000:
        case.query["wait"] = int(wait) % 1000
    shorten_leases(case)
    use_one_search_parameter(case, negated)
    if case.method == "DELETE" and unquote(str((case.path_parameters or {}).get("session_id"))) == EXAMPLE:
        case.path_parameters["session_id"] = quote(f"{EXAMPLE}/erased", safe="")


# Legitimate refusals -------------------------------------------------------------------------------------------------


def problem(response):
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


def writes_no_integer_of_64_bits(case):
    names = ("expected_seq", "fence", "seq", "known_seq", "known_fence", "ttl_ms", "wait_ms")
    given = [case.body.get(name) for name in names] if isinstance(case.body, dict) else []
    return any(isinstance(one, float) or isinstance(one, int) and one >= 1 << 64 for one in given)


def names_no_fence(case):
    """Whether the case requests a release and names the fence in none of the possible places."""
    body = case.body if isinstance(case.body, dict) else {}
    release = body.get("release") is True or case.path.endswith("/lease") and case.method in ("PUT", "DELETE")
    given = [body.get("fence"), (case.query or {}).get("fence"), (case.headers or {}).get("Filrouge-Fence")]
    return release and all(one is None for one in given)


def names_two_fences(case):
    given = [(case.query or {}).get("fence"), (case.headers or {}).get("Filrouge-Fence")]
    return None not in given and str(given[0]) != str(given[1])


def waits_without_waiting(case):
    query = case.query or {}
    return query.get("wait") is not None and query.get("on_busy") != "wait"


def is_no_search(case, response):
    """Whether the search is empty or has two parameters, has a made-up cursor, or its query has a syntax error."""
    query = case.query or {}
    if case.path != "/api/v1/search":
        return False
    given = [name for name in SEARCH_PARAMETERS if query.get(name) is not None]
    detail = response.json().get("detail", "")
    return len(given) > 1 or query.get("cursor") is not None or detail.startswith("query, character ")


def right_refusal(case, response):
    code = problem(response)
    if code == "invalid" and is_no_search(case, response):
        return "OpenAPI cannot say what the language of queries is, nor that parameters exclude each other"
    if code == "answer_missing":
        return "whether the turn holds an answer to promote is not in the request"
    if code == "session_erased":
        return "the session was erased before"
    if code == "invalid" and case.path == "/api/v1/changes" and {"after", "cursor"} & set(case.query or {}):
        return "which cursors the feed has given out is not in the request"
    if code == "invalid" and case.path.endswith("/items") and {"after", "cursor"} <= set(case.query or {}):
        return "OpenAPI cannot say that two parameters exclude each other"
    if code == "invalid" and writes_no_integer_of_64_bits(case):
        return "JSON Schema calls 1.0 an integer, and its integers have no end"
    if code == "lease_timeout":
        return "another case holds the session"
    if code == "invalid" and (names_no_fence(case) or names_two_fences(case)):
        return "OpenAPI cannot say that a fence stands in one of several places"
    if code == "invalid" and waits_without_waiting(case):
        return "OpenAPI cannot say that a parameter belongs to a value of another one"
    if code == "invalid" and case.path.endswith("/checkpoints") and isinstance((case.body or {}).get("seq"), int):
        return "where the session stands is not in the request"
    if code == "precondition_failed":
        return "the session is not in the state that If-Match names"
    if code == "invalid" and repeats_an_item_id(case):
        return "JSON Schema cannot say that a member is unique among the elements of an array"
    return None


def at(body, pointer):
    """The value that a place in a schema, given as a JSON pointer, describes."""
    for keyword, name in re.findall(r"/(oneOf|anyOf|allOf)/\d+|/properties/([^/]+)", pointer):
        if not keyword:
            body = body.get(name) if isinstance(body, dict) else None
    return body


def only_the_format_is_negated(case, message):
    """Whether only a custom format was negated: these cannot be negated, so the generated value may still fit."""
    negated = message.partition("Invalid component:")[2]
    pointers = re.findall(r"violates `format` at (\S+)", negated)
    if not pointers or len(re.findall(r"(?:^|\s)- ", negated)) != len(pointers):
        return False
    texts = [at(case.body, pointer) for pointer in pointers]
    return all(isinstance(t, str) and "\0" not in t and len(t.encode("utf-8", "replace")) <= 4096 for t in texts)


@schemathesis.hook
def filter_failure(context, failure, case, response):
    if type(failure).__name__ == "RejectedPositiveData":
        return right_refusal(case, response) is None
    if type(failure).__name__ == "AcceptedNegativeData":
        if "in header - object with unexpected properties" in failure.message:
            return False  # HTTP allows additional headers
        return not only_the_format_is_negated(case, failure.message)
    return True


# Foreign ids look absent ---------------------------------------------------------------------------------------------

NEVER = "5f0c2b8e-5a61-8d7e-9b1c-2d4e6f708192"
VARYING = {"date", "filrouge-request-id", "x-request-id", "content-length"}
# Creating a session under an existing id is refused, which reveals the id (DESIGN §1, P6).
REPORTS_TAKEN = {"startTurn": "session_conflict", "resumeSession": "session_conflict"}
SESSION = re.compile(r"^(/api/v1/sessions/)([^/]+)(/turns/([^/]+))?")


def send(prepared, user, url):
    """Sends the same request as another user."""
    again = prepared.copy()
    for name in {name for headers in USERS.values() for name in headers}:
        again.headers.pop(name, None)
    again.headers.update(USERS[user])
    again.url = url
    with requests.Session() as session:
        return session.send(again, timeout=30, allow_redirects=False)


def shape(response, ids, quoted):
    headers = {name.lower(): value for name, value in response.headers.items()}
    body = response.json()
    detail = body.pop("detail")
    if not quoted:
        for name in ids:
            detail = detail.replace(name, "ID")
        body["detail"] = detail
    return response.status_code, {n: v for n, v in headers.items() if n not in VARYING}, body


def owner_of(request):
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
    foreign = send(prepared, stranger, prepared.url)
    operation = case.operation.definition.raw.get("operationId")
    creates = operation != "resumeSession" or (isinstance(case.body, dict) and case.body.get("create") is True)
    if operation in REPORTS_TAKEN and creates:
        assert problem(foreign) == REPORTS_TAKEN[operation], f"{stranger} got {foreign.status_code}: {foreign.text}"
        return
    never = place[1] + NEVER + (f"/turns/{NEVER}" if place[3] else "")
    url = urlunsplit(parts._replace(path=never + parts.path[place.end():]))
    absent = send(prepared, stranger, url)
    ids = [unquote(place[2])] + ([unquote(place[4])] if place[4] else [])
    # The quoting of an id depends on its characters.
    quoted = not all(re.fullmatch(r"[ !#-\[\]-~]+", name) for name in ids)
    assert shape(foreign, ids, quoted) == shape(absent, [NEVER], quoted), (
        f"{stranger} can tell {owner}'s session from none:\n{foreign.status_code} {foreign.text}\n"
        f"{absent.status_code} {absent.text}"
    )
    return
