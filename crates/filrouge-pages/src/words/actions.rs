//! The texts of the pages that change a session.

super::words! {
    /// The texts of the pages that change a session.
    ActionWords {
        actions: "Actions", "Actions", "Aktionen";
        untitled: "Untitled", "Sans titre", "Ohne Titel";
        cancel: "Cancel", "Annuler", "Abbrechen";
        to_session: "To the session", "Vers la session", "Zur Sitzung";
        to_sessions: "To the sessions", "Vers les sessions", "Zu den Sitzungen";
        audit: "Audit", "Audit", "Audit";
        rename: "Rename", "Renommer", "Umbenennen";
        title: "Title", "Titre", "Titel";
        title_hint: "An empty title is removed.", "Un titre vide est supprimé.", "Ein leerer Titel wird entfernt.";
        close: "Close", "Clore", "Abschließen";
        close_hint: "No new turn can start. Open turns may still end. The session can be reopened.", "Aucun nouveau tour ne peut commencer. Les tours ouverts peuvent encore se terminer. La session peut être rouverte.", "Keine neue Runde kann beginnen. Offene Runden dürfen noch enden. Die Sitzung kann wieder geöffnet werden.";
        close_reason: "Reason (optional; it stays in the ledger)", "Motif (facultatif ; il reste dans le registre)", "Grund (optional; er bleibt im Hauptbuch)";
        reopen: "Reopen", "Rouvrir", "Wieder öffnen";
        reopen_hint: "New turns can start again.", "De nouveaux tours peuvent recommencer.", "Neue Runden können wieder beginnen.";
        redact: "Redact", "Caviarder", "Schwärzen";
        redact_choose: "Choose a turn, or enter items.", "Choisissez un tour, ou indiquez des entrées.", "Wählen Sie eine Runde, oder geben Sie Einträge an.";
        redact_items: "Items", "Entrées", "Einträge";
        redact_items_hint: "Numbers and ranges, such as 4 7-9", "Des numéros et des plages, comme 4 7-9", "Nummern und Bereiche, wie 4 7-9";
        turns: "Turns", "Tours", "Runden";
        turns_newest: "The newest turns are shown. Enter the items of an older one.", "Seuls les tours les plus récents sont affichés. Indiquez les entrées d’un tour plus ancien.", "Gezeigt werden die neuesten Runden. Geben Sie bei einer älteren die Einträge an.";
        preview: "Preview", "Aperçu", "Vorschau";
        goes: "What goes", "Ce qui disparaît", "Was verschwindet";
        goes_hint: "The contents of these items are erased for good.", "Le contenu de ces entrées est effacé définitivement.", "Der Inhalt dieser Einträge wird endgültig gelöscht.";
        already: "already redacted", "déjà caviardé", "bereits geschwärzt";
        more: "more items", "autres entrées", "weitere Einträge";
        stays: "What stays", "Ce qui reste", "Was bleibt";
        stays_record: "That the items existed: their place, time, kind, author, model and token counts.", "L’existence des entrées : leur place, leur heure, leur type, leur auteur, leur modèle et leurs jetons.", "Dass es die Einträge gab: Stelle, Zeit, Art, Autor, Modell und Token.";
        stays_reason: "This redaction: who, when, and the reason.", "Ce caviardage : qui, quand, et le motif.", "Diese Schwärzung: wer, wann, und der Grund.";
        stays_words: "Some of the words, in these fields:", "Certains des mots, dans ces champs :", "Einige der Wörter, in diesen Feldern:";
        with_title: "Remove the title too", "Supprimer aussi le titre", "Auch den Titel entfernen";
        reason: "Reason (it stays in the ledger)", "Motif (il reste dans le registre)", "Grund (er bleibt im Hauptbuch)";
        redact_now: "Redact for good", "Caviarder définitivement", "Endgültig schwärzen";
        changed: "The items have changed since the preview. Nothing was redacted: look again.", "Les entrées ont changé depuis l’aperçu. Rien n’a été caviardé : regardez à nouveau.", "Die Einträge haben sich seit der Vorschau verändert. Nichts wurde geschwärzt: Sehen Sie noch einmal nach.";
        redacted: "Redacted", "Caviardé", "Geschwärzt";
        recorded_at: "The redaction is recorded as item", "Le caviardage est enregistré comme entrée", "Die Schwärzung steht als Eintrag";
        erase: "Erase", "Effacer", "Löschen";
        erase_hint: "The session is deleted for good, with all its turns and items. Only its id stays, so that it is not used again.", "La session est supprimée définitivement, avec tous ses tours et entrées. Seul son identifiant reste, pour ne pas être réutilisé.", "Die Sitzung wird endgültig gelöscht, mit allen Runden und Einträgen. Nur ihre Kennung bleibt, damit sie nicht wieder verwendet wird.";
        erase_now: "Erase for good", "Effacer définitivement", "Endgültig löschen";
        items: "Items", "Entrées", "Einträge";
        receipt: "Receipt", "Reçu", "Beleg";
        erased_session: "Erased session", "Session effacée", "Gelöschte Sitzung";
        when: "When (UTC)", "Quand (UTC)", "Wann (UTC)";
        store: "Store", "Stockage", "Speicher";
        result: "Result", "Résultat", "Ergebnis";
        remains: "Where bytes may remain", "Où des octets peuvent rester", "Wo Bytes bleiben können";
        nowhere: "nowhere", "nulle part", "nirgends";
        erased: "erased", "effacé", "gelöscht";
        pending: "pending: it is cleaned as soon as it can be", "en attente : nettoyé dès que possible", "ausstehend: wird bereinigt, sobald es geht";
        unreachable: "did not answer: the removal is retried", "n’a pas répondu : la suppression est réessayée", "antwortet nicht: das Entfernen wird wiederholt";
        projection: "projection", "projection", "Projektion";
    }
}
