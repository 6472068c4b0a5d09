//! The words around the contents of a page, in the languages of pages. Documents are in English.

/// The language of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Language {
    /// The language of documents.
    #[default]
    English,
    /// French.
    French,
    /// German.
    German,
}

/// The words in English, French and German.
static WORDS: [(&str, &str, &str); 59] = [
    ("User", "Utilisateur", "Benutzer"),
    ("Assistant", "Assistant", "Assistent"),
    ("Tool", "Outil", "Werkzeug"),
    ("System", "Système", "System"),
    ("Question", "Question", "Frage"),
    ("Answer", "Réponse", "Antwort"),
    (
        "Partial answer",
        "Réponse partielle",
        "Unvollständige Antwort",
    ),
    ("Plan", "Plan", "Plan"),
    ("Thought", "Réflexion", "Gedanke"),
    ("Observation", "Observation", "Beobachtung"),
    ("Tool call", "Appel d’outil", "Werkzeugaufruf"),
    ("Tool result", "Résultat d’outil", "Werkzeugergebnis"),
    ("Error", "Erreur", "Fehler"),
    ("Note", "Note", "Notiz"),
    (
        "Question to a human",
        "Question à une personne",
        "Frage an einen Menschen",
    ),
    (
        "Answer of a human",
        "Réponse d’une personne",
        "Antwort eines Menschen",
    ),
    ("Summary", "Résumé", "Zusammenfassung"),
    ("Interrupted", "Interrompu", "Unterbrochen"),
    ("Cancelled", "Annulé", "Abgebrochen"),
    ("Link", "Lien", "Link"),
    ("Redaction", "Caviardage", "Schwärzung"),
    ("Item", "Élément", "Eintrag"),
    ("item", "élément", "Eintrag"),
    ("Link to item", "Lien vers l’élément", "Link zum Eintrag"),
    ("neutral", "neutre", "neutral"),
    ("translated", "traduit", "übersetzt"),
    (
        "translated, a copy of the neutral answer",
        "traduit, copie de la réponse neutre",
        "übersetzt, eine Kopie der neutralen Antwort",
    ),
    ("Redacted", "Caviardé", "Geschwärzt"),
    ("on", "le", "am"),
    ("Further fields", "Autres champs", "Weitere Felder"),
    ("Refused", "Refusé", "Abgelehnt"),
    (
        "The turn is now",
        "Le tour est maintenant",
        "Die Runde ist jetzt",
    ),
    (
        "Image of this item",
        "Image de cet élément",
        "Bild dieses Eintrags",
    ),
    ("Image", "Image", "Bild"),
    ("File", "Fichier", "Datei"),
    ("open", "en cours", "offen"),
    ("interrupted", "interrompu", "unterbrochen"),
    ("finalized", "terminé", "abgeschlossen"),
    ("failed", "échec", "fehlgeschlagen"),
    ("cancelled", "annulé", "abgebrochen"),
    ("agent", "agent", "Agent"),
    ("call", "appel", "Aufruf"),
    ("source", "source", "Quelle"),
    (
        "may be retried",
        "peut être réessayé",
        "kann wiederholt werden",
    ),
    ("not to be retried", "ne pas réessayer", "nicht wiederholen"),
    ("model", "modèle", "Modell"),
    ("no result", "aucun résultat", "kein Ergebnis"),
    ("Arguments", "Arguments", "Argumente"),
    ("Result", "Résultat", "Ergebnis"),
    ("Turn", "Tour", "Runde"),
    ("replaced", "remplacé", "ersetzt"),
    ("replacement", "remplacement", "Ersatz"),
    ("redacted", "caviardé", "geschwärzt"),
    ("Its replacement", "Son remplacement", "Ihr Ersatz"),
    ("redacted on", "caviardé le", "geschwärzt am"),
    ("asked by", "demandé par", "gefragt von"),
    ("continued", "suite", "Fortsetzung"),
    (
        "Changes in its replacement",
        "Différences avec son remplacement",
        "Unterschiede zu ihrem Ersatz",
    ),
    (
        "The complete item",
        "L’élément complet",
        "Der vollständige Eintrag",
    ),
];

/// A word in a language; unchanged if it is none of the document's words, such as a channel of an application.
pub(crate) fn translated(english: &str, language: Language) -> &str {
    let row = WORDS.iter().find(|(word, ..)| *word == english);
    match (row, language) {
        (Some((_, french, _)), Language::French) => french,
        (Some((.., german)), Language::German) => german,
        _ => english,
    }
}

#[cfg(test)]
mod tests {
    use filrouge_types::{Channel, Role, TurnStatus};

    use super::*;
    use crate::words;

    #[test]
    fn all_statuses_channels_and_roles_are_translated() {
        let statuses = TurnStatus::ALL.map(TurnStatus::as_str);
        let roles = Role::ALL.map(words::role);
        let channels: Vec<Channel> = (0..=u8::MAX).map_while(Channel::from_code).collect();
        assert!(channels.len() > 16, "{channels:?}");
        let channels = channels.iter().map(words::channel);
        for word in channels.chain(statuses).chain(roles) {
            assert!(WORDS.iter().any(|(known, ..)| *known == word), "{word}");
        }
    }

    #[test]
    fn all_words_of_the_page_are_translated() {
        let sources = [
            include_str!("html/item.rs"),
            include_str!("html/part.rs"),
            include_str!("html/page.rs"),
            include_str!("html/forms.rs"),
            include_str!("html/frame.rs"),
        ];
        let said = sources.iter().flat_map(|text| text.split("say(\"").skip(1));
        let said = said.filter_map(|rest| rest.split('"').next());
        let mut count = 0;
        for word in said {
            count += 1;
            assert!(WORDS.iter().any(|(known, ..)| *known == word), "{word}");
        }
        assert!(count > 20, "{count}");
    }

    #[test]
    fn other_words_stay() {
        assert_eq!(translated("Result", Language::German), "Ergebnis");
        assert_eq!(translated("Result", Language::English), "Result");
        assert_eq!(translated("my_channel", Language::French), "my_channel");
    }
}
