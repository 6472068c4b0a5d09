//! A complete call, and its expected record.

use crate::process::{Agent, CALLER, RecordedCall};

/// The caller's messages, each with the beginning of the answer.
pub(crate) const SCRIPT: &[(&str, &str)] = &[
    ("Bonjour", "Bonjour, cabinet du docteur Martin."),
    ("Oui, d'accord", "À quel nom"),
    ("Je m'appelle Jeanne Petit", "Quel est le motif"),
    (
        "Un contrôle annuel",
        "Peut-on vous joindre au +33698765432 ?",
    ),
    ("Oui", "Je vous propose : 1, mardi 24 novembre à 9 heures"),
    ("le 2", "C'est confirmé, Jeanne Petit : "),
];

/// Returns the caller's messages up to `index`, from 0.
pub(crate) fn messages(index: usize) -> Vec<&'static str> {
    SCRIPT[..=index]
        .iter()
        .map(|(message, _)| *message)
        .collect()
}

/// Sends the caller's messages up to `index`, and checks the answer to the last one.
#[track_caller]
pub(crate) fn say(agent: &Agent, call: &str, index: usize) -> String {
    let answer = agent.answer_after_fillers(call, &messages(index));
    assert!(
        answer.starts_with(SCRIPT[index].1),
        "message {index}: {answer}\n{}",
        agent.log()
    );
    answer
}

/// Sends the caller's messages with these numbers, and checks the answers.
pub(crate) fn send_messages(agent: &Agent, call: &str, numbers: std::ops::RangeInclusive<usize>) {
    for index in numbers {
        say(agent, call, index);
    }
}

/// Checks that the ledger has the complete script, once and in order, and that the call ended with one booking.
#[track_caller]
pub(crate) fn check_script(agent: &Agent, call: &str) -> RecordedCall {
    let answers: Vec<&str> = SCRIPT.iter().map(|(_, answer)| *answer).collect();
    check_conversation(agent, call, &messages(SCRIPT.len() - 1), &answers)
}

/// Checks that the ledger has these messages and answers, once and in order, up to a booking, and that nothing of the
/// call was lost.
#[track_caller]
pub(crate) fn check_conversation(
    agent: &Agent,
    call: &str,
    messages: &[&str],
    answers: &[&str],
) -> RecordedCall {
    let journal = agent.call(call);
    let conversation = journal.conversation();
    assert_eq!(conversation.len(), 2 * messages.len(), "{conversation:#?}");
    for (pair, (message, answer)) in conversation.chunks(2).zip(messages.iter().zip(answers)) {
        assert_eq!(pair[0], *message);
        assert!(pair[1].starts_with(answer), "{pair:?}");
    }
    assert_eq!(journal.state(), "CONFIRMED");
    assert_eq!(journal.checkpoint("caller"), CALLER);
    assert_eq!(journal.checkpoint("consent"), true);
    assert_eq!(journal.checkpoint("turns"), messages.len());
    assert_eq!(journal.checkpoint("not_understood"), 0);
    assert_eq!(journal.events("call_started"), 1, "{journal:?}");
    assert_eq!(journal.events("booking_confirmed"), 1);
    for kind in ["transferred", "unknown_state"] {
        assert_eq!(journal.events(kind), 0, "{journal:?}");
    }
    let calendar = agent.get("/agenda");
    let slots = calendar.as_object().unwrap().iter();
    let booked: Vec<&String> = slots
        .filter(|(_, holder)| holder["call"] == call)
        .map(|(slot, _)| slot)
        .collect();
    assert_eq!(booked.len(), 1, "{calendar}");
    assert_eq!(*journal.checkpoint("chosen"), **booked[0]);
    journal
}
