//! Where an answer leads: OpenAPI links, for readers and for programs that walk the document.

use serde_json::{Value, json};

/// Parameters, and where in the answer or its request their values stand.
type Given = &'static [(&'static str, &'static str)];

const SESSION: Given = &[("session_id", "$response.body#/session_id")];
const TURN: Given = &[
    ("session_id", "$response.body#/session_id"),
    ("turn_id", "$response.body#/turn_id"),
];
const SAME_SESSION: Given = &[("session_id", "$request.path.session_id")];
const SAME_TURN: Given = &[
    ("session_id", "$request.path.session_id"),
    ("turn_id", "$request.path.turn_id"),
];
const FIRST_SESSION: Given = &[("session_id", "$response.body#/data/0/session_id")];
const FIRST_TURN: Given = &[
    ("session_id", "$request.path.session_id"),
    ("turn_id", "$response.body#/data/0/turn_id"),
];

macro_rules! leads {
    ($($from:ident $given:ident: $($to:ident)+;)+) => {
        /// Operations, those that their successful answers lead to, and the parameters of these.
        const LEADS: &[(&str, &[&str], Given)] = &[$((stringify!($from), &[$(stringify!($to)),+], $given)),+];
    };
}

leads! {
    createSession SESSION: getSession startTurn listTurns listItems restoreContext exportSession verifySession patchSession
        closeSession linkSession recordEvent takeLease resumeSession putCheckpoint eraseSession;
    listSessions FIRST_SESSION: getSession startTurn listTurns;
    startTurn TURN: getTurn appendItems recordStream finalizeTurn failTurn cancelTurn replaceTurn redactTurn;
    startTurn SESSION: getSession listItems restoreContext;
    recordEvent SAME_SESSION: listEvents;
    takeLease SAME_SESSION: getLease renewLease releaseLease;
    resumeSession SAME_SESSION: getLease renewLease putCheckpoint;
    putCheckpoint SAME_SESSION: listCheckpoints getLatestCheckpoint resumeSession;
    patchSession SESSION: getSession patchSession;
    closeSession SESSION: getSession startTurn listEvents;
    eraseSession SESSION: getSession startTurn listItems;
    listTurns FIRST_TURN: getTurn replaceTurn;
    appendItems SAME_TURN: getTurn finalizeTurn cancelTurn;
    finalizeTurn TURN: getTurn replaceTurn redactTurn;
    recordStream TURN: getTurn appendItems replaceTurn;
    failTurn TURN: getTurn replaceTurn;
    cancelTurn TURN: getTurn replaceTurn;
    replaceTurn TURN: getTurn redactTurn;
}

/// Puts the links of `operation` into its answers.
pub(super) fn link(operation: &str, responses: &mut Value) {
    for (_, targets, given) in LEADS.iter().filter(|lead| lead.0 == operation) {
        let given: Value = given.iter().copied().collect();
        for status in ["200", "201"] {
            let Some(response) = responses.get_mut(status) else {
                continue;
            };
            for target in *targets {
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
        .flat_map(|lead| lead.1.iter().copied().chain([lead.0]))
}
