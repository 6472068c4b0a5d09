#!/usr/bin/env python3
"""Verifies a filrouge bundle offline, by what docs/format.md says ("Bundle"); needs Python 3.8 and nothing else.
    python3 verify_bundle.py FILE [PUBLIC_KEY_HEX]
Exit 0 and "intact", 1 and "broken: PLACE: WHAT", 2 when FILE cannot be read
or is no bundle of this format. Without PUBLIC_KEY_HEX, intact means:
nothing was changed since the holder of the key in the bundle signed it."""
import hashlib, json, re, sys

WHERE = ["the file"]  # what is being looked at, for telling the place
def need(holds, what):
    if not holds: raise ValueError(what)
# JSON whose bytes count: values are decoded, and cut out of the text as they are written. Of numbers only those that
# are used become integers, for Python converts no very long ones; NaN and Infinity, which it would take, are refused.
JSON = json.JSONDecoder(parse_int=lambda digits: int(digits) if len(digits) < 21 else digits, parse_float=str,
                        parse_constant=lambda name: need(False, f"{name} is no JSON"))
def cut(text, at, opening):
    """The value behind `opening`, which must stand at `at`: as written, and where it ends."""
    need(text.startswith(opening, at), f"expected {opening!r}")
    end = JSON.raw_decode(text, at + len(opening))[1]
    return text[at + len(opening):end], end
def members(raw, names):
    """The members of an object, which must be `names` in this order: name -> value as written."""
    found, at = {}, 0
    for name in names:
        found[name], at = cut(raw, at, ("," if found else "{") + f'"{name}":')
    need(raw[at:] == ("}" if found else "{}"), "other members than there should be")
    return found
def elements(raw, first, between, end):
    """The elements of a list, as written."""
    found, at = [], 0
    while raw != "[]" and at < len(raw) - len(end):
        element, at = cut(raw, at, between if found else first)
        found.append(element)
    need(raw == "[]" or raw[at:] == end, "the list does not end here")
    return found

# How values are written as bytes: docs/format.md, "Notation", "Fields" and "Turn events".
def sha(data): return hashlib.sha256(data).digest()
def lp(data): return len(data).to_bytes(8, "big") + data
def num(n): return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + num(n >> 7)
def raw_text(raw): return num(len(raw.encode())) + raw.encode()
def text(raw): return raw_text(JSON.decode(raw))
def flag(raw): return bytes([["false", "true"].index(raw)])
def half(raw): return unhex(JSON.decode(raw).replace("-", ""), 16)  # a fingerprint, or a turn id: a UUID
def opt(write): return lambda raw: b"\0" if raw == "null" else b"\1" + write(raw)
def word(words, first=0): return lambda raw: bytes([first + words.split().index(JSON.decode(raw))])
def unhex(digits, length):
    need(re.fullmatch("[0-9a-f]{%d}" % (2 * length), digits), f"not {2 * length} lower-case hexadecimal digits")
    return bytes.fromhex(digits)
