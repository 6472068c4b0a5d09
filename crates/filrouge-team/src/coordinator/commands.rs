//! Commands to the task that runs a team's session.

use filrouge_types::Failure;
use tokio::sync::oneshot;

use crate::message::MessageId;
use crate::record::Status;

pub(super) type Reply<T> = oneshot::Sender<Result<T, Failure>>;

pub(super) enum SessionCommand {
    /// Adds a human's message. The reply is its id, or `None` if the text has only markers without addressees.
    Say(Box<str>, Reply<Option<MessageId>>),
    /// Sets the team task; `None` clears it.
    SetTeamTask(Option<Box<str>>, Reply<()>),
    /// Continues with the queued members. The reply is `true` if there are any.
    Resume(Reply<bool>),
    /// Stops the speaker and empties the queue. The reply is `true` if an agent was speaking.
    Cancel(Reply<bool>),
    /// Cancels, then closes the session with this status.
    Close(Status, Reply<()>),
}
