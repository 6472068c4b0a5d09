//! Where an answer leads: OpenAPI links, for readers and for programs that walk the document.

use serde_json::{Value, json};

/// (operation, its statuses, operations that take the parameters, parameters).
type Lead = (
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
    &'static [(&'static str, &'static str)],
);

const SESSION: &[(&str, &str)] = &[("session_id", "$response.body#/session_id")];
const TURN: &[(&str, &str)] = &[
    ("session_id", "$response.body#/session_id"),
    ("turn_id", "$response.body#/turn_id"),
];
const SAME_SESSION: &[(&str, &str)] = &[("session_id", "$request.path.session_id")];
const SAME_TURN: &[(&str, &str)] = &[
    ("session_id", "$request.path.session_id"),
    ("turn_id", "$request.path.turn_id"),
];
const FIRST_SESSION: &[(&str, &str)] = &[("session_id", "$response.body#/data/0/session_id")];
const FIRST_TURN: &[(&str, &str)] = &[
    ("session_id", "$request.path.session_id"),
    ("turn_id", "$response.body#/data/0/turn_id"),
];

const LEADS: &[Lead] = &[
    (
        "createSession",
        &["200", "201"],
        &[
            "getSession",
            "startTurn",
            "listTurns",
            "listItems",
            "restoreContext",
            "exportSession",
            "verifySession",
            "patchSession",
            "closeSession",
            "linkSession",
            "recordEvent",
            "takeLease",
            "resumeSession",
            "putCheckpoint",
            "eraseSession",
        ],
        SESSION,
    ),
    (
        "listSessions",
        &["200"],
        &["getSession", "startTurn", "listTurns"],
        FIRST_SESSION,
    ),
    (
        "startTurn",
        &["200", "201"],
        &[
            "getTurn",
            "appendItems",
            "recordStream",
            "finalizeTurn",
            "failTurn",
            "cancelTurn",
            "replaceTurn",
            "redactTurn",
        ],
        TURN,
    ),
    (
        "startTurn",
        &["200", "201"],
        &["getSession", "listItems", "restoreContext"],
        SESSION,
    ),
    (
        "recordEvent",
        &["200", "201"],
        &["listEvents"],
        SAME_SESSION,
    ),
    (
        "takeLease",
        &["200", "201"],
        &["getLease", "renewLease", "releaseLease"],
        SAME_SESSION,
    ),
    (
        "resumeSession",
        &["200", "201"],
        &["getLease", "renewLease", "putCheckpoint"],
        SAME_SESSION,
    ),
    (
        "putCheckpoint",
        &["200", "201"],
        &["listCheckpoints", "getLatestCheckpoint", "resumeSession"],
        SAME_SESSION,
    ),
    (
        "patchSession",
        &["200"],
        &["getSession", "patchSession"],
        SESSION,
    ),
    (
        "closeSession",
        &["200"],
        &["getSession", "startTurn", "listEvents"],
        SESSION,
    ),
    (
        "eraseSession",
        &["200"],
        &["getSession", "startTurn", "listItems"],
        SESSION,
    ),
    (
        "listTurns",
        &["200"],
        &["getTurn", "replaceTurn"],
        FIRST_TURN,
    ),
    (
        "appendItems",
        &["200", "201"],
        &["getTurn", "finalizeTurn", "cancelTurn"],
        SAME_TURN,
    ),
    (
        "finalizeTurn",
        &["200"],
        &["getTurn", "replaceTurn", "redactTurn"],
        TURN,
    ),
    (
        "recordStream",
        &["200"],
        &["getTurn", "appendItems", "replaceTurn"],
        TURN,
    ),
    ("failTurn", &["200"], &["getTurn", "replaceTurn"], TURN),
    ("cancelTurn", &["200"], &["getTurn", "replaceTurn"], TURN),
    (
        "replaceTurn",
        &["200", "201"],
        &["getTurn", "redactTurn"],
        TURN,
    ),
];

/// Puts the links of `operation` into its answers.
pub(super) fn link(operation: &str, responses: &mut Value) {
    for (_, statuses, targets, parameters) in LEADS.iter().filter(|lead| lead.0 == operation) {
        for status in *statuses {
            let Some(response) = responses.get_mut(*status) else {
                continue;
            };
            for target in *targets {
                let given: Value = parameters
                    .iter()
                    .map(|(name, from)| (*name, *from))
                    .collect();
                response["links"][*target] = json!({"operationId": target, "parameters": given});
            }
        }
    }
}

/// The operations that the links name.
#[cfg(test)]
pub(super) fn named() -> impl Iterator<Item = &'static str> {
    LEADS
        .iter()
        .flat_map(|lead| lead.2.iter().copied().chain([lead.0]))
}
