use super::*;

fn slots() -> Vec<Slot> {
    [
        "2026-11-24T09:00:00",
        "2026-11-25T09:00:00",
        "2026-11-26T09:00:00",
    ]
    .map(|start| Slot::try_from(start.to_owned()).unwrap())
    .to_vec()
}

fn heard(route: Route, text: &str) -> HeardUtterance {
    let (tool, caller) = (None, None);
    HeardUtterance {
        text: text.to_owned(),
        tool,
        caller,
        route,
        messages: 0,
    }
}

/// Sends an answer to three proposed slots: Tuesday, Wednesday, Thursday.
fn answer_proposal(text: &str) -> (StepResult, Dialogue) {
    let mut dialogue = Dialogue {
        state: State::WaitConfirm,
        proposed: slots(),
        ..Dialogue::default()
    };
    (dialogue.hear(&heard(Route::Completions, text)), dialogue)
}

#[test]
fn an_accepted_proposal_is_booked() {
    for (text, index) in [
        ("le 2", 1),
        ("Oui.", 0),
        ("Oui, c'est parfait", 0),
        ("deux", 1),
        ("numéro 3", 2),
        ("le 2 s'il vous plaît", 1),
        ("mercredi", 1),
        ("le 2, mercredi", 1),
    ] {
        let slot = slots()[index];
        assert_eq!(
            answer_proposal(text).0,
            StepResult::AskCalendar(CalendarRequest::Book { slot }),
            "{text}"
        );
    }
}

#[test]
fn a_refused_slot_is_neither_booked_nor_proposed_again() {
    for (text, refused) in [
        ("Non, pas le 2", vec![1]),
        ("Pas mardi", vec![0]),
        ("Oui mais pas mardi", vec![0]),
        ("ni le 1 ni le 3", vec![0, 2]),
        ("pas le 2, le 3", vec![1]),
        ("Non.", vec![0, 1, 2]),
    ] {
        let (next, dialogue) = answer_proposal(text);
        let except: Vec<Slot> = refused.iter().map(|index| slots()[*index]).collect();
        assert_eq!(
            next,
            StepResult::AskCalendar(CalendarRequest::Free { except, day: None }),
            "{text}"
        );
        assert_eq!(dialogue.chosen, None);
    }
}

#[test]
fn the_question_is_repeated_after_an_ambiguous_answer() {
    for text in [
        "Non, le 2",
        "Pas de souci, le 2",
        "Attendez deux minutes",
        "Oui, attendez deux minutes",
        "j'ai deux questions",
        "Oui, j'ai deux questions",
        "Non, mardi",
        "mardi, je ne peux pas",
        "le 2 ne me va pas",
        "oui, le 2 décembre",
        "oui, enfin non",
        "le 2, mardi",
    ] {
        let (next, dialogue) = answer_proposal(text);
        assert!(
            matches!(&next, StepResult::Say(text) if text.starts_with("Pardon")),
            "{text}: {next:?}"
        );
        assert_eq!(
            (dialogue.chosen, dialogue.proposed.len()),
            (None, 3),
            "{text}"
        );
    }
}

#[test]
fn a_number_that_was_not_proposed_books_nothing() {
    let (_, mut dialogue) = answer_proposal("?");
    dialogue.proposed.truncate(2);
    let next = dialogue.hear(&heard(Route::Completions, "oui, le 3"));
    assert!(matches!(next, StepResult::Say(_)), "{next:?}");
}

#[test]
fn a_completion_gets_the_answer_of_the_transcript_with_the_same_words_and_replaces_transcripts() {
    let mut dialogue = Dialogue::default();
    let first = dialogue.hear(&heard(Route::Transcript, "Bonjour."));
    assert!(!dialogue.is_copy(Route::Completions));
    let messages = ["bonjour".to_owned()];
    let text = dialogue.unheard(&messages);
    assert!(dialogue.was_transcribed(Route::Completions, &text));
    assert_eq!(dialogue.hear(&heard(Route::Completions, &text)), first);
    assert_eq!(dialogue.state, State::Qualif);
    // After the first completion, transcripts are copies.
    assert!(dialogue.is_copy(Route::Transcript));
    let next = dialogue.hear(&heard(Route::Completions, "Oui"));
    assert!(
        matches!(&next, StepResult::Say(text) if text.starts_with("À quel nom")),
        "{next:?}"
    );
}

#[test]
fn a_completion_handles_messages_that_had_no_transcript() {
    let mut dialogue = Dialogue::default();
    dialogue.hear(&heard(Route::Transcript, "Bonjour."));
    let messages = ["bonjour", "oui"].map(str::to_owned);
    assert_eq!(dialogue.unheard(&messages), "oui");
    assert!(!dialogue.was_transcribed(Route::Completions, "oui"));
}
