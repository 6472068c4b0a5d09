//! The client of search engines, with the errors of targets.

pub(crate) use filrouge_opensearch::client::{
    Answer, Body, Client, ClientError, MAX_RESPONSE_BYTES,
};
pub use filrouge_opensearch::client::{Credentials, Endpoint};

use crate::TargetError;

impl From<ClientError> for TargetError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Unavailable(why) => Self::Unavailable(why),
            ClientError::Refused(why) => Self::Refused(why),
            ClientError::TooLarge(_) => Self::Refused(error.to_string()),
        }
    }
}
