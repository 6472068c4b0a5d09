//! The texts of the lineage of a session.

super::words! {
    /// The texts of the lineage of a session.
    LineageWords {
        lineage: "Lineage", "Filiation", "Abstammung";
        untitled: "Untitled", "Sans titre", "Ohne Titel";
        this_session: "this session", "cette session", "diese Sitzung";
        level: "Level", "Niveau", "Ebene";
        gap: "A session that does not exist, or that you cannot see", "Une session qui n’existe pas, ou que vous n’êtes pas autorisé à voir", "Eine Sitzung, die nicht existiert oder die Sie nicht sehen dürfen";
        alone: "No other session belongs to this one.", "Aucune autre session n’est liée à celle-ci.", "Keine andere Sitzung ist mit dieser verbunden.";
        alone_hint: "A session that names this one as its parent_session_id appears here.", "Une session qui désigne celle-ci par parent_session_id apparaît ici.", "Eine Sitzung, die diese als parent_session_id nennt, erscheint hier.";
        forks: "Forks", "Bifurcations", "Abzweigungen";
        cycle: "The session, or one of its ancestors, is its own ancestor.", "La session, ou l’un de ses ancêtres, est son propre ancêtre.", "Die Sitzung oder einer ihrer Vorfahren ist ihr eigener Vorfahre.";
        truncated: "Some relatives are left out, because there are too many.", "Certaines sessions liées sont omises, car il y en a trop.", "Einige verbundene Sitzungen fehlen, weil es zu viele sind.";
        damaged: "Damaged sessions, which are left out:", "Sessions endommagées, qui sont omises :", "Beschädigte Sitzungen, die fehlen:";
    }
}
