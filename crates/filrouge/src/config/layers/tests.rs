use super::*;

fn layers(text: &str) -> Result<Layers<'_>, Usage> {
    Layers::new(Some(Path::new("/f/c.toml")), text, BTreeMap::new())
}

#[test]
fn environment_variables_are_named_after_settings() {
    for (name, expected) in [
        ("store", "FILROUGE_STORE"),
        ("sources", "FILROUGE_SOURCE"),
        ("secrets.credentials", "FILROUGE_CREDENTIALS"),
        ("calls.lease_ttl_ms", "FILROUGE_LEASE_TTL_MS"),
        ("search.index_dir", "FILROUGE_SEARCH_INDEX_DIR"),
        ("search.embedder.kind", "FILROUGE_EMBEDDER"),
        ("search.embedder.key_env", "FILROUGE_EMBEDDER_KEY_ENV"),
    ] {
        assert_eq!(env_variable(name), expected);
    }
}

#[test]
fn a_wrong_type_and_an_unknown_name_are_refused_with_their_lines() -> Result<(), Usage> {
    let refused = layers("\nlisten = 1\n")?.text("listen", || Ok(String::new()));
    assert!(refused.is_err_and(|e| e.detail == "/f/c.toml: line 2: listen must be a text"));
    let mut with_section = layers("[spool]\nbytes = 0x10\n\nrows = 1")?;
    assert_eq!(with_section.number("spool.bytes", 0..=16, 1_u64)?, 16);
    let error = with_section.finish().err().map(|e| e.detail);
    assert_eq!(
        error.as_deref(),
        Some("/f/c.toml: line 4: unknown field `spool.rows`")
    );
    let is_refused = layers("[spol]\n")?.finish().is_err();
    assert!(is_refused, "an empty section with an unknown name");
    Ok(())
}
