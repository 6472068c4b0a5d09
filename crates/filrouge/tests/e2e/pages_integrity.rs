//! The pages of verifications: the badge of a session, and uploaded bundles.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;

use crate::audit::record;
use crate::caller::key;
use crate::pages_visitor::Visitor;
use crate::world::World;

#[test]
fn a_session_is_verified_on_a_click() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    record(&client);
    client
        .post("", &json!({ "session_id": "a/../b" }))
        .wrote(201);
    let visitor = Visitor::new(&server);
    let path = "/ui/sessions/a%2F..%2Fb";
    assert!(
        visitor
            .page(path)
            .contains(&format!(r#"hx-get="{path}/verify""#))
    );
    for path in [path, "/ui/sessions/s1"] {
        let page = visitor.page(&format!("{path}/verify"));
        assert!(page.starts_with("<!DOCTYPE html>"), "{page}");
        let part = visitor
            .with("hx-request", "true")
            .page(&format!("{path}/verify"));
        assert!(part.starts_with("<section"), "{part}");
        for shown in [page, part] {
            assert!(shown.contains(r#"data-verdict="intact""#), "{shown}");
            assert!(
                shown.contains("has every commit that its anchor records"),
                "{shown}"
            );
        }
    }
    let absent = visitor.get("/ui/sessions/absent/verify");
    assert_eq!(absent.status, 404, "{absent:?}");
    server.stop();
}

#[test]
fn a_store_that_contradicts_its_anchor_is_not_intact() {
    let world = World::on_sqlite();
    let server = world.serve();
    record(&server.client());
    let state = world.path("state/filrouge/anchor");
    let anchor = std::fs::read_dir(&state).unwrap().find_map(|entry| {
        let path = entry.unwrap().path();
        (path.extension()? == "anchor").then_some(path)
    });
    std::fs::write(anchor.unwrap(), "{}").unwrap();
    let page = Visitor::new(&server).page("/ui/sessions/s1/verify");
    assert!(page.contains(r#"data-verdict="broken""#), "{page}");
    let folder = state.display().to_string();
    assert!(
        page.contains("contradicts its anchor") && !page.contains(&folder),
        "{page}"
    );
}

#[test]
fn an_uploaded_bundle_is_verified_and_not_kept() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    record(&client);
    let ada = client.for_identity("ada");
    let bundle = ada.get("/s1/export?format=json").text;
    let visitor = Visitor::new(&server);
    let verify = |bytes: &[u8]| {
        let response = visitor.upload("/ui/integrity", "bundle", bytes);
        assert_eq!(response.status, 200, "{response:?}");
        response.text
    };
    let good = verify(bundle.as_bytes());
    assert!(
        good.contains(r#"data-verdict="intact""#) && good.contains("<bdi>s1</bdi>"),
        "{good}"
    );
    assert!(
        good.contains("Nothing was changed since the holder"),
        "{good}"
    );
    let changed = verify(
        bundle
            .replace("What do I owe?", "What do I own?")
            .as_bytes(),
    );
    assert!(changed.contains(r#"data-verdict="broken""#), "{changed}");
    assert!(
        changed.contains("differs from what was written"),
        "{changed}"
    );
    for other in [
        "{}",
        "[",
        "{\"filrouge_bundle\":7,",
        "\0",
        "<script>alert(1)</script>",
    ] {
        let page = verify(other.as_bytes());
        assert!(
            page.contains(r#"data-verdict="cannot_tell""#),
            "{other}: {page}"
        );
        assert!(!page.contains("<script>alert"), "{page}");
    }
    let nested = format!(
        "{{\"filrouge_bundle\":1,\n\"session\":{}",
        "[".repeat(1 << 20)
    );
    assert!(verify(nested.as_bytes()).contains(r#"data-verdict="broken""#));
    assert!(verify(b"").contains("Choose a file"));
    ada.delete("/s1").wrote(200);
    verify(bundle.as_bytes());
    assert_eq!(ada.get("/s1").status, 410);
    server.stop();
    world.verify();
}

#[test]
fn hostile_uploads_get_a_clear_answer() {
    let world = World::new();
    let server = world.serve_with_env(&[("FILROUGE_LIMITS_BODY_BYTES", "2097152")], &[]);
    let visitor = Visitor::new(&server);
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(&vec![b'['; 32 << 20]).unwrap();
    let bomb = gzip.finish().unwrap();
    let zip = [&b"PK\x03\x04"[..], &[0; 64]].concat();
    for compressed in [&bomb, &zip] {
        let page = visitor.upload("/ui/integrity", "bundle", compressed);
        assert_eq!(page.status, 200, "{page:?}");
        assert!(page.text.contains("The file is compressed"), "{page:?}");
    }
    let form = visitor.with("content-type", "multipart/form-data; boundary=b");
    let encoded = form
        .with("content-encoding", "gzip")
        .send("POST", "/ui/integrity", &bomb);
    assert_eq!(encoded.status, 413, "{encoded:?}");
    let large = visitor.upload("/ui/integrity", "bundle", &vec![b'x'; 3 << 20]);
    assert_eq!(large.status, 413, "{large:?}");
    assert!(large.text.contains("filrouge verify --bundle"), "{large:?}");
    for broken in [
        "",
        "--b",
        "--b\r\n\r\n",
        "--b\r\ncontent-disposition: form-data; name=\"bundle\"\r\n\r\n{}",
    ] {
        let refused = form.send("POST", "/ui/integrity", broken.as_bytes());
        assert_eq!(refused.status, 422, "{broken}: {refused:?}");
    }
    let other_site = visitor.with("sec-fetch-site", "cross-site");
    assert_eq!(
        other_site.upload("/ui/integrity", "bundle", b"{}").status,
        403
    );
    server.stop();
}

#[test]
fn every_role_may_verify_a_bundle() {
    let world = World::new();
    let keys = [
        key(&world, &["--role", "user", "--identity", "ada"]),
        key(&world, &["--role", "service"]),
        key(&world, &["--role", "auditor"]),
        key(&world, &["--role", "admin"]),
    ];
    let server = world.serve();
    for key in &keys {
        let visitor = Visitor::signed_in(&server, key);
        assert!(
            visitor
                .page("/ui/integrity")
                .contains("multipart/form-data")
        );
        assert_eq!(visitor.upload("/ui/integrity", "bundle", b"{}").status, 200);
    }
    server.stop();
}
