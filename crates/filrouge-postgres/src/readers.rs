//! Connections that read: each question sees one snapshot.

use std::sync::Arc;
use std::time::{Duration, Instant};

use deadpool::managed::{Object, Pool, PoolError};
use filrouge_store::Keyring;
use filrouge_store::ledger::Inspect;
use filrouge_store::read::Sight;
use filrouge_store::record::Check;
use filrouge_types::{ErrorCode, Failure};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};
use tokio::try_join;
use tokio_postgres::Row;

use crate::connect::Connector;
use crate::error::unavailable;
use crate::guard::Guard;
use crate::pool::Lines;
use crate::rows::{Asked, BY_NAME, Rows, Seen, column, read_log};
use crate::session::{Driver, Session, Sql, within};

/// What a snapshot is begun with: whether a standby answers, and the newest commit.
static SIGHT: Sql = Sql::new(
    "SELECT pg_is_in_recovery(), l.commit_no, l.data FROM (SELECT) one LEFT JOIN LATERAL
         (SELECT commit_no, data FROM filrouge.commit_log ORDER BY commit_no DESC LIMIT 1) l ON true",
    &[],
);

type Reader = Object<Lines>;

/// A pool of connections that read.
pub(crate) struct Readers {
    pool: Pool<Lines>,
    /// One for each question that is being put, until its transaction has ended.
    at_work: Arc<Semaphore>,
    most: u32,
    guard: Arc<Guard>,
    keyring: Arc<Keyring>,
    check: Check,
    /// How long the beginning and the end of a transaction may take.
    patience: Duration,
}

/// How long closing waits for questions that are being put.
const LAST: Duration = Duration::from_secs(5);

/// How often a question is begun anew over another connection: one that was lost is not the questioner's fault.
const TRIES: usize = 3;

impl Readers {
    pub(crate) fn new(
        connector: Arc<Connector>,
        most: u32,
        guard: Arc<Guard>,
        keyring: Arc<Keyring>,
        check: Check,
        patience: Duration,
    ) -> Result<Self, Failure> {
        let most = most.max(1);
        static PLANNED: [&Sql; 2] = [&SIGHT, &BY_NAME];
        let lines = Lines {
            connector,
            statements: &PLANNED,
            patience: None,
        };
        let pool = lines.pool(most as usize, patience)?;
        Ok(Self {
            pool,
            at_work: Arc::new(Semaphore::new(most as usize)),
            most,
            guard,
            keyring,
            check,
            patience,
        })
    }

    /// Takes no more questions, and waits a while for those under way: they need the runtime that the caller may end.
    pub(crate) async fn close(&self) {
        self.pool.close();
        let ended = tokio::time::timeout(LAST, self.at_work.acquire_many(self.most));
        if !matches!(ended.await, Ok(Ok(_))) {
            tracing::warn!("the store is closed while it is still being read");
        }
    }

    /// Puts a question to one snapshot; `about` a session, that one is read as the snapshot is taken. Who stops waiting for
    /// the answer stops nothing else: the question runs to its end, and its connection is used again only once its
    /// transaction has ended.
    pub(crate) async fn inspect(
        self: &Arc<Self>,
        about: Option<Asked>,
        question: Inspect,
    ) -> Result<(), Failure> {
        // Apart, so that a connection that is being made is there for the next one when this caller has gone: those who
        // wait for less than that takes would have a connection begun for each of them, and none ever ready.
        let pool = self.pool.clone();
        let got = tokio::spawn(async move { pool.get().await }).await;
        let got = got.map_err(|_| Failure::new(ErrorCode::Internal, "connecting failed"))?;
        let reader = got.map_err(no_reader)?;
        let at_work = self.at_work.clone().acquire_owned().await;
        let at_work = at_work.map_err(|_| no_reader(PoolError::Closed))?;
        let (answered, answer) = oneshot::channel();
        let (readers, handle) = (self.clone(), Handle::current());
        tokio::task::spawn_blocking(move || {
            let driver = Driver::Handle(handle);
            let mut lent = Lent(Some(reader));
            let put = readers.put(&mut lent, &driver, about, question);
            // The answer need not wait for the end of the transaction; without a questioner there is nobody to tell.
            let _ = answered.send(put);
            lent.give_back(&driver, readers.patience);
            drop(at_work);
        });
        let put = answer.await;
        put.map_err(|_| Failure::new(ErrorCode::Internal, "a read failed within the program"))?
    }

