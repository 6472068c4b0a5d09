//! The texts of the audit's pages.

super::words! {
    /// The texts of the audit's pages.
    AuditWords {
        audit: "Audit", "Audit", "Audit";
        hint: "Everything that the ledger records, in order. Reads and exports are in the server’s log.", "Tout ce que le registre contient, dans l’ordre. Les lectures et les exports sont dans le journal du serveur.", "Alles, was im Register steht, der Reihe nach. Lesezugriffe und Exporte stehen im Protokoll des Servers.";
        of_session: "Audit of the session", "Audit de la session", "Audit der Sitzung";
        filter: "Filter", "Filtrer", "Filtern";
        apply: "Apply", "Appliquer", "Anwenden";
        everything: "Everything", "Tout", "Alles";
        kind: "What", "Type", "Art";
        said: "Said", "Dit", "Gesagt";
        tool: "Tool", "Outil", "Werkzeug";
        failure: "Failure", "Échec", "Fehlschlag";
        link: "Link", "Rattachement", "Verknüpfung";
        redaction: "Redaction", "Caviardage", "Schwärzung";
        erasure: "Erasure", "Effacement", "Löschung";
        identity: "End user", "Utilisateur", "Benutzer";
        tool_name: "Tool name", "Nom de l’outil", "Name des Werkzeugs";
        agent: "Agent", "Agent", "Agent";
        since: "Since", "Depuis", "Seit";
        until: "Until", "Jusqu’à", "Bis";
        time_hint: "7d, 2027-01-31 or 2027-01-31T09:00:00Z (UTC)", "7d, 2027-01-31 ou 2027-01-31T09:00:00Z (UTC)", "7d, 2027-01-31 oder 2027-01-31T09:00:00Z (UTC)";
        views: "View", "Affichage", "Ansicht";
        timeline: "Timeline", "Chronologie", "Zeitleiste";
        table: "Table", "Tableau", "Tabelle";
        csv: "Download as CSV", "Télécharger en CSV", "Als CSV herunterladen";
        when: "When (UTC)", "Quand (UTC)", "Wann (UTC)";
        who: "Who", "Qui", "Wer";
        what: "Content", "Contenu", "Inhalt";
        place: "Place", "Position", "Stelle";
        anonymous: "anonymous", "anonyme", "anonym";
        assistant: "Agent", "Agent", "Agent";
        application: "Application", "Application", "Anwendung";
        redacted: "content redacted", "contenu caviardé", "Inhalt geschwärzt";
        failed: "failed", "en échec", "fehlgeschlagen";
        refused: "refused", "refusé", "abgelehnt";
        items: "Items", "Éléments", "Einträge";
        turns: "Turns", "Tours", "Runden";
        damaged: "Damaged sessions", "Sessions endommagées", "Beschädigte Sitzungen";
        damaged_hint: "Their stored data was changed from outside. Their damaged items are missing here.", "Leurs données enregistrées ont été modifiées de l’extérieur. Les éléments endommagés manquent ici.", "Ihre gespeicherten Daten wurden von außen verändert. Die beschädigten Einträge fehlen hier.";
        empty: "Nothing found", "Aucun résultat", "Nichts gefunden";
        empty_hint: "Change the filter, or look at everything.", "Modifiez le filtre, ou affichez tout.", "Ändern Sie den Filter oder zeigen Sie alles an.";
        searching_hint: "Nothing in this part. Continue with the next one.", "Rien dans cette partie. Passez à la suivante.", "In diesem Teil ist nichts. Gehen Sie zum nächsten weiter.";
        first: "From the beginning", "Depuis le début", "Von Anfang an";
        next: "Later", "Plus tard", "Später";
    }
}
