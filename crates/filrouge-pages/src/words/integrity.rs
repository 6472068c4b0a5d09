//! The texts of verifications.

super::words! {
    /// The texts of verifications.
    IntegrityWords {
        verify: "Verify", "Vérifier", "Prüfen";
        verify_hint: "Verify that nothing was changed since it was written", "Vérifier que rien n’a été modifié depuis l’écriture", "Prüfen, ob nach dem Schreiben etwas verändert wurde";
        verification: "Verification", "Vérification", "Prüfung";
        intact: "Intact", "Intact", "Unversehrt";
        broken: "Changed", "Modifié", "Verändert";
        cannot_tell: "Undecided", "Indéterminé", "Unentschieden";
        intact_hint: "Nothing was changed since it was written.", "Rien n’a été modifié depuis l’écriture.", "Seit dem Schreiben wurde nichts verändert.";
        broken_hint: "Data was changed or removed after it was written.", "Des données ont été modifiées ou supprimées après l’écriture.", "Daten wurden nach dem Schreiben verändert oder entfernt.";
        cannot_tell_hint: "It cannot be decided whether data was changed.", "Impossible de dire si des données ont été modifiées.", "Es lässt sich nicht entscheiden, ob Daten verändert wurden.";
        checked: "What was checked", "Ce qui a été vérifié", "Was geprüft wurde";
        items: "Items", "Éléments", "Einträge";
        turns: "Turns", "Tours", "Runden";
        events: "Events", "Événements", "Ereignisse";
        checkpoints: "Checkpoints", "Points de reprise", "Kontrollpunkte";
        anchor: "Anchor", "Ancre", "Anker";
        anchor_holds: "The store has every commit that its anchor records: it was not replaced by an older copy.", "Le stockage contient toutes les validations que son ancre enregistre : il n’a pas été remplacé par une copie plus ancienne.", "Der Speicher enthält alle Commits, die sein Anker verzeichnet: Er wurde nicht durch eine ältere Kopie ersetzt.";
        anchor_broken: "The store contradicts its anchor, or the anchor was changed. An operator decides with: filrouge anchor accept", "Le stockage contredit son ancre, ou l’ancre a été modifiée. Un opérateur décide avec : filrouge anchor accept", "Der Speicher widerspricht seinem Anker, oder der Anker wurde verändert. Ein Betreiber entscheidet mit: filrouge anchor accept";
        anchor_unconfirmed: "The anchor holds, but it has a problem; the operator finds it in /readyz.", "L’ancre est respectée, mais elle a un problème ; l’opérateur le trouve dans /readyz.", "Der Anker stimmt, hat aber ein Problem; der Betreiber findet es in /readyz.";
        anchor_unknown: "The anchor could not be read.", "L’ancre n’a pas pu être lue.", "Der Anker konnte nicht gelesen werden.";
        anchor_absent: "The server compares the store with no anchor, so an older copy of it would not be noticed here.", "Le serveur ne compare le stockage à aucune ancre : une copie plus ancienne passerait inaperçue ici.", "Der Server vergleicht den Speicher mit keinem Anker: Eine ältere Kopie würde hier nicht auffallen.";
        findings: "Findings", "Constats", "Befunde";
        integrity_error: "Stored data differs from what was written.", "Les données enregistrées diffèrent de ce qui a été écrit.", "Gespeicherte Daten weichen von dem ab, was geschrieben wurde.";
        key_missing: "The key that authenticates this data is missing from the keyring.", "La clé qui authentifie ces données manque dans le trousseau.", "Der Schlüssel, der diese Daten authentifiziert, fehlt im Schlüsselbund.";
        other_finding: "This could not be verified.", "Vérification impossible.", "Dies konnte nicht geprüft werden.";
        item: "Item", "Élément", "Eintrag";
        to_session: "To the session", "Vers la session", "Zur Sitzung";
        bundle_title: "Verify a bundle", "Vérifier une archive", "Ein Bündel prüfen";
        bundle_hint: "A bundle is a signed session: the export of a session as JSON. The file is only verified; nothing is stored.", "Une archive est une session signée : l’export JSON d’une session. Le fichier est seulement vérifié ; rien n’est conservé.", "Ein Bündel ist eine signierte Sitzung: der JSON-Export einer Sitzung. Die Datei wird nur geprüft, nichts wird gespeichert.";
        bundle_file: "Bundle", "Archive", "Bündel";
        public_key: "Public key of the expected signer (optional)", "Clé publique du signataire attendu (facultatif)", "Öffentlicher Schlüssel des erwarteten Unterzeichners (optional)";
        no_file: "Choose a file.", "Choisissez un fichier.", "Wählen Sie eine Datei aus.";
        compressed: "The file is compressed. Decompress it, and upload the JSON file.", "Le fichier est compressé. Décompressez-le, puis envoyez le fichier JSON.", "Die Datei ist komprimiert. Entpacken Sie sie und laden Sie die JSON-Datei hoch.";
        session: "Session", "Session", "Sitzung";
        signed_by: "Signed by", "Signée par", "Signiert von";
        trusted: "the expected signer", "le signataire attendu", "der erwartete Unterzeichner";
        untrusted: "Nothing was changed since the holder of this key signed it. Enter the signer’s public key to check who that is.", "Rien n’a été modifié depuis la signature par le détenteur de cette clé. Saisissez la clé publique du signataire pour vérifier de qui il s’agit.", "Nichts wurde verändert, seit der Inhaber dieses Schlüssels signiert hat. Geben Sie den öffentlichen Schlüssel des Unterzeichners an, um zu prüfen, wer das ist.";
    }
}
