//! What a redaction would erase, and what would stay.

use filrouge_document::{channel_name, role_name};
use filrouge_engine::Leftovers;
use filrouge_store::record::Seqs;
use filrouge_types::{Item, JsonText, SessionId, Turn};
use maud::{Markup, html};

use super::frame::buttons;
use crate::format::time;
use crate::links::{item_path, session_path};
use crate::text::cut;
use crate::words::{ActionWords, Language};

/// The maximum number of items that a preview lists.
const SHOWN_ITEMS: usize = 50;
/// The maximum number of characters that are shown of a text.
const TEXT_CHARS_MAX: usize = 200;

/// Lists turns to choose from, and asks for items. `has_older`: there are older turns.
pub(super) fn choose(
    words: &ActionWords,
    session: &SessionId,
    turns: &[Turn],
    has_older: bool,
) -> Markup {
    let path = session_path(session);
    html! {
        p { (words.redact_choose) }
        form.stacked action={ (path) "/redact" } {
            label { span { (words.redact_items) }
                input name="seqs" required autocomplete="off" aria-describedby="items-hint";
            }
            p.meta #items-hint { (words.redact_items_hint) }
            (buttons(words, session, words.preview, false))
        }
        @if !turns.is_empty() {
            h2 { (words.turns) }
            @if has_older { p.meta { (words.turns_newest) } }
            ol.turns {
                @for turn in turns {
                    li value=(turn.ordinal) {
                        a href={ (path) "/redact?turn=" (turn.turn_id) } { bdi { (question(words, turn)) } }
                        " " span.meta { (time(turn.created_at)) }
                    }
                }
            }
        }
    }
}

/// The beginning of a turn's question.
fn question(words: &ActionWords, turn: &Turn) -> String {
    let texts = [&turn.question_translated, &turn.question_neutral];
    let text = texts.into_iter().flatten().next().map(JsonText::to_plain);
    let text = text.filter(|text| !text.trim().is_empty());
    text.map_or_else(
        || words.untitled.to_owned(),
        |text| cut(&text, TEXT_CHARS_MAX),
    )
}

/// A redaction before it is made.
pub(super) struct Preview<'a> {
    pub(super) session: &'a SessionId,
    /// The turn, as the query names it; empty for items.
    pub(super) turn: &'a str,
    /// The items, as the query names them; empty for a turn.
    pub(super) seqs: &'a str,
    /// The items that it erases.
    pub(super) items: &'a [Item],
    /// The fields that keep some of the words.
    pub(super) leftovers: &'a Leftovers,
}

impl Preview<'_> {
    /// The seqs of items, by which a form says what its preview showed.
    pub(super) fn seqs_of(items: &[Item]) -> String {
        let ranges = items.iter().map(|item| (item.seq, item.seq));
        Seqs::from_ranges(ranges).unwrap_or_default().to_string()
    }

    pub(super) fn show(&self, language: Language) -> Markup {
        let words = ActionWords::of(language);
        html! {
            (self.removed(language))
            (self.stays(words))
            form.stacked method="post" action={ (session_path(self.session)) "/redact" } {
                input type="hidden" name="turn" value=(self.turn);
                input type="hidden" name="seqs" value=(self.seqs);
                input type="hidden" name="previewed" value=(Self::seqs_of(self.items));
                @if self.leftovers.title {
                    label.check {
                        input type="checkbox" name="with_title" value="true";
                        span { (words.with_title) }
                    }
                }
                label { span { (words.reason) } input name="reason" required autocomplete="off"; }
                (buttons(words, self.session, words.redact_now, true))
            }
        }
    }

    fn removed(&self, language: Language) -> Markup {
        let (words, language) = (ActionWords::of(language), language.of_document());
        let more = self.items.len().saturating_sub(SHOWN_ITEMS);
        html! {
            section.removed {
                h2 { (words.removed) }
                p { (words.removed_hint) }
                ul {
                    @for item in self.items.iter().take(SHOWN_ITEMS) {
                        li {
                            a href=(item_path(self.session, item.seq)) { (item.seq) } " "
                            span.meta { (time(item.when())) " " (role_name(item.body.role, language)) " " bdi { (channel_name(&item.body.channel, language)) } } " "
                            @if item.redacted { em { (words.already) } }
                            @else { bdi { (cut(&item.body.display_text(), TEXT_CHARS_MAX)) } }
                        }
                    }
                }
                @if more > 0 { p { "+ " (more) " " (words.more) } }
            }
        }
    }

    fn stays(&self, words: &ActionWords) -> Markup {
        let fields = self.leftovers.names();
        html! {
            section.stays {
                h2 { (words.stays) }
                ul {
                    li { (words.stays_record) }
                    li { (words.stays_reason) }
                    @if !fields.is_empty() { li.left { (words.stays_words) " " bdi { (fields.join(", ")) } } }
                }
            }
        }
    }
}
