//! What was recorded, in forms for people.

pub mod flows;
