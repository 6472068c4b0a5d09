//! The texts of operations.

super::words! {
    /// The texts of operations.
    OperationsWords {
        operations: "Operations", "Exploitation", "Betrieb";
        connection_lost: "The server does not answer. The values below are old; they continue when it answers.", "Le serveur ne répond pas. Les valeurs ci-dessous sont anciennes ; elles seront mises à jour dès qu’il répondra.", "Der Server antwortet nicht. Die Werte unten sind alt; sie werden aktualisiert, sobald er antwortet.";
        server: "Server", "Serveur", "Server";
        ready: "Everything works.", "Tout fonctionne.", "Alles funktioniert.";
        store: "Store", "Stockage", "Speicher";
        commits: "Commits", "Validations", "Commits";
        durability: "Durability", "Durabilité", "Dauerhaftigkeit";
        queued_writes: "Queued writes", "Écritures en file", "Schreibvorgänge in der Warteschlange";
        statements: "Statements since the start", "Requêtes depuis le démarrage", "Datenbankabfragen seit dem Start";
        spool: "Spool", "File d’attente locale (spool)", "Lokale Warteschlange (Spool)";
        waiting: "Waiting writes", "Écritures en attente", "Wartende Schreibvorgänge";
        sessions: "Sessions", "Sessions", "Sitzungen";
        bytes: "Bytes", "Octets", "Bytes";
        oldest: "Oldest write", "Écriture la plus ancienne", "Ältester Schreibvorgang";
        dead_letters: "Dead letters", "Refus définitifs", "Endgültig abgelehnt";
        hot: "Hot store", "Stockage rapide", "Schneller Speicher";
        state: "State", "État", "Zustand";
        works: "works", "fonctionne", "funktioniert";
        none: "none", "aucun", "nicht vorhanden";
        removals: "Waiting removals", "Suppressions en attente", "Wartende Löschungen";
        index: "Search index", "Index de recherche", "Suchindex";
        lag: "Commits behind", "Retard (validations)", "Rückstand (Commits)";
        unreadable: "Unreadable sessions", "Sessions illisibles", "Unlesbare Sitzungen";
        failures: "Failures", "Échecs", "Fehlschläge";
        live_calls: "Live calls", "Appels en cours", "Laufende Anrufe";
        no_calls: "No session has a holder now. A call appears here when it takes a lease.", "Aucune session n’a de détenteur en ce moment. Un appel apparaît ici dès qu’il prend un bail.", "Keine Sitzung hat gerade einen Inhaber. Ein Anruf erscheint hier, sobald er eine Lease nimmt.";
        calls_truncated: "Only the 2,000 active sessions with the latest activity were examined. Close sessions that have ended.", "Seules les 2 000 sessions actives les plus récentes ont été examinées. Clôturez les sessions terminées.", "Nur die 2.000 zuletzt aktiven Sitzungen wurden geprüft. Schließen Sie beendete Sitzungen ab.";
        session: "Session", "Session", "Sitzung";
        holder: "Holder", "Détenteur", "Inhaber";
        fence: "Fence", "Numéro du bail", "Nummer der Lease";
        held_for: "Held for", "Détenue depuis", "Gehalten seit";
        age: "Age", "Âge", "Alter";
        last_activity: "Last activity", "Dernière activité", "Letzte Aktivität";
        key_figures: "Key figures of live calls", "Chiffres clés des appels", "Kennzahlen der Anrufe";
        no_events: "No events in two weeks. Key figures count the events of live calls.", "Aucun événement depuis deux semaines. Les chiffres clés comptent les événements des appels.", "Keine Ereignisse in den letzten zwei Wochen. Kennzahlen zählen die Ereignisse von Anrufen.";
        figure: "Figure", "Chiffre", "Kennzahl";
        this_week: "Last 7 days", "7 derniers jours", "Letzte 7 Tage";
        week_before: "7 days before", "7 jours précédents", "7 Tage davor";
        by_day: "Count by day", "Nombre par jour", "Anzahl pro Tag";
        threshold: "Threshold", "Seuil", "Schwelle";
        exceeded: "exceeded", "dépassé", "überschritten";
        spike: "Many lock timeouts in the last hour", "De nombreuses attentes de bail ont échoué dans la dernière heure", "Viele vergebliche Wartezeiten auf eine Lease in der letzten Stunde";
        calls: "Calls", "Appels", "Anrufe";
        lock_timeouts: "Lock timeouts per call", "Attentes de bail échouées par appel", "Vergebliche Wartezeiten auf eine Lease pro Anruf";
        resumes: "Resumes from the ledger per call", "Reprises depuis le registre par appel", "Fortsetzungen aus dem Register pro Anruf";
        reconstructed: "Reconstructed calls", "Appels reconstruits", "Rekonstruierte Anrufe";
        unknown_state: "Calls with an unknown state", "Appels à l’état inconnu", "Anrufe mit unbekanntem Zustand";
        transferred: "Transferred calls", "Appels transférés", "Weitergeleitete Anrufe";
        more: "more than before", "plus qu’avant", "mehr als davor";
        less: "less than before", "moins qu’avant", "weniger als davor";
        equal: "as before", "comme avant", "wie davor";
        webhooks: "Webhooks", "Webhooks", "Webhooks";
        no_webhooks: "No webhook is configured for this tenant. The section [[webhooks]] of the configuration adds one.", "Aucun webhook n’est configuré pour ce locataire. La section [[webhooks]] de la configuration en ajoute un.", "Für diesen Mandanten ist kein Webhook eingerichtet. Der Abschnitt [[webhooks]] der Konfiguration fügt einen hinzu.";
        projections: "Projections", "Projections", "Projektionen";
        no_projections: "No projection has sessions of this tenant. The section [[projections]] of the configuration adds one.", "Aucune projection ne contient de sessions de ce locataire. La section [[projections]] de la configuration en ajoute une.", "Keine Projektion hat Sitzungen dieses Mandanten. Der Abschnitt [[projections]] der Konfiguration fügt eine hinzu.";
        name: "Name", "Nom", "Name";
        error_hidden: "The operator sees why.", "L’opérateur en voit la raison.", "Der Betreiber sieht den Grund.";
        last_error: "Last error", "Dernière erreur", "Letzter Fehler";
        next_attempt: "Next attempt", "Prochaine tentative", "Nächster Versuch";
        disabled: "disabled", "désactivé", "deaktiviert";
        being_filled: "being filled", "en cours de remplissage", "wird gerade gefüllt";
        uncleaned: "To be cleaned", "À nettoyer", "Zu bereinigen";
    }
}
