#!/usr/bin/env python3
"""Writes a large, deterministic OpenCode storage in the shapes that the genuine
fixtures have (tests/fixtures/opencode-json and opencode-sqlite).

  gen_opencode_storage.py --out DIR [--format json|sqlite|both]
      [--sessions 400] [--messages 8000] [--parts 40000] [--projects 12] [--seed 7]
      [--schema tests/fixtures/opencode-sqlite/opencode.db]

DIR becomes a data folder in OpenCode's layout: DIR/storage/... and DIR/opencode.db.
DIR/truth.json lists what was planted: needles with the sessions that contain them,
lineage, totals per session.  Equal arguments give equal bytes.
"""
import argparse, bisect, itertools, json, os, random, sqlite3

ap = argparse.ArgumentParser()
ap.add_argument("--out", required=True)
ap.add_argument("--format", default="both", choices=["json", "sqlite", "both"])
ap.add_argument("--sessions", type=int, default=400)
ap.add_argument("--messages", type=int, default=8000)
ap.add_argument("--parts", type=int, default=40000)
ap.add_argument("--projects", type=int, default=12)
ap.add_argument("--seed", type=int, default=7)
ap.add_argument("--schema", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../tests/fixtures/opencode-sqlite/opencode.db"))
a = ap.parse_args()
R = random.Random(a.seed)

# ---- vocabulary: common words in a Zipf-like curve, a long tail of identifiers
COMMON = """the a to of and in is it for on with that this be as are not from at by an if we can or so but will now then when
should file function test error line value type name path code call return string list data run build check add fix
change update read write module import class method server client request response config default option index query
table column row key cache token session message part agent model user project directory branch commit merge diff
parser lexer buffer stream socket thread lock queue worker retry timeout limit window batch schema migration version
release package feature flag log trace metric memory heap stack loop iterator closure trait struct enum macro crate
interface component render state hook effect event handler listener route middleware header cookie auth login password
permission policy rule pattern regex match replace split join sort filter map reduce fold hash tree graph node edge
vertex path weight cost score rank search find lookup insert delete remove create drop select where group order join
left right inner outer first last next previous begin end start stop open close push pop peek empty full size length
count total sum average median minimum maximum range step slice chunk page offset cursor limit sync async await
promise future task job schedule deadline interval timer clock date zone locale format parse encode decode compress
decompress encrypt decrypt sign verify certificate chain root leaf proxy gateway tunnel bridge router switch cable
harbour lantern anchor compass meadow orchard pebble granite willow copper amber velvet linen saffron cinnamon""".split()
SYL = "ba be bi bo bu ca ce co da de di do fa fe fi fo ga ge go ha he hi ja ka ke ko la le li lo ma me mi mo na ne no pa pe po ra re ri ro sa se si so ta te ti to va ve vi vo wa we za ze zo".split()
TAIL = sorted({"".join(R.choice(SYL) for _ in range(R.randint(2, 4))) for _ in range(9000)})
WORDS = COMMON + TAIL
CUM = list(itertools.accumulate(1.0 / (i + 2.7) for i in range(len(WORDS))))
EXT = ["rs", "py", "ts", "go", "md", "toml", "sql"]


def word():
    return WORDS[bisect.bisect(CUM, R.random() * CUM[-1])]


def sentence():
    n = R.randint(5, 19)
    s = " ".join(word() for _ in range(n))
    if R.random() < 0.15:
        s += f" (`{ident()}`)"
    return s[0].upper() + s[1:] + R.choice([".", ".", ".", "?", ":"])


def ident():
    return R.choice(["_", "::", "."]).join(word() for _ in range(R.randint(2, 3)))


def prose(lo, hi):
    return " ".join(sentence() for _ in range(R.randint(lo, hi)))


def path():
    return "/".join([R.choice(["src", "lib", "tests", "crates", "docs", "app"]), word(), word()]) + "." + R.choice(EXT)


def code(n):
    out = []
    for i in range(n):
        k = R.random()
        if k < 0.2:
            out.append(f"fn {word()}_{word()}({word()}: &{word().title()}) -> Result<{word().title()}> {{")
        elif k < 0.7:
            out.append(f"    let {word()} = {ident()}({word()}, {R.randint(0, 4096)});")
        elif k < 0.9:
            out.append(f"    // {sentence()}")
        else:
            out.append("}")
    return "\n".join(out)


# ---- identifiers as OpenCode makes them: 48 bits of ms*4096+counter, then base62
B62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_last = [0, 0]


def oid(prefix, ms, descending=False):
    if ms != _last[0]:
        _last[0], _last[1] = ms, 0
    _last[1] += 1
    v = ms * 4096 + _last[1]
    if descending:
        v = ~v
    return f"{prefix}_{v & (2**48 - 1):012x}" + "".join(R.choice(B62) for _ in range(14))


AGENTS = ["build", "plan", "executor", "quality", "tester", "roadmap"]
MODELS = [("anthropic", "claude-sonnet-4-5"), ("openai", "gpt-5.2"), ("mock", "atelier-1"), ("google", "gemini-3-pro")]
DENY = [{"permission": "question", "pattern": "*", "action": "deny"}]
NEEDLES = {"zephyrine-0417": 1, "quillon-2291": 10, "ombrelle-7733": 100}

projects = []
for i in range(a.projects):
    pid = f"{R.getrandbits(160):040x}" if i else "global"
    projects.append({"id": pid, "worktree": f"/home/demo/{word()}-{word()}" if i else "/", "git": bool(i)})

# ---- sessions: three in ten are children, one in fourteen is a fork
t0 = 1735725600000
sessions, now = [], t0
for i in range(a.sessions):
    now += R.randint(200_000, 40_000_000)
    parent = R.choice(sessions[-25:]) if sessions and R.random() < 0.3 else None
    fork = R.choice(sessions) if sessions and not parent and R.random() < 0.07 else None
    if parent and parent["depth"] > 2:
        parent = None
    pr = parent["project"] if parent else (fork["project"] if fork else R.choice(projects))
    agent = R.choice(["general", "explore"]) if parent else R.choice(AGENTS)
    title = (" ".join(word() for _ in range(R.randint(3, 8)))).capitalize()
    if parent:
        title += f" (@{agent} subagent)"
    if fork:
        title = fork["title"] + " (fork #1)"
    sessions.append({"id": oid("ses", now, True), "project": pr, "parent": parent, "fork": fork, "agent": agent, "title": title,
                     "created": now, "updated": now, "depth": (parent["depth"] + 1 if parent else 0), "model": R.choice(MODELS),
                     "n": 0, "agg": {"input": 0, "output": 0, "reasoning": 0, "read": 0, "write": 0, "cost": 0.0}, "parts": 0,
                     "add": R.randint(0, 400), "del": R.randint(0, 200), "files": R.randint(0, 12)})
weights = [R.paretovariate(1.1) for _ in sessions]
tot = sum(weights)
counts = [max(2, int(a.messages * w / tot)) for w in weights]
while sum(counts) != a.messages:
    k = R.randrange(len(counts))
    d = 1 if sum(counts) < a.messages else -1
    if counts[k] + d >= 2:
        counts[k] += d
needle_home = {n: sorted(R.sample(range(len(sessions)), min(c, len(sessions)))) for n, c in NEEDLES.items()}
plant = {}
for n, homes in needle_home.items():
    for h in homes:
        plant.setdefault(h, []).append(n)

out = a.out
os.makedirs(out, exist_ok=True)
db = None
if a.format in ("sqlite", "both"):
    f = out + "/opencode.db"
    for x in (f, f + "-wal", f + "-shm"):
        if os.path.exists(x):
            os.remove(x)
    db = sqlite3.connect(f)
    src = sqlite3.connect(f"file:{a.schema}?immutable=1", uri=True)
    for (sql,) in src.execute("select sql from sqlite_master where sql is not null and name not like 'sqlite_%' order by type desc"):
        db.execute(sql)
    cols = {t: [c[1] for c in src.execute(f"pragma table_info({t})")] for t in ("project", "session", "message", "part", "todo")}


def dbput(t, row):
    row = {k: v for k, v in row.items() if k in cols[t]}
    db.execute(f"insert into {t}({','.join(row)}) values({','.join('?' * len(row))})", list(row.values()))


def put(rel, obj):
    p = f"{out}/storage/{rel}.json"
    d = os.path.dirname(p)
    if d not in made:
        os.makedirs(d, exist_ok=True)
        made.add(d)
    with open(p, "w") as fh:
        json.dump(obj, fh, indent=2, ensure_ascii=False)


made = set()
JSON = a.format in ("json", "both")
if JSON:
    os.makedirs(out + "/storage", exist_ok=True)
    open(out + "/storage/migration", "w").write("2")
for p in projects:
    if JSON:
        put(f"project/{p['id']}", {"id": p["id"], "worktree": p["worktree"], **({"vcs": "git"} if p["git"] else {}), "sandboxes": [], "time": {"created": t0, "updated": now}})
    if db:
        dbput("project", {"id": p["id"], "worktree": p["worktree"], "vcs": "git" if p["git"] else None, "time_created": t0, "time_updated": now, "sandboxes": "[]"})

TOOLS = [("bash", 34), ("read", 26), ("edit", 14), ("grep", 10), ("write", 6), ("glob", 4), ("todowrite", 3), ("task", 2), ("webfetch", 1)]
TN, TW = [t for t, _ in TOOLS], [w for _, w in TOOLS]
total_parts = 0
assistant_total = a.messages - sum(c // 3 or 1 for c in counts)


def tool_part(base, ms, s):
    t = R.choices(TN, TW)[0]
    dur = R.randint(3, 4000)
    fp = f"{s['project']['worktree']}/{path()}"
    inp, outp, meta, title = {}, "", {"truncated": False}, ""
    if t == "bash":
        inp = {"command": f"cargo test -p {word()} {word()} 2>&1 | tail -{R.randint(5, 60)}", "description": sentence()[:60]}
        outp = "\n".join(f"test {ident()} ... {R.choice(['ok', 'ok', 'ok', 'FAILED'])}" for _ in range(R.randint(2, 40)))
        title, meta = inp["description"], {"output": outp, "exit": R.choice([0, 0, 0, 1, 101]), "description": inp["description"], "truncated": False}
    elif t == "read":
        inp = {"filePath": fp, "limit": 400}
        body = code(R.randint(12, 110))
        outp = f"<path>{fp}</path>\n<type>file</type>\n<content>" + "\n".join(f"{i + 1}: {l}" for i, l in enumerate(body.split("\n"))) + "\n</content>"
        title, meta = fp[1:], {"preview": body[:400], "truncated": False, "loaded": []}
    elif t == "edit":
        o, n = code(R.randint(1, 5)), code(R.randint(1, 6))
        inp = {"filePath": fp, "oldString": o, "newString": n}
        outp = "Edit applied successfully."
        title, meta = fp[1:], {"diagnostics": {}, "diff": f"Index: {fp}\n--- {fp}\n+++ {fp}\n-{o}\n+{n}\n", "filediff": {"file": fp, "before": o, "after": n, "additions": n.count(chr(10)) + 1, "deletions": o.count(chr(10)) + 1}, "truncated": False}
    elif t == "grep":
        inp = {"pattern": word() + "|" + word(), "path": s["project"]["worktree"]}
        n = R.randint(0, 25)
        outp = f"Found {n} matches\n" + "\n".join(f"{path()}:\n  Line {R.randint(1, 900)}: {code(1).strip()}" for _ in range(n))
        title, meta = inp["pattern"], {"matches": n, "truncated": False}
    elif t == "write":
        inp = {"filePath": fp, "content": code(R.randint(8, 60))}
        outp, title, meta = "Wrote file successfully.", fp[1:], {"diagnostics": {}, "filepath": fp, "exists": False, "truncated": False}
    elif t == "todowrite":
        todos = [{"id": str(i + 1), "content": sentence(), "status": R.choice(["pending", "in_progress", "completed"]), "priority": R.choice(["high", "medium", "low"])} for i in range(R.randint(2, 6))]
        inp, outp, title, meta = {"todos": todos}, json.dumps(todos, indent=2), f"{len(todos)} todos", {"todos": todos, "truncated": False}
        s["todos"] = todos
    elif t == "task":
        inp = {"description": sentence()[:40], "prompt": prose(2, 5), "subagent_type": "general"}
        outp, title, meta = prose(2, 6), inp["description"], {"sessionId": s["id"], "model": {"providerID": s["model"][0], "modelID": s["model"][1]}, "truncated": False}
    else:
        inp, outp, title = {"pattern": "**/*." + R.choice(EXT)}, "\n".join(path() for _ in range(R.randint(1, 30))), "glob"
    st = {"status": "completed", "input": inp, "output": outp, "title": title, "metadata": meta, "time": {"start": ms, "end": ms + dur}}
    if R.random() < 0.04:
        st = {"status": "error", "input": inp, "error": "Error: File not found: " + fp, "time": {"start": ms, "end": ms + dur}}
    return {**base, "type": "tool", "callID": f"call_{R.getrandbits(64):016x}", "tool": t, "state": st}


def emit_part(s, mid, ms, d):
    global total_parts
    pid = oid("prt", ms)
    total_parts += 1
    s["parts"] += 1
    full = {"id": pid, "sessionID": s["id"], "messageID": mid, **d}
    if JSON:
        put(f"part/{mid}/{pid}", full)
    if db:
        dbput("part", {"id": pid, "message_id": mid, "session_id": s["id"], "time_created": ms, "time_updated": ms, "data": json.dumps(d, ensure_ascii=False, separators=(",", ":"))})


def emit_message(s, mid, ms, d):
    s["n"] += 1
    s["updated"] = max(s["updated"], ms)
    if JSON:
        put(f"message/{s['id']}/{mid}", {"id": mid, "sessionID": s["id"], **d})
    if db:
        dbput("message", {"id": mid, "session_id": s["id"], "time_created": ms, "time_updated": ms, "data": json.dumps(d, ensure_ascii=False, separators=(",", ":"))})


done_messages = 0
for si, s in enumerate(sessions):
    ms = s["created"] + 40
    todo = plant.get(si, [])[:]
    uid = None
    prov, mod = s["model"]
    for k in range(counts[si]):
        left_m = a.messages - done_messages
        left_p = a.parts - total_parts
        ms += R.randint(800, 240_000)
        if uid is None or R.random() < 0.22:
            uid = oid("msg", ms)
            emit_message(s, uid, ms, {"role": "user", "time": {"created": ms}, "summary": {"title": s["title"], "diffs": []}, "agent": s["agent"], "model": {"providerID": prov, "modelID": mod}})
            txt = prose(1, 6)
            if todo and k == 0:
                txt += " " + " ".join(todo)
                todo = []
            emit_part(s, uid, ms, {"type": "text", "text": txt})
            done_messages += 1
            continue
        mid = oid("msg", ms)
        want = max(1, round(left_p / max(1, left_m) * 1.28))
        tok = {"input": R.randint(200, 9000), "output": R.randint(20, 1500), "reasoning": R.choice([0, 0, R.randint(10, 600)]), "cache": {"read": R.randint(0, 60000), "write": R.randint(0, 4000)}}
        tok["total"] = tok["input"] + tok["output"] + tok["cache"]["read"] + tok["cache"]["write"]
        cost = round((tok["input"] * 3 + tok["output"] * 15 + tok["cache"]["read"] * 0.3 + tok["cache"]["write"] * 3.75) / 1e6, 6)
        g = s["agg"]
        g["input"] += tok["input"]; g["output"] += tok["output"]; g["reasoning"] += tok["reasoning"]
        g["read"] += tok["cache"]["read"]; g["write"] += tok["cache"]["write"]; g["cost"] += cost
        snap = f"{R.getrandbits(160):040x}"
        emit_part(s, mid, ms, {"type": "step-start", "snapshot": snap})
        body = max(0, want - 2)
        tools = 0
        for b in range(body):
            q = R.random()
            pm = ms + 5 * (b + 1)
            if q < 0.12:
                emit_part(s, mid, pm, {"type": "reasoning", "text": prose(2, 9), "time": {"start": pm, "end": pm + 900}})
            elif q < 0.40:
                emit_part(s, mid, pm, {"type": "text", "text": "\n\n".join(prose(1, 5) for _ in range(R.randint(1, 4))) + ("\n\n```rust\n" + code(R.randint(3, 20)) + "\n```" if R.random() < 0.3 else ""), "time": {"start": pm, "end": pm + 700}})
            elif q < 0.94:
                tools += 1
                emit_part(s, mid, pm, tool_part({}, pm, s))
            else:
                emit_part(s, mid, pm, {"type": "patch", "hash": snap, "files": [f"{s['project']['worktree']}/{path()}" for _ in range(R.randint(1, 4))]})
        fin = "tool-calls" if tools else "stop"
        emit_part(s, mid, ms + 400, {"type": "step-finish", "reason": fin, "snapshot": snap, "cost": cost, "tokens": tok})
        emit_message(s, mid, ms, {"role": "assistant", "time": {"created": ms, "completed": ms + R.randint(900, 30_000)}, "parentID": uid, "modelID": mod, "providerID": prov, "mode": s["agent"], "agent": s["agent"],
                                  "path": {"cwd": s["project"]["worktree"], "root": s["project"]["worktree"]}, "cost": cost, "tokens": tok, "finish": fin})
        done_messages += 1
    info = {"id": s["id"], "slug": f"{word()}-{word()}", "version": "1.1.65", "projectID": s["project"]["id"], "directory": s["project"]["worktree"], **({"parentID": s["parent"]["id"]} if s["parent"] else {}), "title": s["title"],
            "permission": DENY, "time": {"created": s["created"], "updated": s["updated"]}, "summary": {"additions": s["add"], "deletions": s["del"], "files": s["files"]}}
    if JSON:
        put(f"session/{s['project']['id']}/{s['id']}", info)
        put(f"session_diff/{s['id']}", [])
        if "todos" in s:
            put(f"todo/{s['id']}", s["todos"])
    if db:
        g = s["agg"]
        dbput("session", {"id": s["id"], "project_id": s["project"]["id"], "parent_id": s["parent"]["id"] if s["parent"] else None, "slug": info["slug"], "directory": info["directory"], "path": "", "title": s["title"], "version": "1.18.33",
                          "summary_additions": s["add"], "summary_deletions": s["del"], "summary_files": s["files"], "cost": round(g["cost"], 6), "tokens_input": g["input"], "tokens_output": g["output"], "tokens_reasoning": g["reasoning"],
                          "tokens_cache_read": g["read"], "tokens_cache_write": g["write"], "agent": s["agent"], "model": json.dumps({"id": mod, "providerID": prov}), "time_created": s["created"], "time_updated": s["updated"]})
        for i, t in enumerate(s.get("todos", [])):
            dbput("todo", {"session_id": s["id"], "content": t["content"], "status": t["status"], "priority": t["priority"], "position": i, "time_created": s["created"], "time_updated": s["updated"]})
if db:
    db.execute("insert or ignore into migration(id,time_completed) select id,time_completed from (select 1 id, 1 time_completed) where 0")
    for r in src.execute("select id,time_completed from migration"):
        db.execute("insert into migration values(?,?)", r)
    db.commit()
    db.execute("pragma journal_mode=wal")
    db.close()
big = max(sessions, key=lambda s: s["n"])
deep = max(sessions, key=lambda s: s["depth"])
json.dump({"arguments": {k: getattr(a, k) for k in ("sessions", "messages", "parts", "projects", "seed")}, "sessions": len(sessions), "messages": done_messages, "parts": total_parts,
           "needles": {n: [sessions[i]["id"] for i in h] for n, h in needle_home.items()}, "largest": {"id": big["id"], "messages": big["n"], "parts": big["parts"]},
           "deepest": {"id": deep["id"], "depth": deep["depth"]}, "common_word": "parser",
           "totals": {s["id"]: {"messages": s["n"], "parts": s["parts"], **{k: (round(v, 6) if k == "cost" else v) for k, v in s["agg"].items()}} for s in sessions}}, open(out + "/truth.json", "w"), indent=1)
print(f"sessions {len(sessions)}  messages {done_messages}  parts {total_parts}  largest {big['n']} messages / {big['parts']} parts")
