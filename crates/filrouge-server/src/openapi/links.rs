//! Links from responses to further operations, for readers and for programs that explore the document.

use serde_json::{Value, json};

/// The parameters of a link's target operation, each with the place of its value in the response or in the request.
type Parameters = &'static [(&'static str, &'static str)];

const SESSION: Parameters = &[("session_id", "$response.body#/session_id")];
const TURN: Parameters = &[
    ("session_id", "$response.body#/session_id"),
    ("turn_id", "$response.body#/turn_id"),
];
const SAME_SESSION: Parameters = &[("session_id", "$request.path.session_id")];
const SAME_TURN: Parameters = &[
    ("session_id", "$request.path.session_id"),
    ("turn_id", "$request.path.turn_id"),
];
const FIRST_SESSION: Parameters = &[("session_id", "$response.body#/data/0/session_id")];
const FIRST_TURN: Parameters = &[
    ("session_id", "$request.path.session_id"),
    ("turn_id", "$response.body#/data/0/turn_id"),
];

macro_rules! links {
    ($($from:ident $parameters:ident: $($to:ident)+;)+) => {
        /// Operations, each with the target operations of the links in its successful responses, and with the
        /// parameters of these links.
        pub(super) const LINKS: &[(&str, &[&str], Parameters)] = &[$((stringify!($from), &[$(stringify!($to)),+], $parameters)),+];
    };
}

links! {
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

/// Adds the links of `operation` to its responses.
pub(super) fn add_links(operation: &str, responses: &mut Value) {
    for (_, targets, parameters) in LINKS.iter().filter(|source| source.0 == operation) {
        let parameters: Value = parameters.iter().copied().collect();
        for status in ["200", "201"] {
            let Some(response) = responses.get_mut(status) else {
                continue;
            };
            for target in *targets {
                response["links"][*target] =
                    json!({"operationId": target, "parameters": parameters});
            }
        }
    }
}
