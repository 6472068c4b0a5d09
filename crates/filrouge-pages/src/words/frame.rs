//! The texts around every page.

super::words! {
    /// The texts of the frame, of failures, and of the form to sign in.
    FrameWords {
        skip_to_content: "Skip to the content", "Aller au contenu", "Zum Inhalt";
        sessions: "Sessions", "Sessions", "Sitzungen";
        audit: "Audit", "Audit", "Audit";
        integrity: "Integrity", "Intégrité", "Integrität";
        pages: "Pages", "Pages", "Seiten";
        statistics: "Statistics", "Statistiques", "Statistik";
        operations: "Operations", "Exploitation", "Betrieb";
        sign_in: "Sign in", "Se connecter", "Anmelden";
        sign_in_hint: "Sign in with an API key. An administrator creates one with: filrouge keys create", "Connectez-vous avec une clé d’API. Un administrateur la crée avec : filrouge keys create", "Melden Sie sich mit einem API-Schlüssel an. Ein Administrator erstellt ihn mit: filrouge keys create";
        sign_out: "Sign out", "Se déconnecter", "Abmelden";
        wrong_key: "This API key is not valid.", "Cette clé d’API n’est pas valide.", "Dieser API-Schlüssel ist ungültig.";
        api_key: "API key", "Clé d’API", "API-Schlüssel";
        error: "Error", "Erreur", "Fehler";
        to_sessions: "To the sessions", "Vers les sessions", "Zu den Sitzungen";
    }
}
