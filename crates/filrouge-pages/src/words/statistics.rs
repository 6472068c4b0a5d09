//! The texts of statistics.

super::words! {
    /// The texts of statistics.
    StatisticsWords {
        statistics: "Statistics", "Statistiques", "Statistik";
        untitled: "Untitled", "Sans titre", "Ohne Titel";
        since: "From", "Du", "Von";
        until: "To", "Au", "Bis";
        agent: "Agent", "Agent", "Agent";
        project: "Project", "Projet", "Projekt";
        show: "Show", "Afficher", "Anzeigen";
        sessions: "Sessions", "Sessions", "Sitzungen";
        turns: "Turns", "Tours", "Runden";
        failed: "Failed turns", "Tours en échec", "Fehlgeschlagene Runden";
        messages: "Messages", "Messages", "Nachrichten";
        tool_calls: "Tool calls", "Appels d’outils", "Werkzeugaufrufe";
        tool_errors: "Tool errors", "Erreurs d’outils", "Werkzeugfehler";
        tokens: "Tokens", "Jetons", "Tokens";
        input: "Input tokens", "Jetons d’entrée", "Eingabe-Tokens";
        output: "Output tokens", "Jetons de sortie", "Ausgabe-Tokens";
        reasoning: "Reasoning tokens", "Jetons de raisonnement", "Tokens für Überlegungen";
        cache_read: "Tokens read from a cache", "Jetons lus dans un cache", "Aus einem Cache gelesene Tokens";
        cache_write: "Tokens written to a cache", "Jetons écrits dans un cache", "In einen Cache geschriebene Tokens";
        cost: "Cost", "Coût", "Kosten";
        by_day: "By day", "Par jour", "Pro Tag";
        by_agent: "By agent", "Par agent", "Pro Agent";
        by_model: "By model", "Par modèle", "Pro Modell";
        day: "Day (UTC)", "Jour (UTC)", "Tag (UTC)";
        model: "Model", "Modèle", "Modell";
        unnamed: "without a name", "sans nom", "ohne Namen";
        table: "Values", "Valeurs", "Werte";
        own: "This session", "Cette session", "Diese Sitzung";
        with_descendants: "With the sessions that it started", "Avec les sessions qu’elle a lancées", "Mit den Sitzungen, die sie gestartet hat";
        without_copied: "Without copied messages", "Sans les messages copiés", "Ohne kopierte Nachrichten";
        truncated: "Some of the sessions that it started are left out, because there are too many.", "Certaines des sessions qu’elle a lancées sont omises, car il y en a trop.", "Einige der Sitzungen, die sie gestartet hat, fehlen, weil es zu viele sind.";
        unpriced: "No price is known for:", "Aucun prix n’est connu pour :", "Kein Preis bekannt für:";
        usage_unknown: "Items whose usage has an unknown form, so that their tokens are not counted:", "Éléments dont la consommation a une forme inconnue, et dont les jetons ne sont pas comptés :", "Einträge, deren Verbrauch eine unbekannte Form hat und deren Tokens nicht gezählt werden:";
        unread: "Sessions that are not counted yet:", "Sessions qui ne sont pas encore comptées :", "Noch nicht gezählte Sitzungen:";
        reload: "Load the page again to count more of them.", "Rechargez la page pour en compter davantage.", "Laden Sie die Seite neu, um weitere zu zählen.";
        has_more: "Only the 5,000 sessions with the latest activity are counted. Choose a shorter period.", "Seules les 5 000 sessions les plus récemment actives sont comptées. Choisissez une période plus courte.", "Nur die 5.000 zuletzt aktiven Sitzungen werden gezählt. Wählen Sie einen kürzeren Zeitraum.";
        damaged: "Damaged sessions, which are left out:", "Sessions endommagées, qui sont omises :", "Beschädigte Sitzungen, die fehlen:";
        nothing: "Nothing to count", "Rien à compter", "Nichts zu zählen";
        nothing_hint: "Record a turn with its usage, or choose another period, agent or project.", "Enregistrez un tour avec sa consommation, ou choisissez une autre période, un autre agent ou un autre projet.", "Zeichnen Sie eine Runde mit ihrem Verbrauch auf oder wählen Sie einen anderen Zeitraum, Agenten oder ein anderes Projekt.";
    }
}
