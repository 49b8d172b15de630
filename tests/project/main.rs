//! Rules about the project itself. Uses no module of `tests/support/`, so it builds fast.

mod commands;
mod dependencies;
mod formats;
mod guards;