def time(raw):  # by hand, for Python knows no year before 1
    found = re.fullmatch(r"(-\d{6}|\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)\.(\d{6})Z", JSON.decode(raw))
    year, month, day, hours, minutes, seconds, micros = map(int, found.groups())
    year, month = (year, month - 3) if month > 2 else (year - 1, month + 9)  # of years that begin in March
    days = 365 * year + year // 4 - year // 100 + year // 400 + (153 * month + 2) // 5 + day - 719469
    return ((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 10**6 + micros).to_bytes(8, "big", signed=True)
def ranges(raw):
    return num(len(JSON.decode(raw))) + b"".join(num(first) + num(last - first + 1) for first, last in JSON.decode(raw))
CHANNELS = ("question final partial plan thought observation tool_call tool_result error system_note hitl_request "
            "hitl_response summary interrupted cancelled link redaction")
OPTIONAL = {"item_id": text, "agent": text, "model": text, "usage": raw_text, "metadata": raw_text, "occurred_at": time}
EVENTS = {"start": (b"\1", {"request_id": text, "identity_id": opt(text), "fingerprint": half, "replaces": opt(half),
              "translate_chat": flag, "pipeline_name": opt(text), "consultant": opt(text), "repository": opt(text),
              "metadata": opt(raw_text)}),
          "close": (b"\2", {"status": word("finalized failed cancelled", 2), "fingerprint": half,
              "answer_translated_is_fallback": flag, "metadata": opt(raw_text)}),
          "interrupt": (b"\3", {}), "reopen": (b"\4", {}), "redact": (b"\5", {"seqs": ranges}),
          "redacted": (b"\6", {"seqs": ranges})}
def event(raw):
    kind = raw.split('"')[1]
    (code, writers), body = EVENTS[kind], members(raw, [kind])[kind]
    return code + b"".join(writers[name](value) for name, value in members(body, writers).items())
def fields(m):
    known = JSON.decode(m["channel"]) in CHANNELS.split()
    channel = word(CHANNELS)(m["channel"]) if known else b"\xff" + text(m["channel"])
    there = [name for name in OPTIONAL if m[name] != "null"]
    present = bytes([sum(1 << bit for bit, name in enumerate(OPTIONAL) if name in there)])
    codes = word("user assistant tool system")(m["role"]) + channel + word("neutral translated")(m["variant"]) + present
    events = [event(raw) for raw in elements(m["events"], "[", ",", "]")]
    return codes + b"".join(OPTIONAL[name](m[name]) for name in there) + num(len(events)) + b"".join(events)

HEAD = "tenant_id session_id last_seq link session turns items checkpoints key_id public_key"
ITEM = "seq item_id turn_id role channel variant parts agent model usage metadata occurred_at created_at redacted events "
def chain(raws, scope):
    """Recomputes commitments and links, compares redactions with what has no content; gives the newest link."""
    link, erased, named, redactions = bytes(32), {}, {}, set()
    for seq, raw in enumerate(raws, 1):
        WHERE[0], item = f"items[{seq - 1}], seq {seq}", JSON.decode(raw)
        m = members(raw, (ITEM + ("commitment redaction_seq link" if item["redacted"] else "salt link")).split())
        need(item["seq"] == seq and flag(m["redacted"]), "another item belongs here")
        need(m["parts"] == "[]" or not item["redacted"], "it was redacted and has a content")
        if item["redacted"]: commitment, erased[seq] = unhex(item["commitment"], 32), item["redaction_seq"]
        else: commitment = sha(b"filrouge parts 1\0" + unhex(item["salt"], 16) + m["parts"].encode())
        place = link + seq.to_bytes(8, "big") + opt(half)(m["turn_id"]) + time(m["created_at"])
        link = sha(scope + place + lp(fields(m)) + commitment)
        need(link == unhex(item["link"], 32), "the link is not made of this item and the one before")
        for first, last in (seqs for e in item["events"] if "redact" in e for seqs in e["redact"]["seqs"]):
            need(m["turn_id"] == "null" and 0 < first <= last < seq, "a redaction names what came before it")
            redactions.add(seq)
            for n in range(first, last + 1): named.setdefault(n, seq)
        seqs = {kind: of["seqs"] for e in item["events"] for kind, of in e.items() if kind in ("redact", "redacted")}
        if m["turn_id"] == "null" and (seqs or item["channel"] == "redaction"):
            every = seqs.get("redacted", seqs.get("redact", []))
            need(all(0 < first <= last < seq for first, last in every), "a redaction names what came before it")
            need({n for first, last in every for n in range(first, last + 1)} == named.keys(),
                 "a redaction does not name what earlier ones have erased")
    for seq in sorted(erased.keys() | named.keys()):
        WHERE[0] = f"items[{seq - 1}], seq {seq}"
        need(erased.get(seq) == named.get(seq), "a content is missing and no redaction names it, or the other way round")
        need(seq not in redactions, "a redaction names a redaction")
    return link

# Ed25519 as in RFC 8032, section 5.1.
P, L = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
def add(p, q):
    (a, b), (c, d) = p, q
    k = D * a * b * c * d
    return (a * d + b * c) * pow(1 + k, -1, P) % P, (b * d + a * c) * pow(1 - k, -1, P) % P
def times(n, p): return add(times(n // 2, add(p, p)), p if n % 2 else (0, 1)) if n else (0, 1)
def point(data):
    y, odd = int.from_bytes(data, "little") % 2**255, data[31] >> 7
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P: x = x * pow(2, (P - 1) // 4, P) % P
    p = (x if x % 2 == odd else P - x, y)
    need(y < P and (x * x - square) % P == 0 and times(8, p) != (0, 1), "no point of the curve, or one of a small order")
    return p
def signed(key, message, signature):
    s, base = int.from_bytes(signature[32:], "little"), point((4 * pow(5, -1, P) % P).to_bytes(32, "little"))
    h = int.from_bytes(hashlib.sha512(signature[:32] + key + message).digest(), "little") % L
    return s < L and times(s, base) == add(point(signature[:32]), times(h, point(key)))

def check(data, key):
    document, at, raw = data.decode(), 0, {}
    for name in "session turns items checkpoints head signature".split():
        WHERE[0] = name
        raw[name], at = cut(document, at, ("," if raw else '{"filrouge_bundle":1,') + f'\n"{name}":')
    WHERE[0] = "the end"
    need(document[at:] == "}\n", "something else than the end")
    WHERE[0], session, head = "head", JSON.decode(raw["session"]), JSON.decode(raw["head"])
    owner, items = [session["tenant_id"], session["session_id"]], elements(raw["items"], "[\n", ",\n", "\n]")
    link = chain(items, b"filrouge link 1\0" + b"".join(lp(name.encode()) for name in owner))
    for name in "session turns items checkpoints".split():
        WHERE[0] = name
        need(sha(raw[name].encode()).hex() == head[name], "the bytes are not those that were signed")
    WHERE[0], said = "head", [head[name] for name in ("tenant_id", "session_id", "last_seq", "link")]
    need(said == [*owner, len(items), link.hex()] and list(head) == HEAD.split(), "it is not that of this session")
    need(key in (None, head["public_key"]), "signed by another key than the one asked for")
    WHERE[0], public, signature = "signature", unhex(head["public_key"], 32), unhex(JSON.decode(raw["signature"]), 64)
    need(signed(public, b"filrouge bundle 1\0" + raw["head"].encode(), signature), "it is not that of the head")

def verify(data, key=None):
    """None when the bundle is intact, else what is broken."""
    try: return check(data, key)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error: return f"{WHERE[0]}: {error}"
def main(arguments):
    try: data, key = open(arguments[0], "rb").read(), arguments[1] if len(arguments) > 1 else None
    except (OSError, IndexError) as error: return print(error, __doc__, sep="\n", file=sys.stderr) or 2
    if key and not re.fullmatch("[0-9a-fA-F]{64}", key): return print("not a public key:", key, file=sys.stderr) or 2
    if not data.startswith(b'{"filrouge_bundle":'): return print("cannot tell: not a bundle") or 2
    if re.match(rb'{"filrouge_bundle":(?!1,)[0-9]+,', data): return print("cannot tell: another format") or 2
    found = verify(data, key and key.lower())
    if not found and not key: print("nothing was changed since the holder of this key signed it", file=sys.stderr)
    print(f"broken: {found}" if found else f"intact\nsigned by {JSON.decode(data.decode())['head']['public_key']}")
    return 1 if found else 0
if __name__ == "__main__": sys.exit(main(sys.argv[1:]))
