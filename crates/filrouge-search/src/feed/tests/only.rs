//! No more is read and put than what has changed.

use super::*;

#[test]
fn only_what_has_changed_is_put() {
    let made = Arc::new(Made::default());
    let words: BTreeMap<u8, u8> = (0..9).map(|at| (at, at)).collect();
    put(&made, "a", 1, &words);
    put(&made, "b", 1, &words);
    let index = over(&made);
    let first = update(&index);
    assert_eq!((first.sessions, first.documents), (2, 20));
    let again = update(&index);
    assert_eq!((again.sessions, again.documents), (0, 0));
    let mut more = words;
    more.insert(9, 1);
    put(&made, "a", 1, &more);
    assert_eq!(now(&index).pending, 1);
    let read = made.messages.swap(0, Ordering::SeqCst);
    assert_eq!(read, 18);
    let changed = update(&index);
    assert_eq!((changed.sessions, changed.documents), (1, 1));
    // No more is read than what has changed, also by a process that has just started.
    more.insert(3, 200);
    more.remove(&4);
    put(&made, "a", 1, &more);
    let later = SourceIndex::new(made.clone(), index.index().clone(), None);
    let changed = update(&later);
    assert_eq!((changed.sessions, changed.documents), (1, 1));
    assert_eq!(made.messages.load(Ordering::SeqCst), 2);
    assert_eq!(held(&**index.index(), &now(&index)), said(&*made));
}

#[test]
fn what_was_written_and_says_the_same_is_not_read_again_and_again() {
    let made = Arc::new(Made::default());
    put(&made, "a", 1, &(0..9).map(|at| (at, at)).collect());
    let index = over(&made);
    update(&index);
    // In none of these is something else said; the session is in another state each time.
    let written = |ids: &[&str], state: i64| {
        let mut sessions = made.sessions.lock().unwrap();
        let session = sessions.get_mut("a").unwrap();
        let messages = session.1.messages.iter_mut();
        let own = messages.filter(|message| ids.contains(&&*message.id));
        own.for_each(|message| message.completed = Some(state));
        session.2 += 1_000_000;
        drop(sessions);
        made.messages.store(0, Ordering::SeqCst);
        let documents = update(&index).documents;
        (made.messages.load(Ordering::SeqCst), documents)
    };
    assert_eq!(written(&["m1", "m2"], 1), (2, 2));
    assert_eq!(written(&["m3"], 2), (1, 1));
    assert_eq!(written(&[], 3), (0, 0));
    let all: Vec<String> = (0..9).map(|at| format!("m{at}")).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    assert_eq!(written(&all, 4), (9, 0));
    // They are read each time, until there is something that stays as it is.
    assert_eq!(written(&["m0"], 5), (9, 0));
    assert_eq!(written(&[], 6), (9, 0));
    assert_eq!(held(&**index.index(), &now(&index)), said(&*made));
}
