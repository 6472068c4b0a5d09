#!/usr/bin/env python3
"""Writes a large, deterministic OpenCode history in the formats of the genuine
fixtures (tests/fixtures/opencode-json and opencode-sqlite).

  gen_opencode_storage.py --out DIR [--format json|sqlite|both]
      [--sessions 400] [--messages 8000] [--parts 40000] [--projects 12] [--seed 7]
      [--schema tests/fixtures/opencode-sqlite/opencode.db]

DIR becomes a data folder in OpenCode'session layout: DIR/storage/... and DIR/opencode.db.
DIR/truth.json has the expected results: needles (planted texts) with the sessions that
contain them, the largest and the deepest session, totals per session.

Equal arguments give equal bytes. The order of the calls of `rng` determines the output:
the judged queries of the benchmark depend on it.
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
args = ap.parse_args()
rng = random.Random(args.seed)

# ---- vocabulary: common words with Zipf-like frequencies, and many rare ones
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
SYLLABLES = "ba be bi bo bu ca ce co da de di do fa fe fi fo ga ge go ha he hi ja ka ke ko la le li lo ma me mi mo na ne no pa pe po ra re ri ro sa se si so ta te ti to va ve vi vo wa we za ze zo".split()
RARE_WORDS = sorted({"".join(rng.choice(SYLLABLES) for _ in range(rng.randint(2, 4))) for _ in range(9000)})
WORDS = COMMON + RARE_WORDS
CUMULATIVE_WEIGHTS = list(itertools.accumulate(1.0 / (i + 2.7) for i in range(len(WORDS))))
EXTENSIONS = ["rs", "py", "ts", "go", "md", "toml", "sql"]


def word():
    return WORDS[bisect.bisect(CUMULATIVE_WEIGHTS, rng.random() * CUMULATIVE_WEIGHTS[-1])]


def sentence():
    n = rng.randint(5, 19)
    text = " ".join(word() for _ in range(n))
    if rng.random() < 0.15:
        text += f" (`{identifier()}`)"
    return text[0].upper() + text[1:] + rng.choice([".", ".", ".", "?", ":"])


def identifier():
    return rng.choice(["_", "::", "."]).join(word() for _ in range(rng.randint(2, 3)))


def prose(least, most):
    """A text of `least` to `most` sentences."""
    return " ".join(sentence() for _ in range(rng.randint(least, most)))


def path():
    return "/".join([rng.choice(["src", "lib", "tests", "crates", "docs", "app"]), word(), word()]) + "." + rng.choice(EXTENSIONS)


def code(n):
    """`n` lines of a program."""
    out = []
    for i in range(n):
        draw = rng.random()
        if draw < 0.2:
            out.append(f"fn {word()}_{word()}({word()}: &{word().title()}) -> Result<{word().title()}> {{")
        elif draw < 0.7:
            out.append(f"    let {word()} = {identifier()}({word()}, {rng.randint(0, 4096)});")
        elif draw < 0.9:
            out.append(f"    // {sentence()}")
        else:
            out.append("}")
    return "\n".join(out)


# ---- ids as OpenCode creates them: 48 bits of ms * 4096 + counter, then 14 characters of base62
BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
last_id = [0, 0]


def opencode_id(prefix, ms, descending=False):
    if ms != last_id[0]:
        last_id[0], last_id[1] = ms, 0
    last_id[1] += 1
    v = ms * 4096 + last_id[1]
    if descending:
        v = ~v
    return f"{prefix}_{v & (2**48 - 1):012x}" + "".join(rng.choice(BASE62) for _ in range(14))


AGENTS = ["build", "plan", "executor", "quality", "tester", "roadmap"]
MODELS = [("anthropic", "claude-sonnet-4-5"), ("openai", "gpt-5.2"), ("mock", "atelier-1"), ("google", "gemini-3-pro")]
DENY = [{"permission": "question", "pattern": "*", "action": "deny"}]
# Planted texts, and in how many sessions each occurs.
NEEDLES = {"zephyrine-0417": 1, "quillon-2291": 10, "ombrelle-7733": 100}

projects = []
for i in range(args.projects):
    project_id = f"{rng.getrandbits(160):040x}" if i else "global"
    projects.append({"id": project_id, "worktree": f"/home/demo/{word()}-{word()}" if i else "/", "git": bool(i)})

# ---- sessions: three in ten are children, one in fourteen is a fork
FIRST_MS = 1735725600000
sessions, now = [], FIRST_MS
for i in range(args.sessions):
    now += rng.randint(200_000, 40_000_000)
    parent = rng.choice(sessions[-25:]) if sessions and rng.random() < 0.3 else None
    fork = rng.choice(sessions) if sessions and not parent and rng.random() < 0.07 else None
    if parent and parent["depth"] > 2:
        parent = None
    project = parent["project"] if parent else (fork["project"] if fork else rng.choice(projects))
    agent = rng.choice(["general", "explore"]) if parent else rng.choice(AGENTS)
    title = (" ".join(word() for _ in range(rng.randint(3, 8)))).capitalize()
    if parent:
        title += f" (@{agent} subagent)"
    if fork:
        title = fork["title"] + " (fork #1)"
    sessions.append({"id": opencode_id("ses", now, True), "project": project, "parent": parent, "fork": fork, "agent": agent, "title": title,
                     "created": now, "updated": now, "depth": (parent["depth"] + 1 if parent else 0), "model": rng.choice(MODELS),
                     "n": 0, "usage": {"input": 0, "output": 0, "reasoning": 0, "read": 0, "write": 0, "cost": 0.0}, "parts": 0,
                     "add": rng.randint(0, 400), "del": rng.randint(0, 200), "files": rng.randint(0, 12)})
# Few sessions have many messages; each has at least two.
weights = [rng.paretovariate(1.1) for _ in sessions]
total_weight = sum(weights)
counts = [max(2, int(args.messages * w / total_weight)) for w in weights]
while sum(counts) != args.messages:
    k = rng.randrange(len(counts))
    d = 1 if sum(counts) < args.messages else -1
    if counts[k] + d >= 2:
        counts[k] += d
# By needle the numbers of its sessions; by session the needles to plant.
needle_sessions = {n: sorted(rng.sample(range(len(sessions)), min(c, len(sessions)))) for n, c in NEEDLES.items()}
planted = {}
for needle, numbers in needle_sessions.items():
    for number in numbers:
        planted.setdefault(number, []).append(needle)

out = args.out
os.makedirs(out, exist_ok=True)
db = None
if args.format in ("sqlite", "both"):
    db_path = out + "/opencode.db"
    for old in (db_path, db_path + "-wal", db_path + "-shm"):
        if os.path.exists(old):
            os.remove(old)
    db = sqlite3.connect(db_path)
    schema = sqlite3.connect(f"file:{args.schema}?immutable=1", uri=True)
    for (sql,) in schema.execute("select sql from sqlite_master where sql is not null and name not like 'sqlite_%' order by type desc"):
        db.execute(sql)
    columns = {t: [c[1] for c in schema.execute(f"pragma table_info({t})")] for t in ("project", "session", "message", "part", "todo")}


def insert_row(table, row):
    row = {k: v for k, v in row.items() if k in columns[table]}
    db.execute(f"insert into {table}({','.join(row)}) values({','.join('?' * len(row))})", list(row.values()))


def write_json(name, value):
    path = f"{out}/storage/{name}.json"
    folder = os.path.dirname(path)
    if folder not in existing_folders:
        os.makedirs(folder, exist_ok=True)
        existing_folders.add(folder)
    with open(path, "w") as file:
        json.dump(value, file, indent=2, ensure_ascii=False)


existing_folders = set()
write_files = args.format in ("json", "both")
if write_files:
    os.makedirs(out + "/storage", exist_ok=True)
    open(out + "/storage/migration", "w").write("2")
for p in projects:
    if write_files:
        write_json(f"project/{p['id']}", {"id": p["id"], "worktree": p["worktree"], **({"vcs": "git"} if p["git"] else {}), "sandboxes": [], "time": {"created": FIRST_MS, "updated": now}})
    if db:
        insert_row("project", {"id": p["id"], "worktree": p["worktree"], "vcs": "git" if p["git"] else None, "time_created": FIRST_MS, "time_updated": now, "sandboxes": "[]"})

TOOLS = [("bash", 34), ("read", 26), ("edit", 14), ("grep", 10), ("write", 6), ("glob", 4), ("todowrite", 3), ("task", 2), ("webfetch", 1)]
TOOL_NAMES, TOOL_WEIGHTS = [t for t, _ in TOOLS], [w for _, w in TOOLS]
total_parts = 0


def tool_part(base, ms, session):
    """A call of a random tool, with its result."""
    tool = rng.choices(TOOL_NAMES, TOOL_WEIGHTS)[0]
    duration_ms = rng.randint(3, 4000)
    file = f"{session['project']['worktree']}/{path()}"
    arguments, output, meta, title = {}, "", {"truncated": False}, ""
    if tool == "bash":
        arguments = {"command": f"cargo test -p {word()} {word()} 2>&1 | tail -{rng.randint(5, 60)}", "description": sentence()[:60]}
        output = "\n".join(f"test {identifier()} ... {rng.choice(['ok', 'ok', 'ok', 'FAILED'])}" for _ in range(rng.randint(2, 40)))
        title, meta = arguments["description"], {"output": output, "exit": rng.choice([0, 0, 0, 1, 101]), "description": arguments["description"], "truncated": False}
    elif tool == "read":
        arguments = {"filePath": file, "limit": 400}
        body = code(rng.randint(12, 110))
        output = f"<path>{file}</path>\n<type>file</type>\n<content>" + "\n".join(f"{i + 1}: {l}" for i, l in enumerate(body.split("\n"))) + "\n</content>"
        title, meta = file[1:], {"preview": body[:400], "truncated": False, "loaded": []}
    elif tool == "edit":
        o, n = code(rng.randint(1, 5)), code(rng.randint(1, 6))
        arguments = {"filePath": file, "oldString": o, "newString": n}
        output = "Edit applied successfully."
        title, meta = file[1:], {"diagnostics": {}, "diff": f"Index: {file}\n--- {file}\n+++ {file}\n-{o}\n+{n}\n", "filediff": {"file": file, "before": o, "after": n, "additions": n.count(chr(10)) + 1, "deletions": o.count(chr(10)) + 1}, "truncated": False}
    elif tool == "grep":
        arguments = {"pattern": word() + "|" + word(), "path": session["project"]["worktree"]}
        n = rng.randint(0, 25)
        output = f"Found {n} matches\n" + "\n".join(f"{path()}:\n  Line {rng.randint(1, 900)}: {code(1).strip()}" for _ in range(n))
        title, meta = arguments["pattern"], {"matches": n, "truncated": False}
    elif tool == "write":
        arguments = {"filePath": file, "content": code(rng.randint(8, 60))}
        output, title, meta = "Wrote file successfully.", file[1:], {"diagnostics": {}, "filepath": file, "exists": False, "truncated": False}
    elif tool == "todowrite":
        todos = [{"id": str(i + 1), "content": sentence(), "status": rng.choice(["pending", "in_progress", "completed"]), "priority": rng.choice(["high", "medium", "low"])} for i in range(rng.randint(2, 6))]
        arguments, output, title, meta = {"todos": todos}, json.dumps(todos, indent=2), f"{len(todos)} todos", {"todos": todos, "truncated": False}
        session["todos"] = todos
    elif tool == "task":
        arguments = {"description": sentence()[:40], "prompt": prose(2, 5), "subagent_type": "general"}
        output, title, meta = prose(2, 6), arguments["description"], {"sessionId": session["id"], "model": {"providerID": session["model"][0], "modelID": session["model"][1]}, "truncated": False}
    else:
        arguments, output, title = {"pattern": "**/*." + rng.choice(EXTENSIONS)}, "\n".join(path() for _ in range(rng.randint(1, 30))), "glob"
    state = {"status": "completed", "input": arguments, "output": output, "title": title, "metadata": meta, "time": {"start": ms, "end": ms + duration_ms}}
    if rng.random() < 0.04:
        state = {"status": "error", "input": arguments, "error": "Error: File not found: " + file, "time": {"start": ms, "end": ms + duration_ms}}
    return {**base, "type": "tool", "callID": f"call_{rng.getrandbits(64):016x}", "tool": tool, "state": state}


def write_part(session, message_id, ms, data):
    global total_parts
    part_id = opencode_id("prt", ms)
    total_parts += 1
    session["parts"] += 1
    full = {"id": part_id, "sessionID": session["id"], "messageID": message_id, **data}
    if write_files:
        write_json(f"part/{message_id}/{part_id}", full)
    if db:
        insert_row("part", {"id": part_id, "message_id": message_id, "session_id": session["id"], "time_created": ms, "time_updated": ms, "data": json.dumps(data, ensure_ascii=False, separators=(",", ":"))})


def write_message(session, message_id, ms, data):
    session["n"] += 1
    session["updated"] = max(session["updated"], ms)
    if write_files:
        write_json(f"message/{session['id']}/{message_id}", {"id": message_id, "sessionID": session["id"], **data})
    if db:
        insert_row("message", {"id": message_id, "session_id": session["id"], "time_created": ms, "time_updated": ms, "data": json.dumps(data, ensure_ascii=False, separators=(",", ":"))})


done_messages = 0
for number, session in enumerate(sessions):
    ms = session["created"] + 40
    needles = planted.get(number, [])[:]
    user_message_id = None
    provider, model = session["model"]
    for k in range(counts[number]):
        messages_left = args.messages - done_messages
        parts_left = args.parts - total_parts
        ms += rng.randint(800, 240_000)
        if user_message_id is None or rng.random() < 0.22:
            user_message_id = opencode_id("msg", ms)
            write_message(session, user_message_id, ms, {"role": "user", "time": {"created": ms}, "summary": {"title": session["title"], "diffs": []}, "agent": session["agent"], "model": {"providerID": provider, "modelID": model}})
            text = prose(1, 6)
            if needles and k == 0:
                text += " " + " ".join(needles)
                needles = []
            write_part(session, user_message_id, ms, {"type": "text", "text": text})
            done_messages += 1
            continue
        message_id = opencode_id("msg", ms)
        part_count = max(1, round(parts_left / max(1, messages_left) * 1.28))
        tokens = {"input": rng.randint(200, 9000), "output": rng.randint(20, 1500), "reasoning": rng.choice([0, 0, rng.randint(10, 600)]), "cache": {"read": rng.randint(0, 60000), "write": rng.randint(0, 4000)}}
        tokens["total"] = tokens["input"] + tokens["output"] + tokens["cache"]["read"] + tokens["cache"]["write"]
        cost = round((tokens["input"] * 3 + tokens["output"] * 15 + tokens["cache"]["read"] * 0.3 + tokens["cache"]["write"] * 3.75) / 1e6, 6)
        usage = session["usage"]
        usage["input"] += tokens["input"]; usage["output"] += tokens["output"]; usage["reasoning"] += tokens["reasoning"]
        usage["read"] += tokens["cache"]["read"]; usage["write"] += tokens["cache"]["write"]; usage["cost"] += cost
        snapshot = f"{rng.getrandbits(160):040x}"
        write_part(session, message_id, ms, {"type": "step-start", "snapshot": snapshot})
        # Without step-start and step-finish.
        inner_parts = max(0, part_count - 2)
        tools = 0
        for b in range(inner_parts):
            draw = rng.random()
            part_ms = ms + 5 * (b + 1)
            if draw < 0.12:
                write_part(session, message_id, part_ms, {"type": "reasoning", "text": prose(2, 9), "time": {"start": part_ms, "end": part_ms + 900}})
            elif draw < 0.40:
                write_part(session, message_id, part_ms, {"type": "text", "text": "\n\n".join(prose(1, 5) for _ in range(rng.randint(1, 4))) + ("\n\n```rust\n" + code(rng.randint(3, 20)) + "\n```" if rng.random() < 0.3 else ""), "time": {"start": part_ms, "end": part_ms + 700}})
            elif draw < 0.94:
                tools += 1
                write_part(session, message_id, part_ms, tool_part({}, part_ms, session))
            else:
                write_part(session, message_id, part_ms, {"type": "patch", "hash": snapshot, "files": [f"{session['project']['worktree']}/{path()}" for _ in range(rng.randint(1, 4))]})
        finish = "tool-calls" if tools else "stop"
        write_part(session, message_id, ms + 400, {"type": "step-finish", "reason": finish, "snapshot": snapshot, "cost": cost, "tokens": tokens})
        write_message(session, message_id, ms, {"role": "assistant", "time": {"created": ms, "completed": ms + rng.randint(900, 30_000)}, "parentID": user_message_id, "modelID": model, "providerID": provider, "mode": session["agent"], "agent": session["agent"],
                                  "path": {"cwd": session["project"]["worktree"], "root": session["project"]["worktree"]}, "cost": cost, "tokens": tokens, "finish": finish})
        done_messages += 1
    info = {"id": session["id"], "slug": f"{word()}-{word()}", "version": "1.1.65", "projectID": session["project"]["id"], "directory": session["project"]["worktree"], **({"parentID": session["parent"]["id"]} if session["parent"] else {}), "title": session["title"],
            "permission": DENY, "time": {"created": session["created"], "updated": session["updated"]}, "summary": {"additions": session["add"], "deletions": session["del"], "files": session["files"]}}
    if write_files:
        write_json(f"session/{session['project']['id']}/{session['id']}", info)
        write_json(f"session_diff/{session['id']}", [])
        if "todos" in session:
            write_json(f"todo/{session['id']}", session["todos"])
    if db:
        usage = session["usage"]
        insert_row("session", {"id": session["id"], "project_id": session["project"]["id"], "parent_id": session["parent"]["id"] if session["parent"] else None, "slug": info["slug"], "directory": info["directory"], "path": "", "title": session["title"], "version": "1.18.33",
                          "summary_additions": session["add"], "summary_deletions": session["del"], "summary_files": session["files"], "cost": round(usage["cost"], 6), "tokens_input": usage["input"], "tokens_output": usage["output"], "tokens_reasoning": usage["reasoning"],
                          "tokens_cache_read": usage["read"], "tokens_cache_write": usage["write"], "agent": session["agent"], "model": json.dumps({"id": model, "providerID": provider}), "time_created": session["created"], "time_updated": session["updated"]})
        for i, t in enumerate(session.get("todos", [])):
            insert_row("todo", {"session_id": session["id"], "content": t["content"], "status": t["status"], "priority": t["priority"], "position": i, "time_created": session["created"], "time_updated": session["updated"]})
if db:
    for r in schema.execute("select id,time_completed from migration"):
        db.execute("insert into migration values(?,?)", r)
    db.commit()
    db.execute("pragma journal_mode=wal")
    db.close()
largest = max(sessions, key=lambda session: session["n"])
deepest = max(sessions, key=lambda session: session["depth"])
json.dump({"arguments": {k: getattr(args, k) for k in ("sessions", "messages", "parts", "projects", "seed")}, "sessions": len(sessions), "messages": done_messages, "parts": total_parts,
           "needles": {n: [sessions[i]["id"] for i in h] for n, h in needle_sessions.items()}, "largest": {"id": largest["id"], "messages": largest["n"], "parts": largest["parts"]},
           "deepest": {"id": deepest["id"], "depth": deepest["depth"]}, "common_word": "parser",
           "totals": {session["id"]: {"messages": session["n"], "parts": session["parts"], **{k: (round(v, 6) if k == "cost" else v) for k, v in session["usage"].items()}} for session in sessions}}, open(out + "/truth.json", "w"), indent=1)
print(f"sessions {len(sessions)}  messages {done_messages}  parts {total_parts}  largest {largest['n']} messages / {largest['parts']} parts")
