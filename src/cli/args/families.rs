//! The name of a family as an argument: any text, because users may define families. Shells complete the built-in names.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Command, Error};

use crate::attribution::selection::ALL_FAMILIES;
use crate::names::families::FAMILIES;

/// Accepts any name. Clap's own list of possible values would refuse users' families.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FamilyName;

impl TypedValueParser for FamilyName {
    type Value = String;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let all = PossibleValue::new(ALL_FAMILIES).help("all of these");
        let known = FAMILIES.iter().map(|family| PossibleValue::new(family.name).help(family.about));
        Some(Box::new(known.chain([all])))
    }
}
