//! Sign-in with a token of an issuer.

use serde_json::json;

use crate::caller::{Caller, within_five_seconds};
use crate::issuer::{NEW, OLD, claims_with, now};
use crate::jwt::serve_file;
use crate::pages_visitor::Visitor;
use crate::world::World;

#[test]
fn a_token_signs_in_until_it_expires() {
    let world = World::new();
    let server = serve_file(&world, &[OLD], "leeway_s = 0");
    let token = |subject: &str, seconds: i64| {
        OLD.sign(&claims_with(
            json!({ "sub": subject, "exp": now() + seconds }),
        ))
    };
    let with_token = Caller::with_credentials(&server, &token("ada", 600));
    let session = json!({ "session_id": "hers", "title": "The gate" });
    with_token.post("", &session).is(201);
    assert_eq!(Visitor::new(&server).get("/").status, 401);
    let ada = Visitor::signed_in(&server, &token("ada", 600));
    let page = ada.page("/");
    assert!(page.contains("/ui/sessions/hers"), "{page}");
    // The frame names the subject, without the tenant.
    assert!(page.contains("<span class=\"meta\">ada</span>"), "{page}");
    let bob = Visitor::signed_in(&server, &token("bob", 600));
    assert!(!bob.page("/").contains("/ui/sessions/hers"));
    assert_eq!(bob.get("/ui/sessions/hers").status, 404);
    // The role is that of the token: an end user sees no audit.
    assert_eq!(ada.get("/ui/audit").status, 403);
    // The ticket opens no native route, and does not contain the token.
    let signed_in = Visitor::new(&server).post("/ui/sign-in", &[("key", &token("ada", 600))]);
    let cookie = signed_in.header("set-cookie").unwrap();
    let max_age = cookie.split("Max-Age=").nth(1).unwrap();
    let max_age: i64 = max_age.split(';').next().unwrap().parse().unwrap();
    assert!((1..=600).contains(&max_age), "{cookie}");
    let pair = cookie.split(';').next().unwrap();
    assert!(!pair.contains(&token("ada", 600)), "{cookie}");
    let native = Caller::anonymous(&server).with("cookie", pair);
    native.get("").fails(401, "unauthenticated");
    let changed = pair.replacen("=~", "=~e", 1);
    let forged = Visitor::new(&server).with("cookie", &changed).get("/");
    assert_eq!(forged.status, 401, "{changed}");
    // A token of another key of the same issuer, and one that has expired.
    let strange = NEW.sign(&claims_with(json!({ "sub": "ada" })));
    for wrong in [strange, token("ada", -1)] {
        let refused = Visitor::new(&server).post("/ui/sign-in", &[("key", &wrong)]);
        assert_eq!(
            (refused.status, refused.header("set-cookie")),
            (401, None),
            "{refused:?}"
        );
    }
    let short = Visitor::signed_in(&server, &token("ada", 6));
    within_five_seconds("the sign-in ends with its token", || {
        short.get("/").status == 401
    });
    // Without the issuer, its tokens' sign-ins are not accepted any more.
    server.stop();
    crate::caller::key(&world, &["--role", "admin"]);
    let server = world.serve();
    let stale = Visitor::new(&server).with("cookie", pair).get("/");
    assert_eq!(stale.status, 401, "{stale:?}");
    server.stop();
}
