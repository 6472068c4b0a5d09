//! Pages of sessions and turns. Cursors are immutable keys, so that paging neither skips nor repeats rows while others
//! write (DESIGN §12); lists by last activity are the exception ([`SessionSort::Updated`]). A page ends early when it
//! reaches [`RECORDS_BYTES`].

use filrouge_types::{
    ErrorCode, Failure, Result, Session, SessionId, Timestamp, Turn, TurnId, TurnStatus,
};

use super::{ALL_PLACES, Findings, VerifiedSession, VerifiedSnapshot, in_session};
use crate::command::{Scope, SessionFilter, SessionSort, Viewer};
use crate::rows::{RECORDS_BYTES, SessionOrder, SessionPk, TurnRow, View};

/// The number of turns per page when all turns of a session are visited.
const TURNS_PER_VISIT: usize = 500;

/// A page of sessions in the order of the query, and the cursor of the next page.
pub type SessionPage = (Vec<Session>, Option<String>);
/// A page of sessions, not yet as callers see them.
pub(super) type VerifiedPage = (Vec<VerifiedSession>, Option<String>);
/// A page of turns in order, and the cursor of the next page.
pub type TurnPage = (Vec<Turn>, Option<String>);

/// A turn of a page. `replaced_by` is the turn's next version, if the turn has one and the page has read it.
pub(super) struct ListedTurn {
    pub(super) row: TurnRow,
    pub(super) replaced_by: Option<TurnId>,
}

impl ListedTurn {
    const fn new(row: TurnRow) -> Self {
        Self {
            row,
            replaced_by: None,
        }
    }
}

/// The order of paged turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TurnOrder {
    /// From the oldest turn on.
    #[default]
    Oldest,
    /// From the newest page back, each page in ascending order; replaced turns are left out.
    Newest,
}

impl TurnOrder {
    /// The cursor of the page that begins with this turn.
    fn cursor_at(self, row: &TurnRow) -> String {
        let place = match self {
            Self::Oldest => row.place(),
            // Begins at the highest place of any version of the turn, so that later versions are included.
            Self::Newest => (row.ordinal << 8) | 0xff,
        };
        place.to_string()
    }
}

/// The filter, order and page of a query for turns.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TurnQuery {
    /// If given, selects the turns with this status.
    pub status: Option<TurnStatus>,
    /// Whether to include redacted turns.
    pub include_redacted: bool,
    /// The order.
    pub order: TurnOrder,
    /// The cursor that the previous page returned; `None` for the first page.
    pub cursor: Option<String>,
    /// The maximum number of turns.
    pub limit: usize,
}

impl TurnQuery {
    fn matches(&self, row: &TurnRow) -> bool {
        self.status.is_none_or(|s| s == row.status)
            && (self.include_redacted || row.redacted_by == 0)
    }
}

fn invalid_cursor(text: &str) -> Failure {
    Failure::new(ErrorCode::Invalid, format!("{text:?} is no cursor"))
        .with_hint("pass a next_cursor unchanged, or leave it out for the first page")
}

/// The cursor of the page of sessions that follows this session.
fn session_cursor(session: &VerifiedSession, sort: SessionSort) -> String {
    let pk = session.pk;
    match sort {
        SessionSort::Created => pk.to_string(),
        SessionSort::Updated => format!("{}.{pk}", session.head.updated_at.as_micros()),
    }
}

/// Parses a cursor of sessions: the number of the last session of the previous page, and its last activity if the list
/// has that order.
fn parse_session_cursor(text: &str, sort: SessionSort) -> Result<(Option<Timestamp>, SessionPk)> {
    let parsed = match (sort, text.split_once('.')) {
        (SessionSort::Created, None) => text.parse().ok().map(|pk| (None, pk)),
        (SessionSort::Updated, Some((at, pk))) => at.parse().ok().and_then(|at| {
            let at = Timestamp::from_micros(at);
            Some((Some(at), pk.parse().ok()?))
        }),
        _ => None,
    };
    parsed.ok_or_else(|| invalid_cursor(text))
}

/// The page as callers see it.
fn shown((page, next): VerifiedPage) -> SessionPage {
    let sessions = page.into_iter();
    let sessions = sessions.map(|session| session.row.with_head(&session.head));
    (sessions.collect(), next)
}

