//! The actions allowed to a user's statements: queries, and tables and views in memory. Nothing may write a file.
//!
//! SQLite asks an authorizer about every action of a statement during preparation. The authorizer also sees which tables a statement reads,
//! wherever they are named: in a view, a subquery, a common table expression.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};

use super::{Database, VIEWS, absent};
use crate::error::Error;

/// Pragmas that may take a value: those that only report something, and the one for the case of LIKE. Others may only be read.
const PRAGMAS: &[&str] = &[
    "case_sensitive_like",
    "collation_list",
    "compile_options",
    "database_list",
    "foreign_key_list",
    "function_list",
    "index_info",
    "index_list",
    "index_xinfo",
    "integrity_check",
    "module_list",
    "pragma_list",
    "quick_check",
    "table_info",
    "table_list",
    "table_xinfo",
];

/// The authorizer's observations since the last [`Watch::take`].
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The reason why a statement was refused.
    pub refused: Option<String>,
    /// The absent tables that statements read; they are empty in every trace.
    pub absent: BTreeSet<String>,
}

/// The authorizer of a restricted database, shared with its caller.
#[derive(Debug, Default, Clone)]
pub struct Watch(Arc<Mutex<Seen>>);

impl Watch {
    /// Takes the observations since the last call.
    pub fn take(&self) -> Seen {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn authorize(&self, action: &AuthAction<'_>) -> Authorization {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let AuthAction::Read { table_name, .. } = action
            && absent::is_absent(table_name)
        {
            seen.absent.insert((*table_name).to_owned());
        }
        match refusal(action) {
            None => Authorization::Allow,
            Some(reason) => {
                seen.refused = Some(reason);
                Authorization::Deny
            }
        }
    }
}

/// Why a statement that writes a file is refused.
pub const NO_FILES: &str =
    "ATTACH, DETACH and VACUUM INTO are refused: statements here read the trace and write no files";

/// Why an action is refused.
fn refusal(action: &AuthAction<'_>) -> Option<String> {
    match action {
        AuthAction::Attach { .. } | AuthAction::Detach { .. } => Some(NO_FILES.to_owned()),
        AuthAction::Function { function_name } if function_name.eq_ignore_ascii_case("load_extension") => {
            Some("load_extension is refused: no code is loaded here".to_owned())
        }
        AuthAction::Pragma { pragma_name, pragma_value: Some(_) }
            if !PRAGMAS.iter().any(|known| pragma_name.eq_ignore_ascii_case(known)) =>
        {
            Some(format!("PRAGMA {pragma_name} may be read here, not set"))
        }
        AuthAction::DropView { view_name } if VIEWS.iter().any(|known| view_name.eq_ignore_ascii_case(known)) => {
            Some(format!("{view_name} belongs to the trace and cannot be dropped"))
        }
        _ => None,
    }
}

impl Database {
    /// Restricts statements from now on to queries, and to creating tables and views in memory.
    pub fn restrict(&mut self) -> Result<Watch, Error> {
        let watch = Watch::default();
        let authorizer = watch.clone();
        self.connection.authorizer(Some(move |context: AuthContext<'_>| authorizer.authorize(&context.action)))?;
        Ok(watch)
    }
}
