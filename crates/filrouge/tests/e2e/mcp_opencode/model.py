"""A scripted model on loopback that speaks OpenAI's chat completions, streamed.

A user message `CALL TOOL {JSON}` is answered by a call of the tool with these arguments, and a tool result by its own
text. Prints its port, and appends each request as one line to the file that the first argument names.
"""
import json, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def text_of(content):
    if isinstance(content, list):
        return " ".join(part.get("text", "") for part in content)
    return content or ""


def answer(request):
    last = request["messages"][-1]
    text = text_of(last["content"])
    if last["role"] == "tool":
        return {"content": "SEEN " + text[:2000]}
    if request.get("tools") and "CALL " in text:
        name, arguments = text.split("CALL ", 1)[1].strip().strip('"').split(" ", 1)
        arguments = json.dumps(json.JSONDecoder().raw_decode(arguments.replace('\\"', '"'))[0])
        call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}}
        return {"tool_calls": [call]}
    return {"content": "A title"}


class Model(BaseHTTPRequestHandler):
    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with open(sys.argv[1], "a") as log:
            log.write(json.dumps(request) + "\n")
        delta = answer(request)
        chunks = [
            {"delta": {"role": "assistant", **delta}, "finish_reason": None},
            {"delta": {}, "finish_reason": "tool_calls" if "tool_calls" in delta else "stop"},
        ]
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for chunk in chunks:
            body = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "scripted", "choices": [{"index": 0, **chunk}]}
            self.wfile.write(f"data: {json.dumps(body)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
print(server.server_port, flush=True)
server.serve_forever()
