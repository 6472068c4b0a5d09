//! The texts of the list of sessions.

super::words! {
    /// The texts of the list of sessions.
    SessionsWords {
        sessions: "Sessions", "Sessions", "Sitzungen";
        search: "Search", "Rechercher", "Suchen";
        search_hint: "Words, /regex/, is:failed, agent:name, since:7d", "Mots, /regex/, is:failed, agent:nom, since:7d", "Wörter, /regex/, is:failed, agent:Name, since:7d";
        wrong_search: "The search cannot be read.", "Impossible de comprendre la recherche.", "Die Suche ist unverständlich.";
        not_excludable: "a minus is not possible here.", "un signe moins n’est pas possible ici.", "ein Minus ist hier nicht möglich.";
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
