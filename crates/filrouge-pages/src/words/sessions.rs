//! The texts of the list of sessions.

use filrouge_search::{InvalidQuery, QueryFault};

super::words! {
    /// The texts of the list of sessions.
    SessionsWords {
        sessions: "Sessions", "Sessions", "Sitzungen";
        search: "Search", "Rechercher", "Suchen";
        search_hint: "Words, /regex/, is:failed, agent:name, since:7d", "Mots, /regex/, is:failed, agent:nom, since:7d", "Wörter, /regex/, is:failed, agent:Name, since:7d";
        wrong_search: "The search cannot be read.", "Impossible de comprendre la recherche.", "Die Suche ist unverständlich.";
        not_excludable: "a minus is not possible here.", "un signe moins n’est pas possible ici.", "ein Minus ist hier nicht möglich.";
        character: "Character", "Caractère", "Zeichen";
        query_empty: "there is nothing to search for. Enter words, a \"phrase\", /regex/ or a filter.", "il n’y a rien à chercher. Saisissez des mots, une \"phrase\", une /regex/ ou un filtre.", "es gibt nichts zu suchen. Geben Sie Wörter, eine \"Wortfolge\", /regex/ oder einen Filter ein.";
        query_only_absent: "the search only says what must be absent. Add what to search for. In quotes, \"-word\" is searched for.", "la recherche dit seulement ce qui doit être absent. Ajoutez ce qu’il faut chercher. Entre guillemets, \"-mot\" est cherché tel quel.", "die Suche sagt nur, was fehlen soll. Geben Sie auch an, was gesucht wird. In Anführungszeichen wird \"-Wort\" gesucht.";
        query_too_long: "the search has too many characters, words or filters.", "la recherche a trop de caractères, de mots ou de filtres.", "die Suche hat zu viele Zeichen, Wörter oder Filter.";
        query_open_phrase: "the quotation mark has no second one. Add \" at the end of the phrase; a quotation mark itself is found by /\"/.", "le guillemet n’est pas fermé. Ajoutez \" à la fin de la phrase ; un guillemet lui-même se trouve avec /\"/.", "das Anführungszeichen wird nicht geschlossen. Setzen Sie \" an das Ende der Wortfolge; ein Anführungszeichen selbst findet /\"/.";
        query_blank_term: "there are only spaces or accents, which a search ignores. Add letters.", "il n’y a que des espaces ou des accents, que la recherche ignore. Ajoutez des lettres.", "hier sind nur Leerzeichen oder Akzente, die eine Suche nicht beachtet. Fügen Sie Buchstaben hinzu.";
        query_repeated_filter: "this filter may occur only once; with a minus, any number of times.", "ce filtre ne peut figurer qu’une fois ; avec un moins, autant que nécessaire.", "dieser Filter darf nur einmal vorkommen; mit einem Minus beliebig oft.";
        query_filter_value: "the filter needs a value that is known, such as role:user, source:ledger, since:7d or on:2027-01-31. In quotes, the text itself is searched for.", "le filtre demande une valeur connue, comme role:user, source:ledger, since:7d ou on:2027-01-31. Entre guillemets, le texte lui-même est cherché.", "der Filter braucht einen bekannten Wert wie role:user, source:ledger, since:7d oder on:2027-01-31. In Anführungszeichen wird der Text selbst gesucht.";
        query_regex: "the regular expression is wrong, or too large:", "l’expression régulière est erronée, ou trop grande :", "der reguläre Ausdruck ist falsch oder zu groß:";
        unknown_session: "There is no such session.", "Cette session n’existe pas.", "Diese Sitzung gibt es nicht.";
        no_id: "is not an id.", "n’est pas un identifiant.", "ist keine Kennung.";
        unknown_state: "is not known. Known: failed, active, paused, closed.", "est inconnu. Valeurs connues : failed, active, paused, closed.", "ist unbekannt. Bekannt sind: failed, active, paused, closed.";
        histories: "Histories", "Historiques", "Verläufe";
        all: "All", "Tout", "Alle";
        ledger: "Ledger", "Registre", "Register";
        order: "Order", "Tri", "Reihenfolge";
        best_match: "Best match", "Pertinence", "Relevanz";
        title: "Title", "Titre", "Titel";
        untitled: "Untitled", "Sans titre", "Ohne Titel";
        agents: "Agents", "Agents", "Agenten";
        owner: "Owner", "Propriétaire", "Besitzer";
        project: "Project", "Projet", "Projekt";
        turns: "Turns", "Tours", "Runden";
        tokens: "Tokens", "Jetons", "Tokens";
        cost: "Cost", "Coût", "Kosten";
        status: "Status", "Statut", "Status";
        created: "Created", "Création", "Erstellt";
        last_activity: "Last activity", "Dernière activité", "Letzte Aktivität";
        failed: "failed", "en échec", "fehlgeschlagen";
        interrupted: "interrupted", "interrompu", "unterbrochen";
        damaged: "damaged", "endommagée", "beschädigt";
        damaged_hint: "These sessions differ from what was written. They are left out.", "Ces sessions diffèrent de ce qui a été écrit. Elles sont omises.", "Diese Sitzungen weichen von dem ab, was geschrieben wurde. Sie fehlen in der Liste.";
        new_session: "new session: show", "nouvelle session : afficher", "neue Sitzung: anzeigen";
        new_sessions: "new sessions: show", "nouvelles sessions : afficher", "neue Sitzungen: anzeigen";
        older: "Older sessions", "Sessions plus anciennes", "Ältere Sitzungen";
        about: "about", "environ", "etwa";
        matching_session: "matching session", "session correspondante", "passende Sitzung";
        matching_sessions: "matching sessions", "sessions correspondantes", "passende Sitzungen";
        no_sessions: "No sessions yet", "Aucune session pour l’instant", "Noch keine Sitzungen";
        no_sessions_hint: "Record a turn over the API, or import a history: filrouge import", "Enregistrez un tour par l’API, ou importez un historique : filrouge import", "Zeichnen Sie eine Runde über die API auf oder importieren Sie einen Verlauf: filrouge import";
        nothing_found: "Nothing found", "Aucun résultat", "Nichts gefunden";
        nothing_found_hint: "Use fewer words or filters, or another history.", "Utilisez moins de mots ou de filtres, ou un autre historique.", "Verwenden Sie weniger Wörter oder Filter oder einen anderen Verlauf.";
        keys: "Keys", "Raccourcis clavier", "Tastenkürzel";
        key_search: "Search", "Rechercher", "Suchen";
        key_next: "Next session", "Session suivante", "Nächste Sitzung";
        key_previous: "Previous session", "Session précédente", "Vorherige Sitzung";
        key_open: "Open the session", "Ouvrir la session", "Sitzung öffnen";
        close: "Close", "Fermer", "Schließen";
    }
}

impl SessionsWords {
    /// Why a search is invalid.
    pub(crate) fn invalid_query(&self, error: &InvalidQuery) -> String {
        let why = match error.fault {
            QueryFault::Empty => self.query_empty,
            QueryFault::OnlyAbsent => self.query_only_absent,
            QueryFault::TooLong => self.query_too_long,
            QueryFault::OpenPhrase => self.query_open_phrase,
            QueryFault::BlankTerm => self.query_blank_term,
            QueryFault::RepeatedFilter => self.query_repeated_filter,
            QueryFault::FilterValue => self.query_filter_value,
            // The parser of expressions has only English messages.
            QueryFault::Regex => return format!("{} {}", self.query_regex, error.text),
        };
        format!("{} {}: {why}", self.character, error.at)
    }
}
