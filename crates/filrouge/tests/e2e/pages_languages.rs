//! Pages in French and German: names of statuses and channels, and the reasons why input is refused.

use serde_json::json;

use crate::pages_visitor::Visitor;
use crate::world::World;

#[test]
fn statuses_channels_and_refusals_are_translated() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let started = json!({ "request_id": "r", "question_neutral": "How warm is it?" });
    let turn = client.post("/s/turns", &started).wrote(201);
    let path = format!("/s/turns/{}/fail", turn["turn_id"].as_str().unwrap());
    let error =
        json!({ "error": { "code": "model_down", "message": "no route", "retryable": true } });
    client.post(&path, &error).wrote(200);
    client.post("/s/close", &json!({})).wrote(200);
    let of = |language| Visitor::new(&server).with("accept-language", language);
    let (german, french) = (of("de"), of("fr"));
    for (target, texts) in [
        ("/", ["abgeschlossen", "clôturée"]),
        ("/ui/sessions/s/lineage", ["abgeschlossen", "clôturée"]),
        ("/ui/sessions/s", [">abgeschlossen<", ">clôturée<"]),
        ("/ui/sessions/s", [">fehlgeschlagen<", ">échec<"]),
        (
            "/ui/sessions/s",
            ["kann wiederholt werden", "peut être réessayé"],
        ),
        ("/ui/sessions/s/redact?seqs=1", ["Benutzer", "Utilisateur"]),
        ("/ui/sessions/s/redact?seqs=1", [">Frage<", ">Question<"]),
        ("/?q=warm", ["Benutzer", "Utilisateur"]),
        ("/?q=%22open", ["nicht geschlossen", "pas fermé"]),
        ("/?q=x%20role%3Anobody", ["Zeichen 8: ", "Caractère 8: "]),
        ("/?q=-x", ["was fehlen soll", "être absent"]),
        ("/?q=%2F(%2F", ["reguläre Ausdruck", "expression régulière"]),
        ("/?q=session%3Anone", ["gibt es nicht", "existe pas"]),
        // The published word of a filter stays.
        ("/?q=is%3Afailed", ["/ui/sessions/s", "/ui/sessions/s"]),
    ] {
        for (visitor, text) in [&german, &french].into_iter().zip(texts) {
            let page = visitor.page(target);
            assert!(page.contains(text), "{target}: {text}: {page}");
        }
    }
    for (target, text) in [
        ("/ui/sessions/s/redact?seqs=x", "keine Nummern und Bereiche"),
        ("/ui/statistics?since=x", "kein Tag"),
        (
            "/ui/statistics?since=2027-02-02&until=2027-02-01",
            "bevor er beginnt",
        ),
        ("/ui/audit?since=x", "keine Zeit"),
        ("/ui/audit?kind=x", "keine der Möglichkeiten"),
    ] {
        let refused = german.get(target);
        assert_eq!(refused.status, 422, "{target}: {refused:?}");
        assert!(refused.text.contains(text), "{target}: {refused:?}");
    }
    let shares = "/ui/sessions/s/shares";
    let refused = german.post(shares, &[("hours", "1"), ("first", "x")]);
    assert!(
        refused.status == 422 && refused.text.contains("Erster Eintrag: “x”"),
        "{refused:?}"
    );
    let refused = german.post(shares, &[("hours", "x")]);
    assert!(
        refused.status == 422 && refused.text.contains("Ein Feld des Formulars"),
        "{refused:?}"
    );
    server.stop();
}
