//! Orders to a conversation.

use filrouge_types::Failure;
use tokio::sync::oneshot;

use crate::message::MessageId;
use crate::record::Status;

pub(super) type Reply<T> = oneshot::Sender<Result<T, Failure>>;

pub(super) enum Order {
    Say(Box<str>, Reply<Option<MessageId>>),
    Task(Option<Box<str>>, Reply<()>),
    Resume(Reply<bool>),
    Cancel(Reply<bool>),
    Close(Status, Reply<()>),
}

/// Sends an order's result. The caller may be gone; the order was executed all the same.
pub(super) fn answer<T>(reply: Reply<T>, result: Result<T, Failure>) {
    let _ = reply.send(result);
}
