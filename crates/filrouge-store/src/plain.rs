//! The port of a database with plain tables, such as those of a projection: nothing in them is a ledger's.
//!
//! All values are sent and returned as text; statements cast them. So one caller can use any SQL database.

use async_trait::async_trait;

/// A statement, and the texts of its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// The SQL. A query returns only columns of type text.
    pub text: String,
    /// The values of its parameters, in order.
    pub params: Vec<String>,
}

impl Statement {
    /// A statement without parameters.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            params: Vec::new(),
        }
    }

    /// A statement with these parameters.
    pub fn with(text: impl Into<String>, params: impl IntoIterator<Item = String>) -> Self {
        Self {
            text: text.into(),
            params: params.into_iter().collect(),
        }
    }
}

/// The rows that a statement returned; `None` is NULL.
pub type PlainRows = Vec<Vec<Option<String>>>;

/// Why statements failed. None of them has an effect then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlainError {
    /// A value does not fit its column. Repeating the statement never helps.
    #[error("{0}")]
    Data(String),
    /// A schema, table or column is missing, or is another one.
    #[error("{0}")]
    Altered(String),
    /// The database refuses the statement or the connection: no permission, wrong credentials.
    #[error("{0}")]
    Refused(String),
    /// The database does not answer, or asks to try again.
    #[error("{0}")]
    Unavailable(String),
}

/// A database with plain tables. It runs one transaction at a time.
#[async_trait]
pub trait PlainDatabase: Send + Sync {
    /// Runs the statements in one transaction, and returns the rows of each. When it returns, the changes are durable.
    ///
    /// # Errors
    /// [`PlainError`]; then no statement has an effect, unless the connection was lost during the commit.
    async fn run(&self, statements: Vec<Statement>) -> Result<Vec<PlainRows>, PlainError>;

    /// Removes the bytes of deleted and replaced rows of these tables from the database's files as far as it can.
    /// Returns where bytes remain, and until when; `None` if nowhere.
    ///
    /// # Errors
    /// [`PlainError::Unavailable`].
    async fn erase_deleted(&self, tables: &[String]) -> Result<Option<&'static str>, PlainError>;
}
