//! The texts of a conversation's page.

super::words! {
    /// The texts of a conversation's page.
    ConversationWords {
        untitled: "Untitled", "Sans titre", "Ohne Titel";
        live: "Live", "En direct", "Live";
        connecting: "Connecting", "Connexion", "Verbindung wird aufgebaut";
        connection_lost: "The connection to the server is lost. The page continues when it is back.", "La connexion au serveur est perdue. La page reprendra dès que la connexion sera rétablie.", "Die Verbindung zum Server ist unterbrochen. Die Seite wird fortgesetzt, sobald sie wieder besteht.";
        live_ended: "The page no longer follows this session. Reload it to continue.", "La page ne suit plus cette session. Rechargez-la pour reprendre.", "Die Seite folgt dieser Sitzung nicht mehr. Laden Sie sie neu, um ihr wieder zu folgen.";
        new_items: "New items at the end", "Nouveaux éléments à la fin", "Neue Einträge am Ende";
        owner: "Owner", "Propriétaire", "Besitzer";
        anonymous: "Anonymous", "Anonyme", "Anonym";
        agents: "Agents", "Agents", "Agenten";
        project: "Project", "Projet", "Projekt";
        team: "Team", "Équipe", "Team";
        status: "Status", "Statut", "Status";
        state: "State", "État", "Zustand";
        turns: "Turns", "Tours", "Runden";
        items: "Items", "Éléments", "Einträge";
        created: "Created", "Créée", "Erstellt";
        last_activity: "Last activity", "Dernière activité", "Letzte Aktivität";
        parent: "Started by", "Lancée par", "Gestartet von";
        session: "Session", "Session", "Sitzung";
        program: "Program", "Programme", "Programm";
        lease: "Lease", "Bail", "Lease";
        held_by: "held by", "détenu par", "gehalten von";
        until: "until", "jusqu’à", "bis";
        pages: "About this session", "À propos de cette session", "Zu dieser Sitzung";
        context: "What the model was sent", "Ce que le modèle a reçu", "Was das Modell erhalten hat";
        lineage: "Lineage", "Filiation", "Abstammung";
        statistics: "Statistics", "Statistiques", "Statistik";
        shares: "Share", "Partager", "Freigeben";
        export: "Export", "Exporter", "Exportieren";
        export_html: "HTML", "HTML", "HTML";
        export_markdown: "Markdown", "Markdown", "Markdown";
        export_bundle: "Signed bundle (JSON)", "Archive signée (JSON)", "Signiertes Bündel (JSON)";
        earlier: "Earlier items", "Éléments antérieurs", "Frühere Einträge";
        later: "Later items", "Éléments ultérieurs", "Spätere Einträge";
        empty: "Nothing is recorded yet", "Rien n’est encore enregistré", "Noch ist nichts aufgezeichnet";
        empty_hint: "The conversation appears here while it happens.", "La conversation apparaît ici au fil de son déroulement.", "Die Unterhaltung erscheint hier, während sie stattfindet.";
        outside_turns: "Outside the turns", "Hors des tours", "Außerhalb der Runden";
        thread: "Turns and marks", "Tours et repères", "Runden und Markierungen";
        turn: "Turn", "Tour", "Runde";
        item: "Item", "Élément", "Eintrag";
        to: "to", "à", "bis";
        open: "open", "en cours", "offen";
        failed: "failed", "en échec", "fehlgeschlagen";
        stopped: "interrupted or cancelled", "interrompu ou annulé", "unterbrochen oder abgebrochen";
        replaced: "replaced", "remplacé", "ersetzt";
        redacted: "redacted", "caviardé", "geschwärzt";
        summary: "summary", "résumé", "Zusammenfassung";
        checkpoint: "checkpoint", "point de reprise", "Kontrollpunkt";
        late: "late items", "éléments tardifs", "verspätete Einträge";
        leased: "lease", "bail", "Lease";
        sub_session: "Sub-agent", "Sous-agent", "Unteragent";
        open_session: "Open its page", "Ouvrir sa page", "Ihre Seite öffnen";
        back: "Back to the conversation", "Retour à la conversation", "Zurück zur Unterhaltung";
        format: "Format", "Format", "Format";
        tokens: "Tokens of the next request", "Jetons de la prochaine requête", "Tokens der nächsten Anfrage";
        estimate: "Estimate", "Estimation", "Schätzung";
        kept: "Items sent", "Éléments envoyés", "Gesendete Einträge";
        left_out: "Left out", "Omis", "Weggelassen";
        changed: "Changed", "Modifiés", "Geändert";
        reason: "Reason", "Motif", "Grund";
        change: "Change", "Modification", "Änderung";
        count: "Number", "Nombre", "Anzahl";
        nothing_left_out: "Nothing was left out.", "Rien n’a été omis.", "Nichts wurde weggelassen.";
        older_turns_cut: "Older turns are not in the context.", "Les tours plus anciens ne sont pas dans le contexte.", "Ältere Runden sind nicht im Kontext.";
        summary_replaces: "A summary replaces older turns", "Un résumé remplace les tours plus anciens", "Eine Zusammenfassung ersetzt ältere Runden";
        messages: "Messages", "Messages", "Nachrichten";
        no_messages: "The context has no messages.", "Le contexte ne contient aucun message.", "Der Kontext enthält keine Nachrichten.";
        earlier_messages: "Earlier messages", "Messages antérieurs", "Frühere Nachrichten";
        later_messages: "Later messages", "Messages ultérieurs", "Spätere Nachrichten";
        cut: "Shortened here; the route …/context returns all of it.", "Texte abrégé ici ; la route …/context le renvoie en entier.", "Hier gekürzt; die Route …/context gibt alles zurück.";
    }
}
