//! A wire for people: the history in a browser, rendered on the server.
//!
//! API keys, owners, roles, limits and rate limits apply as on the native routes. A page shows what the services return
//! to its caller, and changes something only through them. Pages work without scripts; scripts only load further parts,
//! follow a session as it grows, and add keys.

mod actions;
mod assets;
mod audit;
mod bundle;
mod charts;
mod conversation;
mod failure;
mod form;
mod format;
mod integrity;
mod layout;
mod lineage;
mod links;
mod operations;
mod prices;
mod sessions;
mod shared;
mod shares;
mod sign_in;
mod state;
mod statistics;
mod text;
mod upload;
mod visit;
mod words;

pub use futures_util::future::BoxFuture;
pub use operations::{Deliveries, Observer, ProjectionState, Status, WebhookState};
pub use prices::{Prices, PricesError};
pub use state::Pages;

use axum::Router;
use axum::routing::{get, post};
use filrouge_http::{OwnPaths, Wire};

/// The headers of all pages: a page runs only scripts of this server, makes requests to it alone, is in no frame, and
/// is not kept by browsers or proxies.
const HEADERS: &[(&str, &str)] = &[
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
         form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-store"),
];

/// Returns the pages as a wire: `/`, and everything below `/ui/`.
pub fn wire(pages: Pages) -> Wire {
    let routes = Router::new()
        .route("/", get(sessions::list))
        .route(sessions::ARRIVALS_PATH, get(sessions::arrivals))
        .route(sessions::FIGURES_PATH, get(sessions::figures))
        .route(conversation::PATH, get(conversation::show))
        .route(conversation::PART_PATH, get(conversation::part))
        .route(conversation::THREAD_PATH, get(conversation::thread))
        .route(conversation::ITEM_PATH, get(conversation::item))
        .route(conversation::LIVE_PATH, get(conversation::live))
        .route(conversation::CONTEXT_PATH, get(conversation::context))
        .route(conversation::EXPORT_PATH, get(conversation::export))
        .route(conversation::HISTORY_PATH, get(conversation::history))
        .route(
            conversation::HISTORY_PART_PATH,
            get(conversation::history_part),
        )
        .route(
            conversation::HISTORY_ITEM_PATH,
            get(conversation::history_item),
        )
        .route(links::AUDIT, get(audit::of_tenant))
        .route(audit::SESSION_PATH, get(audit::of_session))
        .route(integrity::PATH, get(integrity::verify))
        .route(
            links::INTEGRITY,
            get(bundle::ask).post(bundle::verify_upload),
        )
        .merge(actions::routes())
        .route(lineage::PATH, get(lineage::show))
        .route(lineage::HISTORY_PATH, get(lineage::show_history))
        .route(statistics::PATH, get(statistics::of_tenant))
        .route(statistics::SESSION_PATH, get(statistics::of_session))
        .route(operations::PATH, get(operations::show))
        .route(operations::NOW_PATH, get(operations::now))
        .route(operations::DELIVERIES_PATH, get(operations::deliveries))
        .route(operations::WEEKS_PATH, get(operations::figures))
        .route(shares::PATH, get(shares::list).post(shares::create))
        .route(shares::REVOKE_PATH, post(shares::revoke))
        .route(shared::PATH, get(shared::show))
        .route(sign_in::IN_PATH, post(sign_in::sign_in))
        .route(sign_in::OUT_PATH, post(sign_in::sign_out))
        .route(assets::PATH, get(assets::get_asset));
    Wire {
        routes: routes.with_state(pages),
        public: &[
            assets::PATH,
            shared::PATH,
            sign_in::IN_PATH,
            sign_in::OUT_PATH,
        ],
        unbounded: &[],
        own_paths: Some(OwnPaths {
            contain: |path| path == "/" || path.starts_with("/ui/"),
            format_failure: failure::format,
            for_browsers: true,
            headers: HEADERS,
        }),
    }
}
