"""Lets the providers' official SDKs read scripted answers, and reports what they read.

Reads JSON lines on stdin, one answer each: {"format": ..., "stream": ..., "status": ..., "type": ..., "chunks": [...],
"drop": ...}. `stream` is whether the SDK requests a stream, `type` the content type. A chunk is text in which each
character is a byte. With `drop`, the connection is closed after the chunks, without the end that HTTP requires. An
upstream on loopback sends each answer, every chunk as one HTTP chunk. Prints one JSON line {"line": n, "way": ...,
"report": ...} for each way in which the SDK can read it, n counted from 1, and {"read": n} as the last line.
"""

import json
import os
import re
import socket
import sys
import threading

for name in list(os.environ):
    if name.lower().endswith("_proxy") or name.startswith(("OPENAI_", "ANTHROPIC_", "GOOGLE_", "GEMINI_")):
        del os.environ[name]

import anthropic
import openai
from google import genai
from readers import READERS
from report import StreamReport, described


class Upstream:
    """Answers each request with the scenario whose number is in the name of the request's model."""

    def __init__(self, scenarios):
        self.scenarios = scenarios
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            connection, _ = self.listener.accept()
            threading.Thread(target=self.answer, args=(connection,), daemon=True).start()

    def answer(self, connection):
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            scenario = self.scenarios[int(re.search(rb"scenario-(\d+)", request(connection))[1])]
            head = (
                f"HTTP/1.1 {scenario['status']} Scripted\r\nContent-Type: {scenario['type']}\r\n"
                "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
            )
            connection.sendall(head.encode())
            for chunk in (text.encode("latin-1") for text in scenario["chunks"]):
                if chunk:
                    connection.sendall(b"%x\r\n%s\r\n" % (len(chunk), chunk))
            if not scenario["drop"]:
                connection.sendall(b"0\r\n\r\n")


def request(connection):
    """Reads the entire request: a connection that is closed earlier would be reset."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += received(connection)
    head, _, body = data.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: *(\d+)", head)
    while length and len(body) < int(length[1]):
        body += received(connection)
    return head + body


def received(connection):
    data = connection.recv(65536)
    if not data:
        raise ConnectionError("the SDK has closed the connection within its request")
    return data


class Clients:
    def __init__(self, url):
        self.openai = openai.OpenAI(api_key="none", base_url=url, max_retries=0, timeout=20)
        self.anthropic = anthropic.Anthropic(api_key="none", base_url=url, max_retries=0, timeout=20)
        self.gemini = genai.Client(api_key="none", http_options=genai.types.HttpOptions(base_url=url, timeout=20_000))


def main():
    scenarios = [json.loads(line) for line in sys.stdin]
    clients = Clients(Upstream(scenarios).url)
    for number, scenario in enumerate(scenarios):
        ways = READERS[scenario["format"], scenario["stream"]]
        for way, read in ways.items():
            report = StreamReport()
            try:
                read(clients, f"scenario-{number}", report)
            except Exception as error:
                report.error = described(error)
            print(json.dumps({"line": number + 1, "way": way, "report": report.as_json()}))
    print(json.dumps({"read": len(scenarios)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
