//! The texts of the list of sessions.

super::words! {
    /// The texts of the list of sessions.
    SessionsWords {
        sessions: "Sessions", "Sessions", "Sitzungen";
        search: "Search", "Rechercher", "Suchen";
        search_hint: "Words, /regex/, is:failed, agent:name, since:7d", "Mots, /regex/, is:failed, agent:nom, since:7d", "Wörter, /regex/, is:failed, agent:name, since:7d";
        title: "Title", "Titre", "Titel";
        untitled: "Untitled", "Sans titre", "Ohne Titel";
        agents: "Agents", "Agents", "Agenten";
        owner: "Owner", "Propriétaire", "Besitzer";
        project: "Project", "Projet", "Projekt";
        turns: "Turns", "Tours", "Runden";
        status: "Status", "État", "Zustand";
        last_activity: "Last activity", "Dernière activité", "Letzte Aktivität";
        older: "Older sessions", "Sessions plus anciennes", "Ältere Sitzungen";
        no_sessions: "No sessions", "Aucune session", "Keine Sitzungen";
        no_sessions_hint: "Record a turn, or change the search.", "Enregistrez un tour, ou modifiez la recherche.", "Zeichnen Sie eine Runde auf, oder ändern Sie die Suche.";
    }
}
