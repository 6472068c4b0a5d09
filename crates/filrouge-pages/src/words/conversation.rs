//! The texts of a conversation's page.

super::words! {
    /// The texts of a conversation's page.
    ConversationWords {
        untitled: "Untitled", "Sans titre", "Ohne Titel";
        live: "Live", "En direct", "Live";
        connection_lost: "The connection to the server is lost. The page continues when it is back.", "La connexion au serveur est perdue. La page continue dès qu’elle est rétablie.", "Die Verbindung zum Server ist unterbrochen. Die Seite läuft weiter, sobald sie wieder besteht.";
    }
}
