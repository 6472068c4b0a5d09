// Uses the types that openapi-typescript generated: `client.mts ORIGIN`.
//
// Starts a turn, appends an item, finalizes, and receives a typed error. Prints one JSON document. The compiler checks
// that every member has the type of the document.

import createClient from "openapi-fetch";
import type { components, paths } from "./filrouge.d.ts";

declare const process: { argv: string[] };

type Problem = components["schemas"]["Problem"];
type StartTurn = components["schemas"]["StartTurn"];

function check(condition: boolean, value: unknown): asserts condition {
    if (!condition) throw new Error(JSON.stringify(value));
}

const client = createClient<paths>({ baseUrl: process.argv[2] });
const session_id = "typescript/1";

const body: StartTurn = { request_id: "r1", question_neutral: "When do you open?" };
const started = await client.POST("/api/v1/sessions/{session_id}/turns", { params: { path: { session_id } }, body });
const turn = started.data;
check(turn !== undefined && turn.status === "open", started);
const path = { session_id, turn_id: turn.turn_id };

const appended = await client.POST("/api/v1/sessions/{session_id}/turns/{turn_id}/items", {
    params: { path },
    body: {
        items: [{ channel: "thought", role: "assistant", parts: [{ type: "text", text: "The sign says nine." }] }],
    },
});
check(appended.data?.last_seq === 2, appended);

const finalize = "/api/v1/sessions/{session_id}/turns/{turn_id}/finalize";
const finalized = await client.POST(finalize, { params: { path }, body: { answer_neutral: "At nine." } });
check(finalized.data?.status === "finalized", finalized);

const replacing = await client.POST("/api/v1/sessions/{session_id}/turns/{turn_id}/replace", {
    params: { path },
    body: { request_id: "r2", question_neutral: "When do you open?", answer_neutral: "At ten." },
});
check(replacing.data?.answer_neutral === "At ten.", replacing);

const refused = await client.POST("/api/v1/sessions/{session_id}/turns/{turn_id}/items", {
    params: { path },
    body: { items: [{ channel: "thought", role: "assistant", parts: [{ type: "text", text: "Again." }] }] },
});
const problem: Problem | undefined = refused.error;
check(problem !== undefined && problem.status === 409, refused);
const expected: Problem["code"] = "turn_closed";
check(problem.code === expected, problem);

const { question_neutral, answer_neutral } = finalized.data;
console.log(JSON.stringify({ question: question_neutral, answer: answer_neutral, code: problem.code }));