/// Refuses a list because of damage.
pub(super) fn refuse(failure: Failure) -> Result<()> {
    Err(failure)
}

/// Parses a cursor.
fn parse_cursor(text: Option<&str>) -> Result<Option<u64>> {
    text.map(|t| t.parse().map_err(|_| invalid_cursor(t)))
        .transpose()
}

impl<V: View + ?Sized> VerifiedSnapshot<'_, V> {
    /// One session.
    ///
    /// # Errors
    /// `session_not_found`, `integrity_error`, `key_missing`.
    pub fn session(&self, scope: &Scope, id: &SessionId) -> Result<Session> {
        let loaded = self.get(scope, id)?;
        Ok(loaded.row.with_head(&loaded.head))
    }

    /// A page of sessions, newest first. It ends early when its rows reach [`RECORDS_BYTES`], but has at least one.
    ///
    /// # Errors
    /// `invalid` for a malformed cursor, `integrity_error`.
    pub fn sessions(
        &self,
        scope: &Scope,
        filter: &SessionFilter,
        from: Option<&str>,
        limit: usize,
    ) -> Result<SessionPage> {
        self.check_listing(scope)?;
        let before = self.position_of(scope, filter, from)?;
        let page = self.session_page(scope, filter, (before, limit), &mut refuse)?;
        Ok(shown(page))
    }

    /// As [`Self::sessions`], but leaves out damaged sessions and adds them to `findings`.
    ///
    /// # Errors
    /// As [`Self::sessions`], if more than the added sessions could be missing.
    pub fn list_sessions(
        &self,
        scope: &Scope,
        filter: &SessionFilter,
        from: Option<&str>,
        limit: usize,
        findings: &mut Findings,
    ) -> Result<SessionPage> {
        let page = self.listed_page(scope, filter, from, limit, findings)?;
        Ok(shown(page))
    }

    /// The page of [`Self::list_sessions`].
    pub(super) fn listed_page(
        &self,
        scope: &Scope,
        filter: &SessionFilter,
        from: Option<&str>,
        limit: usize,
        findings: &mut Findings,
    ) -> Result<VerifiedPage> {
        self.add_known_damage(scope, findings)?;
        let before = self.position_of(scope, filter, from)?;
        let on_damage = &mut |failure| findings.add(failure);
        self.session_page(scope, filter, (before, limit), on_damage)
    }

    /// The position after which the page that a cursor names begins.
    fn position_of(
        &self,
        scope: &Scope,
        filter: &SessionFilter,
        from: Option<&str>,
    ) -> Result<Option<SessionOrder>> {
        let Some(from) = from else {
            return Ok(None);
        };
        let (updated_at, pk) = parse_session_cursor(from, filter.order)?;
        let (created_at, pk) = self.order_of(scope, pk)?;
        Ok(Some((updated_at.unwrap_or(created_at), pk)))
    }

    /// The position in lists by creation of the session with number `pk`, which a cursor names.
    ///
    /// # Errors
    /// `invalid` when the tenant has no such session; `integrity_error`.
    pub fn session_order(&self, scope: &Scope, pk: SessionPk) -> Result<SessionOrder> {
        self.check_listing(scope)?;
        self.order_of(scope, pk)
    }

    fn order_of(&self, scope: &Scope, pk: SessionPk) -> Result<SessionOrder> {
        // The session may belong to another identity, so only the operator gets its name (P6).
        let hide = |failure: Failure| match failure.code {
            ErrorCode::IntegrityError | ErrorCode::KeyMissing
                if scope.viewer != Viewer::Operator =>
            {
                Failure::new(failure.code, "the cursor's session cannot be verified")
            }
            _ => failure,
        };
        let stored = self.view.session_by_pk(pk).map_err(hide)?;
        let of_tenant = stored.filter(|stored| stored.row.tenant_id == scope.tenant);
        let stored = of_tenant.ok_or_else(|| invalid_cursor(&pk.to_string()))?;
        let order = stored.order(SessionSort::Created);
        self.verified_session(stored).map_err(hide)?;
        Ok(order)
    }

    /// As [`Self::sessions`], for the sessions that follow the position `before` in lists.
    ///
    /// # Errors
    /// `integrity_error`.
    pub fn sessions_before(
        &self,
        scope: &Scope,
        filter: &SessionFilter,
        before: Option<SessionOrder>,
        limit: usize,
    ) -> Result<SessionPage> {
        self.check_listing(scope)?;
        let page = self.session_page(scope, filter, (before, limit), &mut refuse)?;
        Ok(shown(page))
    }

    /// A page of sessions after a position. `on_damage` decides whether the page continues after a session that fails
    /// verification.
    fn session_page(
        &self,
        scope: &Scope,
        filter: &SessionFilter,
        (mut before, limit): (Option<SessionOrder>, usize),
        on_damage: &mut dyn FnMut(Failure) -> Result<()>,
    ) -> Result<VerifiedPage> {
        let (mut page, mut next, mut bytes) = (Vec::new(), None, 0);
        loop {
            let wanted = (limit - page.len()).saturating_add(1);
            let mut is_complete = true;
            for stored in self.view.sessions(scope, filter, before, wanted)? {
                if page.len() == limit || bytes >= RECORDS_BYTES {
                    return Ok((page, next));
                }
                before = Some(stored.order(filter.order));
                let content_len = stored.row.content_len();
                match self.verified_session(stored) {
                    Ok(loaded) => {
                        next = Some(session_cursor(&loaded, filter.order));
                        bytes += content_len;
                        page.push(loaded);
                    }
                    Err(failure) => {
                        on_damage(failure)?;
                        // Further rows replace those that are left out.
                        is_complete = false;
                    }
                }
            }
            if is_complete {
                return Ok((page, None));
            }
        }
    }

    /// One turn.
    ///
    /// # Errors
    /// `session_not_found`, `turn_not_found`, `turn_expired` where turns are trimmed, `turn_mismatch`,
    /// `integrity_error`.
    pub fn turn(&self, scope: &Scope, session: &SessionId, id: &TurnId) -> Result<Turn> {
        let Some(loaded) = self.find(scope, session)? else {
            return Err(self.absent_session_failure(scope, session, id)?);
        };
        let turn = || {
            let row = self
                .find_turn(&loaded, scope, id)?
                .ok_or_else(|| self.absent_turn_failure(&loaded, id))?;
            self.project(&loaded, &row)
        };
        in_session(session, turn())
    }

    /// A page of turns, by ordinal and version. It ends early when the turns reach [`RECORDS_BYTES`], but has at least
    /// one.
    ///
    /// # Errors
    /// `session_not_found`, `invalid` for a malformed cursor, `integrity_error`.
    pub fn turns(&self, scope: &Scope, session: &SessionId, query: &TurnQuery) -> Result<TurnPage> {
        let loaded = self.get(scope, session)?;
        in_session(session, self.turn_page(&loaded, query))
    }

    fn turn_page(&self, session: &VerifiedSession, query: &TurnQuery) -> Result<TurnPage> {
        let (rows, next) = match query.order {
            TurnOrder::Oldest => self.oldest_turns(session, query)?,
            TurnOrder::Newest => self.newest_turns(session, query)?,
        };
        let mut page = self.project_page(session, &rows)?;
        // The first turn that did not fit begins the next page.
        let next = rows
            .get(page.len())
            .map_or(next, |unread| Some(query.order.cursor_at(&unread.row)));
        if query.order == TurnOrder::Newest {
            page.reverse();
        }
        Ok((page, next))
    }

    /// Calls `visit` with every turn of a session by ordinal and version, including replaced and redacted ones.
    ///
    /// # Errors
    /// `integrity_error`, and those of `visit`.
    pub fn for_each_turn(
        &self,
        session: &VerifiedSession,
        mut visit: impl FnMut(Turn) -> Result<()>,
    ) -> Result<()> {
        let mut query = TurnQuery {
            include_redacted: true,
            order: TurnOrder::Oldest,
            limit: TURNS_PER_VISIT,
            ..TurnQuery::default()
        };
        loop {
            let (page, next) = self.turn_page(session, &query)?;
            for turn in page {
                visit(turn)?;
            }
            if next.is_none() {
                return Ok(());
            }
            query.cursor = next;
        }
    }

    /// A page of turns, oldest first, and the cursor of the next page.
    fn oldest_turns(
        &self,
        session: &VerifiedSession,
        query: &TurnQuery,
    ) -> Result<(Vec<ListedTurn>, Option<String>)> {
        let oldest = self.view.first_ordinal(session.pk)?;
        let from = parse_cursor(query.cursor.as_deref())?.unwrap_or(ALL_PLACES.0);
        let mut from = if from >> 8 < oldest {
            oldest << 8
        } else {
            from
        };
        // `ordinal` is the ordinal of the last turn before the page. If the cursor points between two versions of a
        // turn, it is this turn's ordinal.
        let mut ordinal = if from & 0xff == 0 {
            (from >> 8).saturating_sub(1)
        } else {
            from >> 8
        };
        // One more than the limit, to detect whether another page exists.
        let fetch_limit = query.limit.saturating_add(1);
        let mut page: Vec<ListedTurn> = Vec::new();
        loop {
            let rows = self
                .view
                .turns(session.pk, from, ALL_PLACES.1, false, fetch_limit)?;
            let exhausted = rows.len() <= query.limit;
            for row in rows {
                if row.ordinal > ordinal + 1 {
                    return Err(
                        session.integrity_failure(None, format!("turn {} is missing", ordinal + 1))
                    );
                }
                if let Some(last) = page.last_mut()
                    && last.row.place() + 1 == row.place()
                    && last.row.ordinal == row.ordinal
                {
                    self.check_turn_mac(session, &row)?;
                    last.replaced_by = Some(row.turn_id);
                }
                if page.len() == query.limit && query.matches(&row) {
                    return Ok((page, Some(query.order.cursor_at(&row))));
                }
                ordinal = row.ordinal;
                from = row.place() + 1;
                let row = self.verified_turn(session, row)?;
                if query.matches(&row) {
                    page.push(ListedTurn::new(row));
                }
            }
            if exhausted {
                if ordinal < session.head.turn_count {
                    return Err(
                        session.integrity_failure(None, format!("turn {} is missing", ordinal + 1))
                    );
                }
                self.check_all_turn_rows(session)?;
                return Ok((page, None));
            }
        }
    }

    /// A page of turns, newest first, and the cursor of the next page.
    fn newest_turns(
        &self,
        session: &VerifiedSession,
        query: &TurnQuery,
    ) -> Result<(Vec<ListedTurn>, Option<String>)> {
        let mut to = parse_cursor(query.cursor.as_deref())?.unwrap_or(ALL_PLACES.1);
        let mut ordinal = (to >> 8).min(session.head.turn_count) + 1;
        let fetch_limit = query.limit.saturating_add(1);
        let mut page: Vec<ListedTurn> = Vec::new();
        let mut next = None;
        'pages: loop {
            let rows = self
                .view
                .turns(session.pk, ALL_PLACES.0, to, true, fetch_limit)?;
            let exhausted = rows.len() <= query.limit;
            for row in rows {
                if row.ordinal + 1 < ordinal {
                    return Err(
                        session.integrity_failure(None, format!("turn {} is missing", ordinal - 1))
                    );
                }
                to = row.place().saturating_sub(1);
                if row.ordinal == ordinal {
                    // This row is an older version of the turn just examined.
                    continue;
                }
                ordinal = row.ordinal;
                let row = self.verified_turn(session, row)?;
                if !query.matches(&row) {
                    continue;
                }
                if page.len() == query.limit {
                    next = Some(query.order.cursor_at(&row));
                    break 'pages;
                }
                page.push(ListedTurn::new(row));
            }
            if exhausted {
                if ordinal > self.view.first_ordinal(session.pk)? {
                    return Err(
                        session.integrity_failure(None, format!("turn {} is missing", ordinal - 1))
                    );
                }
                self.check_all_turn_rows(session)?;
                break;
            }
        }
        Ok((page, next))
    }

    /// Checks that no turn row is missing, including replaced ones; call it after reading all turns.
    ///
    /// # Errors
    /// `integrity_error`.
    pub fn check_all_turn_rows(&self, session: &VerifiedSession) -> Result<()> {
        if self.view.turn_row_count(session.pk)? == session.head.turn_rows {
            return Ok(());
        }
        Err(session.integrity_failure(None, "turns are missing or were added"))
    }
}
