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
        sign_in_hint: "Sign in with an API key, or with a token of your organization. An administrator creates a key with: filrouge keys create", "Connectez-vous avec une clé d’API, ou avec un jeton de votre organisation. Un administrateur crée une clé avec : filrouge keys create", "Melden Sie sich mit einem API-Schlüssel oder mit einem Token Ihrer Organisation an. Ein Administrator erstellt einen Schlüssel mit: filrouge keys create";
        sign_out: "Sign out", "Se déconnecter", "Abmelden";
        wrong_key: "This is no valid API key or token.", "Ce n’est pas une clé d’API ou un jeton valide.", "Das ist kein gültiger API-Schlüssel und kein gültiges Token.";
        api_key: "API key or token", "Clé d’API ou jeton", "API-Schlüssel oder Token";
        error: "Error", "Erreur", "Fehler";
        to_sessions: "To the sessions", "Vers les sessions", "Zu den Sitzungen";
    }
}
