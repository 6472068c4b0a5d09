//! The permissions of each role: one table, which services enforce and `docs/access.md` shows.

use crate::api_keys::Role;

/// The caller's role: the role of its key or token, or `Local` on a server without keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallerRole {
    /// The role that a key or token gives.
    Role(Role),
    /// Any caller of a server without keys.
    Local,
}

impl CallerRole {
    /// The column of the table below: the roles in the order of [`Role`], then callers without keys.
    const fn column(self) -> usize {
        match self {
            Self::Role(role) => role as usize,
            Self::Local => Role::ALL.len(),
        }
    }

    /// Whether this caller sees the entire tenant when it acts for no end user.
    pub(super) const fn sees_entire_tenant(self) -> bool {
        matches!(self, Self::Role(Role::Auditor | Role::Admin))
    }

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Role(role) => role.as_str(),
            Self::Local => "local",
        }
    }
}

/// Whether a role has a permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grant {
    No,
    Yes,
    /// The role has the permission only without `Filrouge-Identity`: it must not act for an end user.
    WithoutIdentity,
}

/// A permission as a type, so that a route can refuse a request before it reads the body.
pub trait PermissionType: Send + Sync + 'static {
    /// The permission.
    const PERMISSION: Permission;
}

macro_rules! permissions {
    ($($name:ident $word:literal $covers:literal $service:ident $user:ident $auditor:ident $admin:ident $local:ident;)+) => {
        /// A permission that a request may need.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Permission {
            $(#[doc = $covers] $name),+
        }

        impl Permission {
            #[cfg(test)]
            const ALL: &'static [Self] = &[$(Self::$name),+];

            const fn row(self) -> [Grant; 5] {
                match self {
                    $(Self::$name => [Grant::$service, Grant::$user, Grant::$auditor, Grant::$admin, Grant::$local]),+
                }
            }

            /// The permission's name.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word),+ }
            }

            #[cfg(test)]
            const fn covers(self) -> &'static str {
                match self { $(Self::$name => $covers),+ }
            }
        }

        /// The permissions as types.
        pub mod may {
            $(
                #[doc = $covers]
                #[derive(Debug)]
                pub struct $name;
                impl super::PermissionType for $name {
                    const PERMISSION: super::Permission = super::Permission::$name;
                }
            )+
        }
    };
}

permissions! {
    //                                                                              service user auditor admin local
    Read "read" "sessions, turns, items, contexts, exports, searches, lineage, events, one session's verification" Yes Yes Yes Yes Yes;
    Write "write" "create, change and close sessions; start, append, finalize, fail, cancel, replace; post events" Yes Yes No Yes Yes;
    Redact "redact" "erase contents of turns and items; the redaction stays recorded" Yes Yes No Yes Yes;
    Erase "erase" "delete a session" Yes Yes No Yes Yes;
    Link "link" "link an anonymous session to its owner" Yes Yes No Yes Yes;
    IncludeRedacted "include_redacted" "list redacted turns, without their contents" No No WithoutIdentity WithoutIdentity WithoutIdentity;
    ReadTenant "read_tenant" "data of all identities: the entire change feed, turns of any identity; an end user sees only their own" WithoutIdentity No WithoutIdentity WithoutIdentity WithoutIdentity;
    Audit "audit" "who said and did what in all sessions" No No WithoutIdentity WithoutIdentity WithoutIdentity;
    Observe "observe" "metrics, and the reasons when `/readyz` is degraded" No No WithoutIdentity WithoutIdentity WithoutIdentity;
    Administer "administer" "key figures and technical status of the tenant" No No No WithoutIdentity WithoutIdentity;
}

/// The reason why a permission is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PermissionRefusal {
    /// The role does not have it.
    Role,
    /// The role has it, but not on behalf of an end user.
    ForIdentity,
}

impl Permission {
    /// Checks whether `role` has the permission; `for_identity` says whether it acts for an end user.
    pub(super) const fn check(
        self,
        role: CallerRole,
        for_identity: bool,
    ) -> Result<(), PermissionRefusal> {
        match self.row()[role.column()] {
            Grant::Yes => Ok(()),
            Grant::WithoutIdentity if !for_identity => Ok(()),
            Grant::WithoutIdentity => Err(PermissionRefusal::ForIdentity),
            Grant::No => Err(PermissionRefusal::Role),
        }
    }

    /// Whether the permission concerns the entire tenant rather than the sessions that the caller sees.
    pub(super) const fn spans_identities(self) -> bool {
        let [.., local] = self.row();
        matches!(local, Grant::WithoutIdentity)
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::path::Path;

    use super::*;

    fn documented_table() -> String {
        let mut table = String::from(
            "| permission | covers | service | user | auditor | admin | no keys |\n|---|---|---|---|---|---|---|\n",
        );
        for permission in Permission::ALL {
            let word = permission.as_str();
            write!(table, "| `{word}` | {} |", permission.covers()).unwrap();
            for grant in permission.row() {
                table.push_str(match grant {
                    Grant::No => " – |",
                    Grant::Yes => " yes |",
                    Grant::WithoutIdentity => " alone |",
                });
            }
            table.push('\n');
        }
        table
    }

    #[test]
    fn the_document_shows_the_table_that_is_enforced() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/access.md");
        let text = std::fs::read_to_string(path).unwrap();
        let expected = documented_table();
        assert!(
            text.contains(&expected),
            "docs/access.md must hold this table:\n{expected}"
        );
    }

    #[test]
    fn auditors_change_nothing_and_end_users_never_see_across_identities() {
        let changes = [
            Permission::Write,
            Permission::Redact,
            Permission::Erase,
            Permission::Link,
        ];
        // `Administer` changes nothing, but concerns the service's operation rather than the recorded conversations.
        let denied_to_auditors =
            |permission| changes.contains(permission) || *permission == Permission::Administer;
        for permission in Permission::ALL {
            let auditor = permission.check(CallerRole::Role(Role::Auditor), false);
            assert_eq!(
                auditor.is_err(),
                denied_to_auditors(permission),
                "{permission:?}"
            );
            let admin = permission.check(CallerRole::Role(Role::Admin), false);
            assert_eq!(admin, Ok(()), "{permission:?}");
            if permission.spans_identities() {
                assert!(
                    permission
                        .check(CallerRole::Role(Role::User), true)
                        .is_err()
                );
                assert!(
                    permission
                        .check(CallerRole::Role(Role::User), false)
                        .is_err()
                );
                for role in Role::ALL {
                    assert!(permission.check(CallerRole::Role(role), true).is_err());
                }
                assert_eq!(
                    permission.check(CallerRole::Local, true),
                    Err(PermissionRefusal::ForIdentity)
                );
            }
        }
    }
}
