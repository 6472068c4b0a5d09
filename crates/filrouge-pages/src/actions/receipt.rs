//! The receipt of a redaction or an erasure: the result in each store.

use filrouge_engine::StoreReceipt;
use filrouge_engine::cleaning::{ERASED, PENDING};
use filrouge_engine::scopes::HotReceipt;
use maud::{Markup, html};

use crate::words::ActionWords;

/// The result in each store.
pub(super) fn stores(words: &ActionWords, stores: &[StoreReceipt]) -> Markup {
    html! {
        h2 { (words.receipt) }
        div.wide tabindex="0" role="group" aria-label=(words.receipt) {
            table.receipt {
                thead {
                    tr { @for name in [words.store, words.result, words.remains] { th scope="col" { (name) } } }
                }
                tbody {
                    @for store in stores {
                        tr data-status=(store.status) {
                            th scope="row" {
                                @match &store.name {
                                    Some(name) => { (words.projection) " " bdi { (name) } },
                                    None => { (store.store) },
                                }
                            }
                            td { (status(words, store.status)) }
                            td { (store.remains.unwrap_or(words.nowhere)) }
                        }
                    }
                }
            }
        }
    }
}

fn status(words: &ActionWords, status: &'static str) -> &'static str {
    match status {
        ERASED => words.erased,
        PENDING => words.pending,
        other if other == HotReceipt::Unreachable.as_str() => words.unreachable,
        other => other,
    }
}