    fn put(
        &self,
        lent: &mut Lent,
        driver: &Driver,
        about: Option<Asked>,
        question: Inspect,
    ) -> Result<(), Failure> {
        let (mut tried, begun) = (1, Instant::now());
        let (known, found, session) = loop {
            let known = self.guard.newest();
            match lent.begin(driver, self.patience, about.as_ref()) {
                // A row that is malformed is found by the comparison, which names it.
                Ok((found, session)) => {
                    break (known, found.and_then(|row| read_log(&row, 1).ok()), session);
                }
                Err(failure) if tried == TRIES || begun.elapsed() >= self.patience => {
                    return Err(failure);
                }
                Err(_) => tried += 1,
            }
            lent.drop_connection();
            let reader = driver.wait(self.pool.get());
            lent.0 = Some(reader.map_err(no_reader)?);
        };
        self.guard.is_behind(known.as_ref(), found.as_ref());
        let suspects = self.guard.suspects();
        let named = about.map(|about| (about, session));
        question(&Sight {
            view: &Rows {
                session: lent.session()?,
                driver,
                seen: Seen::in_snapshot(named),
            },
            keyring: &self.keyring,
            check: self.check,
            suspects: &suspects,
        });
        Ok(())
    }
}

/// A connection that goes back to the pool only by [`Lent::give_back`]: whatever else happens to it, its transaction
/// may still be open, and it is closed.
struct Lent(Option<Reader>);

impl Lent {
    fn session(&self) -> Result<&Session, Failure> {
        let reader = self.0.as_ref();
        reader
            .map(|r| &r.session)
            .ok_or_else(|| unavailable("not connected"))
    }

    /// Takes a snapshot; gives the newest commit in it, and the session that is asked for.
    fn begin(
        &self,
        driver: &Driver,
        patience: Duration,
        about: Option<&Asked>,
    ) -> Result<(Option<Row>, Option<Row>), Failure> {
        let session = self.session()?;
        let local = self.0.as_ref().map_or("", |r| r.local.as_str());
        let begin = format!("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY{local}");
        let begun = async {
            let named = async {
                match about {
                    Some(about) => about.ask(session).await,
                    None => Ok(None),
                }
            };
            let sight = session.query(&SIGHT, &[]);
            let ((), found, named) = try_join!(biased; session.run(&begin), sight, named)?;
            Ok::<_, tokio_postgres::Error>((found.into_iter().next(), named))
        };
        let (found, named) = driver.wait(within(patience, begun))?;
        // A pooler may have gone over to a server that follows another one, and lacks its newest commits.
        if let Some(row) = &found
            && column(row, 0)?
        {
            return Err(unavailable("PostgreSQL: a standby answers"));
        }
        Ok((found, named))
    }

    fn give_back(mut self, driver: &Driver, patience: Duration) {
        let ended = self
            .session()
            .and_then(|session| driver.wait(within(patience, session.run("ROLLBACK"))));
        if ended.is_ok() {
            drop(self.0.take());
        }
    }

    fn drop_connection(&mut self) {
        if let Some(reader) = self.0.take() {
            drop(Object::take(reader));
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.drop_connection();
    }
}

fn no_reader(error: PoolError<Failure>) -> Failure {
    match error {
        PoolError::Backend(failure) => failure,
        PoolError::Closed => {
            unavailable("the store is closed").with_hint("the server is stopping; try again soon")
        }
        other => unavailable(format!("no connection to read with: {other}")),
    }
}
