//! The client of search engines, with the errors of targets.

use filrouge_opensearch::client::ClientError;
pub(crate) use filrouge_opensearch::client::{Answer, Body, Client};
pub use filrouge_opensearch::client::{Credentials, Endpoint};

use crate::TargetError;

impl From<ClientError> for TargetError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Unavailable(why) => Self::Unavailable(why),
            ClientError::Refused(why) => Self::Refused(why),
        }
    }
}
