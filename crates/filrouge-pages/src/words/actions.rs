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
        close: "Close", "Clôturer", "Abschließen";
        close_hint: "No new turn can start. Open turns may still end. The session can be reopened.", "Aucun nouveau tour ne peut commencer. Les tours ouverts peuvent encore se terminer. La session peut être rouverte.", "Es kann keine neue Runde beginnen. Offene Runden können noch enden. Die Sitzung kann wieder geöffnet werden.";
        close_reason: "Reason (optional; it stays in the ledger)", "Motif (facultatif ; il reste dans le registre)", "Grund (optional; er bleibt im Register)";
        reopen: "Reopen", "Rouvrir", "Wieder öffnen";
        reopen_hint: "New turns can start again.", "De nouveaux tours peuvent commencer.", "Neue Runden können wieder beginnen.";
        redact: "Redact", "Caviarder", "Schwärzen";
        redact_choose: "Choose a turn, or enter items.", "Choisissez un tour, ou indiquez des éléments.", "Wählen Sie eine Runde oder geben Sie Einträge an.";
        redact_items: "Items", "Éléments", "Einträge";
        redact_items_hint: "Numbers and ranges, such as 4 7-9", "Des numéros et des plages, par exemple 4 7-9", "Nummern und Bereiche, zum Beispiel 4 7-9";
        turns: "Turns", "Tours", "Runden";
        turns_newest: "The newest turns are shown. Enter the items of an older one.", "Seuls les tours les plus récents sont affichés. Indiquez les éléments d’un tour plus ancien.", "Es werden nur die neuesten Runden gezeigt. Geben Sie bei einer älteren deren Einträge an.";
        preview: "Preview", "Aperçu", "Vorschau";
        removed: "What is removed", "Ce qui est effacé", "Was gelöscht wird";
        removed_hint: "The contents of these items are erased permanently.", "Le contenu de ces éléments est effacé définitivement.", "Der Inhalt dieser Einträge wird endgültig gelöscht.";
        already: "already redacted", "déjà caviardé", "bereits geschwärzt";
        more: "more items", "autres éléments", "weitere Einträge";
        stays: "What stays", "Ce qui reste", "Was bleibt";
        stays_record: "That the items existed: their place, time, kind, author, model and token counts.", "L’existence des éléments : place, heure, type, auteur, modèle et nombre de jetons.", "Dass es die Einträge gab: Stelle, Zeit, Art, Autor, Modell und Zahl der Tokens.";
        stays_reason: "This redaction: who, when, and the reason.", "Ce caviardage : qui, quand et pour quel motif.", "Diese Schwärzung: wer, wann und warum.";
        stays_words: "Some of the words, in these fields:", "Certains mots, dans ces champs :", "Einige der Wörter, in diesen Feldern:";
        with_title: "Remove the title too", "Supprimer aussi le titre", "Auch den Titel entfernen";
        reason: "Reason (it stays in the ledger)", "Motif (il reste dans le registre)", "Grund (er bleibt im Register)";
        redact_now: "Redact permanently", "Caviarder définitivement", "Endgültig schwärzen";
        changed: "The items have changed since the preview. Nothing was redacted: check the items again.", "Les éléments ont changé depuis l’aperçu. Rien n’a été caviardé : vérifiez à nouveau.", "Die Einträge haben sich seit der Vorschau verändert. Es wurde nichts geschwärzt: Sehen Sie noch einmal nach.";
        redacted: "Redacted", "Caviardé", "Geschwärzt";
        recorded_at: "The redaction is recorded as item", "Le caviardage est enregistré comme élément", "Die Schwärzung ist aufgezeichnet als Eintrag";
        erase: "Erase", "Effacer", "Löschen";
        erase_hint: "The session is deleted permanently, with all its turns and items. Only its id stays, so that it is not used again.", "La session est effacée définitivement, avec tous ses tours et ses éléments. Seul son identifiant reste, pour ne pas être réutilisé.", "Die Sitzung wird endgültig gelöscht, mit allen Runden und Einträgen. Nur ihre Kennung bleibt, damit sie nicht wiederverwendet wird.";
        erase_now: "Erase permanently", "Effacer définitivement", "Endgültig löschen";
        items: "Items", "Éléments", "Einträge";
        receipt: "Receipt", "Reçu", "Beleg";
        erased_session: "Erased session", "Session effacée", "Gelöschte Sitzung";
        when: "When (UTC)", "Quand (UTC)", "Wann (UTC)";
        store: "Store", "Stockage", "Speicher";
        result: "Result", "Résultat", "Ergebnis";
        remains: "Where bytes may remain", "Où des octets peuvent subsister", "Wo Bytes verbleiben können";
        nowhere: "nowhere", "nulle part", "nirgends";
        erased: "erased", "effacé", "gelöscht";
        pending: "pending: it is cleaned as soon as it can be", "en attente : le nettoyage aura lieu dès que possible", "ausstehend: wird so bald wie möglich bereinigt";
        unreachable: "did not answer: the removal is retried", "n’a pas répondu : la suppression sera réessayée", "hat nicht geantwortet: Das Löschen wird wiederholt";
        projection: "projection", "projection", "Projektion";
    }
}
