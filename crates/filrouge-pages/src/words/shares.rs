//! The texts of shares: the page that lists and creates them, and the shared page.

super::words! {
    /// The texts of the page of a session's shares.
    SharesWords {
        shares: "Shares", "Partages", "Freigaben";
        hint: "Anyone with the address of a share can read this conversation, or the chosen part of it, without signing in. A share ends at its time, when it is revoked, and when its creator may no longer read the conversation.", "Toute personne qui a l’adresse d’un partage peut lire cette conversation, ou la partie choisie, sans se connecter. Un partage prend fin à son échéance, quand il est révoqué, ou quand son auteur ne peut plus lire la conversation.", "Wer die Adresse einer Freigabe hat, kann diese Unterhaltung oder den gewählten Teil davon ohne Anmeldung lesen. Eine Freigabe endet nach der gewählten Dauer, wenn sie widerrufen wird oder wenn ihr Ersteller die Unterhaltung nicht mehr lesen darf.";
        to_conversation: "To the conversation", "Vers la conversation", "Zur Unterhaltung";
        none: "Nothing is shared", "Rien n’est partagé", "Es ist nichts freigegeben";
        none_hint: "Create a share to let others read this conversation.", "Créez un partage pour que d’autres lisent cette conversation.", "Erstellen Sie eine Freigabe, damit andere diese Unterhaltung lesen können.";
        off: "Sharing is off on this server.", "Le partage est désactivé sur ce serveur.", "Freigaben sind auf diesem Server ausgeschaltet.";
        created: "The share is ready", "Le partage est prêt", "Die Freigabe ist bereit";
        address: "Address", "Adresse", "Adresse";
        address_hint: "This is the only time that the address is shown. Whoever has it can read what you share.", "L’adresse n’est affichée qu’une seule fois. Quiconque la possède peut lire ce que vous partagez.", "Die Adresse wird nur jetzt angezeigt. Wer sie hat, kann lesen, was Sie freigeben.";
        created_at: "Created", "Création", "Erstellt";
        created_by: "By", "Par", "Von";
        expires: "Expires", "Expiration", "Gültig bis";
        shows: "Shows", "Contenu", "Inhalt";
        opened: "First opened", "Première ouverture", "Erstmals geöffnet";
        not_opened: "not yet", "pas encore", "noch nicht";
        state: "State", "État", "Zustand";
        usable: "usable", "valable", "gültig";
        expired: "expired", "expiré", "abgelaufen";
        revoked: "revoked", "révoqué", "widerrufen";
        revoke: "Revoke", "Révoquer", "Widerrufen";
        items: "items", "éléments", "Einträge";
        from_item: "from item", "à partir de l’élément", "ab Eintrag";
        without_reasoning: "without reasoning", "sans raisonnement", "ohne Überlegungen";
        without_tools: "without tool calls", "sans appels d’outils", "ohne Werkzeugaufrufe";
        without_names: "without names", "sans noms", "ohne Namen";
        new_share: "New share", "Nouveau partage", "Neue Freigabe";
        usable_for: "Usable for", "Valable pendant", "Gültig für";
        one_hour: "1 hour", "1 heure", "1 Stunde";
        one_day: "1 day", "1 jour", "1 Tag";
        days: "days", "jours", "Tage";
        first: "First item", "Premier élément", "Erster Eintrag";
        last: "Last item", "Dernier élément", "Letzter Eintrag";
        range_hint: "Leave both empty to share the entire conversation.", "Laissez les deux champs vides pour partager toute la conversation.", "Lassen Sie beide Felder leer, um die ganze Unterhaltung freizugeben.";
        grows: "Include items that are added later", "Inclure les éléments ajoutés plus tard", "Auch später hinzugefügte Einträge zeigen";
        leave_out: "Leave out", "Omettre", "Weglassen";
        reasoning: "Reasoning", "Raisonnement", "Überlegungen";
        tools: "Tool calls and results", "Appels d’outils et résultats", "Werkzeugaufrufe und Ergebnisse";
        names: "Names of people, agents and models", "Noms des personnes, agents et modèles", "Namen von Personen, Agenten und Modellen";
        texts_stay: "Texts are shown as they are, whatever they mention.", "Les textes sont affichés tels quels, quoi qu’ils mentionnent.", "Texte werden unverändert gezeigt, unabhängig davon, was sie erwähnen.";
        create: "Create the share", "Créer le partage", "Freigabe erstellen";
    }
}

super::words! {
    /// The texts of the shared page, for its visitors.
    SharedWords {
        conversation: "Shared conversation", "Conversation partagée", "Freigegebene Unterhaltung";
        part: "Part of a conversation", "Extrait d’une conversation", "Auszug aus einer Unterhaltung";
        usable_until: "This page is available until", "Cette page est disponible jusqu’au", "Diese Seite ist verfügbar bis";
        reduced: "Its creator has left something out.", "Son auteur a omis certains éléments.", "Der Ersteller hat etwas weggelassen.";
        nothing_here: "There is nothing to read in this part.", "Il n’y a rien à lire dans cette partie.", "In diesem Teil gibt es nichts zu lesen.";
        next: "Continue reading", "Lire la suite", "Weiterlesen";
        skip_to_content: "Skip to the conversation", "Aller à la conversation", "Zur Unterhaltung";
        not_found: "There is nothing here", "Il n’y a rien ici", "Hier ist nichts";
        not_found_hint: "The address is wrong, or what was shared is no longer available.", "L’adresse est erronée, ou ce qui était partagé n’est plus disponible.", "Die Adresse ist falsch, oder das Freigegebene ist nicht mehr verfügbar.";
        try_again: "This page cannot be shown now", "Cette page ne peut pas être affichée pour l’instant", "Diese Seite kann gerade nicht gezeigt werden";
        try_again_hint: "Try again in a moment.", "Réessayez dans un instant.", "Versuchen Sie es gleich noch einmal.";
    }
}
