//! The choice of kernels: patterns and families of names.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use regex::bytes::{RegexSet, RegexSetBuilder};

use crate::error::Error;
use crate::names::communication::own_name_says_collective;
use crate::names::families::{FAMILIES, Family, NCCL_FAMILIES, may_be_of_any};
use crate::store::strings::StringId;
use crate::store::{Name, Store};

/// A name pattern from a user, for kernels and functions alike.
///
/// `*` and `%` match any text and `?` any character, and then the whole name must match; with `%`, as in SQL, case is ignored. `/…/` is a regular
/// expression that may match anywhere in the name. Plain text matches names that begin with it, so that `ncclDevKernel_AllReduce` finds all variants.
#[derive(Debug, Clone)]
pub struct Pattern {
    text: String,
    regex: Option<Regex>,
}

impl Pattern {
    /// Parses a pattern.
    /// Errors: if the pattern is empty, or the regular expression invalid.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let bad = |message: String| Error::BadPattern { pattern: text.to_owned(), message };
        let regex = if text.is_empty() || text == "//" {
            return Err(Error::EmptyPattern);
        } else if let Some(inner) = text.strip_prefix('/').and_then(|rest| rest.strip_suffix('/')) {
            Some(Regex::new(inner).map_err(|e| bad(format!("not a regular expression: {e}")))?)
        } else if text.contains(['*', '%', '?']) {
            let glob = regex::escape(text).replace(r"\*", ".*").replace('%', ".*").replace(r"\?", ".");
            let flags = if text.contains('%') { "si" } else { "s" };
            Some(Regex::new(&format!("(?{flags})^{glob}$")).map_err(|e| bad(e.to_string()))?)
        } else {
            None
        };
        Ok(Pattern { text: text.to_owned(), regex })
    }

    /// The text of a pattern that fits this name, also with more after one of `ends`, and none of the `others`.
    pub fn for_name<'n>(name: &str, ends: &str, mut others: impl Iterator<Item = &'n str>) -> String {
        let is_plain = !name.contains(['*', '%', '?']) && !name.starts_with('/');
        if is_plain && !others.any(|other| other != name && other.starts_with(name)) {
            return name.to_owned();
        }
        let end = if ends.is_empty() { "$".to_owned() } else { format!("($|[{ends}])") };
        format!("/^{}{end}/", regex::escape(name))
    }

    /// Whether it is plain text.
    pub fn is_plain(&self) -> bool {
        self.regex.is_none()
    }

    /// The pattern as typed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether a kernel's name matches. Names contain `*` themselves (`…(ncclDevComm*, …)`), so a name that begins with the pattern as typed
    /// always matches.
    pub fn fits(&self, name: &str) -> bool {
        name.starts_with(&self.text) || self.regex.as_ref().is_some_and(|regex| regex.is_match(name))
    }
}

/// The kernels asked for; by default none.
#[derive(Debug, Default)]
pub struct Wanted {
    patterns: Vec<Pattern>,
    families: Families,
    /// The patterns of the user's own families, asked for or not.
    own: Vec<Pattern>,
}

/// The built-in families asked for.
#[derive(Debug, Default)]
enum Families {
    #[default]
    None,
    All,
    Some(Names),
}

/// The family that contains all others; the default.
pub const ALL_FAMILIES: &str = "all-collectives";

impl Wanted {
    /// Kernels that match any pattern or family; without both, the kernels of all families. `own` has the user's families by name, which take
    /// precedence over built-in ones.
    pub fn parse(patterns: &[String], families: &[String], own: &OwnFamilies) -> Result<Self, Error> {
        let mut wanted = Wanted { own: own.0.values().flatten().cloned().collect(), ..Wanted::default() };
        for pattern in patterns {
            wanted.patterns.push(Pattern::parse(pattern)?);
        }
        let defaults = [ALL_FAMILIES.to_owned()];
        let families = if patterns.is_empty() && families.is_empty() { &defaults } else { families };
        let mut known: Vec<&'static Family> = Vec::new();
        for name in families {
            if let Some(patterns) = own.0.get(name) {
                wanted.patterns.extend(patterns.iter().cloned());
                continue;
            }
            if name == ALL_FAMILIES {
                wanted.patterns.extend(own.0.values().flatten().cloned());
                wanted.families = Families::All;
                continue;
            }
            let Some(family) = FAMILIES.iter().find(|family| family.name == name) else {
                return Err(Error::NoSuchFamily { name: name.clone(), known: own.known().join(", ") });
            };
            known.push(family);
        }
        if !known.is_empty() && !matches!(wanted.families, Families::All) {
            wanted.families = Families::Some(Names::compile(known.into_iter()));
        }
        Ok(wanted)
    }

    /// Whether all collectives are asked for, because no pattern or family narrows or widens the choice.
    pub(crate) fn is_all(&self) -> bool {
        self.patterns.is_empty() && matches!(self.families, Families::All)
    }

    /// Whether a pattern means this kernel. A pattern of wildcards only means any.
    pub(crate) fn names(&self, name: &str) -> bool {
        let is_specific = |pattern: &&Pattern| pattern.text.contains(char::is_alphanumeric);
        self.patterns.iter().filter(is_specific).any(|pattern| pattern.fits(name))
    }

    /// The kernels of all families.
    pub fn collectives() -> Self {
        Wanted { families: Families::All, ..Wanted::default() }
    }

    /// Kernels that match any [`Pattern`]; without patterns, the kernels of all families.
    pub fn patterns(patterns: &[&str]) -> Result<Self, Error> {
        let patterns: Vec<String> = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
        Wanted::parse(&patterns, &[], &OwnFamilies::default())
    }

    /// Whether a kernel of this name is asked for.
    pub fn fits(&self, name: &str) -> bool {
        self.fits_beyond_families(name) || matches!(self.families, Families::All) && is_of_a_family(name)
    }

    /// Whether it is asked for by anything other than a built-in family.
    fn fits_beyond_families(&self, name: &str) -> bool {
        self.patterns.iter().any(|pattern| pattern.fits(name))
            || matches!(&self.families, Families::Some(names) if names.fit(name))
    }
}

/// Whether a kernel belongs to a built-in family of collectives.
pub(crate) fn is_of_a_family(name: &str) -> bool {
    may_be_of_any(name) && families_of(name).any(Family::only_communicates)
}

/// The first built-in family of a kernel, in the order of [`FAMILIES`].
pub(crate) fn family_of(name: &str) -> Option<&'static Family> {
    if may_be_of_any(name) { families_of(name).next() } else { None }
}

/// The first built-in family of a name of a trace's kernels.
pub(crate) fn family_in(store: &Store, name: &Name) -> Option<&'static Family> {
    if name.may_be_of_family { families_of(store.strings.get(name.id).unwrap_or_default()).next() } else { None }
}

/// The built-in families of a kernel. Lazy: most traces have NCCL's or RCCL's kernels alone, and compiling the others takes longer than many traces.
fn families_of(name: &str) -> impl Iterator<Item = &'static Family> {
    static NCCL: LazyLock<Names> = LazyLock::new(|| Names::compile(FAMILIES.iter().take(NCCL_FAMILIES)));
    static OTHERS: LazyLock<Names> = LazyLock::new(|| Names::compile(FAMILIES.iter().skip(NCCL_FAMILIES)));
    [&NCCL, &OTHERS].into_iter().flat_map(|names| names.families(name))
}

/// By name: whether its kernels move data between GPUs. These are the kernels of the families, and chosen kernels whose name indicates it. All
/// other kernels compute.
pub fn collectives(store: &Store, wanted: &Wanted) -> Vec<bool> {
    let mut is_collective = vec![false; store.strings.len()];
    for name in store.names.iter().filter(|name| name.of_kernel) {
        let text = store.strings.get(name.id).unwrap_or_default();
        is_collective[name.id.0 as usize] = name.may_be_of_family && is_of_a_family(text)
            || wanted.fits_beyond_families(text) && own_name_says_collective(text)
            || wanted.own.iter().any(|pattern| pattern.fits(text));
    }
    is_collective
}

/// The families that a user defines.
#[derive(Debug, Clone, Default)]
pub struct OwnFamilies(BTreeMap<String, Vec<Pattern>>);

impl OwnFamilies {
    /// Parses families: `{"mine": ["myAllReduce", "/reduce.*ring/"]}`, each a list of [`Pattern`]s. Messages call the input `file`.
    pub fn parse(&mut self, file: &str, text: &str) -> Result<(), Error> {
        let bad = |message: String| Error::BadFamilies { name: file.to_owned(), message };
        let families: BTreeMap<String, Vec<String>> = serde_json::from_str(text).map_err(|e| bad(e.to_string()))?;
        for (name, patterns) in families {
            for pattern in &patterns {
                self.add(&name, pattern).map_err(|e| bad(e.to_string()))?;
            }
            self.0.entry(name).or_default();
        }
        Ok(())
    }

    /// Adds a pattern to a family, which is created if it does not exist.
    fn add(&mut self, family: &str, pattern: &str) -> Result<(), Error> {
        if family == ALL_FAMILIES || FAMILIES.iter().any(|known| known.name == family) {
            return Err(Error::FamilyBuiltIn { name: family.to_owned() });
        }
        let pattern = Pattern::parse(pattern)?;
        self.0.entry(family.to_owned()).or_default().push(pattern);
        Ok(())
    }

    fn known(&self) -> Vec<&str> {
        let known = FAMILIES.iter().map(|family| family.name).chain([ALL_FAMILIES]);
        self.0.keys().map(String::as_str).chain(known).collect()
    }
}

/// The kernel names of some families.
#[derive(Debug)]
struct Names {
    expressions: RegexSet,
    /// By expression.
    families: Vec<&'static Family>,
}

impl Names {
    /// The names of built-in families.
    fn compile(families: impl Iterator<Item = &'static Family>) -> Self {
        let each = families.flat_map(|family| family.expressions().into_iter().map(move |text| (text, family)));
        let (expressions, families): (Vec<String>, _) = each.unzip();
        // Without Unicode tables the expressions compile in a tenth of the time.
        let set = RegexSetBuilder::new(expressions).unicode(false).build();
        Names { expressions: set.expect("the expressions of all families are compiled in a test"), families }
    }

    /// Whether a name belongs to one of the families.
    fn fit(&self, name: &str) -> bool {
        self.expressions.is_match(name.as_bytes())
    }

    /// The families that a name belongs to, in their order.
    fn families(&self, name: &str) -> impl Iterator<Item = &'static Family> {
        let found = self.expressions.matches(name.as_bytes());
        let mut families: Vec<&'static Family> = found.iter().map(|at| self.families[at]).collect();
        families.dedup_by_key(|family| family.name);
        families.into_iter()
    }
}

/// The kernel names in the trace that are asked for.
pub fn choose(store: &Store, wanted: &Wanted) -> Vec<StringId> {
    let is_asked = |name: &&Name| {
        let text = store.strings.get(name.id).unwrap_or_default();
        if name.may_be_of_family { wanted.fits(text) } else { wanted.fits_beyond_families(text) }
    };
    store.names.iter().filter(|name| name.of_kernel).filter(is_asked).map(|name| name.id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_for_a_name_fits_no_other() {
        let names = ["aten::t", "aten::transpose", "aten::mm", "operator*", "void scan", "void scan_by_key"];
        for (name, ends, text) in [
            ("aten::mm", "", "aten::mm"),
            ("aten::t", "", "/^aten::t$/"),
            ("operator*", "", r"/^operator\*$/"),
            ("void scan", "(<", "/^void scan($|[(<])/"),
        ] {
            let pattern = Pattern::for_name(name, ends, names.into_iter());
            assert_eq!(pattern, text);
            let pattern = Pattern::parse(&pattern).unwrap();
            assert!(names.iter().all(|other| pattern.fits(other) == (*other == name)), "{text}");
            assert!(ends.is_empty() || pattern.fits(&format!("{name}<float>(int)")), "{text}");
        }
    }

    #[test]
    fn patterns_fit_as_people_expect() {
        let all_reduce = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
        let generic = "ncclDevKernel_Generic(ncclDevComm*, channelMasks, ncclWork*)";
        for (pattern, fits_all_reduce, fits_generic) in [
            ("ncclDevKernel_AllReduce", true, false),
            ("ncclDevKernel", true, true),
            ("AllReduce", false, false),
            ("*AllReduce*", true, false),
            ("%AllReduce%", true, false),
            ("nccl%Generic*", false, true),
            ("%allreduce%ring%", true, false),
            ("*allreduce*", false, false),
            ("%AllReduce", false, false),
            ("nccl*Ring*", false, false),
            ("ncclDevKernel_?eneric*", false, true),
            (generic, false, true),
            (all_reduce, true, false),
            ("ncclDevKernel_Generic(ncclDevComm*, ch", false, true),
            ("/(?i)allreduce.*ring/", true, false),
            ("/^nccl.*Work/", false, true),
        ] {
            let compiled = Pattern::parse(pattern).unwrap();
            assert_eq!(
                (compiled.fits(all_reduce), compiled.fits(generic)),
                (fits_all_reduce, fits_generic),
                "{pattern}"
            );
        }
        assert!(Pattern::parse("/(/").unwrap_err().to_string().contains("not a regular expression"));
        assert!(Pattern::parse("//").unwrap_err().to_string().contains("empty"));
        assert!(Pattern::parse("").unwrap_err().to_string().contains("empty"));
    }

    #[test]
    fn families_are_known_or_made() {
        let wanted = |patterns: &[&str], families: &[&str], own: &OwnFamilies| {
            let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
            Wanted::parse(&texts(patterns), &texts(families), own)
        };
        let custom = "void sglang::cross_device_reduce_1stage<__nv_bfloat16, 4>(sglang::RankData*)";
        let none = OwnFamilies::default();
        for family in FAMILIES {
            Names::compile([family].into_iter());
        }
        let default = wanted(&[], &[], &none).unwrap();
        assert!(default.fits("ncclDevKernel_AllReduce") && default.fits("mscclKernel_Sum") && default.fits(custom));
        assert!(!default.fits("void at::native::reduce_kernel<512, 1>()"));
        assert!(!wanted(&[], &["nccl", "rccl"], &none).unwrap().fits(custom));
        assert!(wanted(&[], &["custom-allreduce"], &none).unwrap().fits(custom));
        assert!(!wanted(&[], &["custom-allreduce"], &none).unwrap().fits("ncclDevKernel_AllReduce"));
        assert!(wanted(&["ncclDev"], &["custom-allreduce"], &none).unwrap().fits("ncclDevKernel_AllReduce"));
        assert!(wanted(&[], &[ALL_FAMILIES], &none).unwrap().fits(custom));
        let error = wanted(&[], &["mine"], &none).unwrap_err().to_string();
        assert!(error.contains("mine") && error.contains("deepep"), "{error}");
        let mut own = OwnFamilies::default();
        own.parse("f.json", r#"{"mine": ["my*Reduce", "/(?i)ring/"]}"#).unwrap();
        let mine = wanted(&[], &["mine"], &own).unwrap();
        assert!(mine.fits("myAllReduce") && mine.fits("a_RING") && !mine.fits("ncclDevKernel_AllReduce"));
        assert!(wanted(&[], &[ALL_FAMILIES], &own).unwrap().fits("a_RING"));
        for (text, message) in [("{\"a\": [\"/(/\"]}", "not a regular expression"), ("[]", "invalid type")] {
            let error = own.parse("f.json", text).unwrap_err().to_string();
            assert!(error.contains("f.json") && error.contains(message), "{error}");
        }
    }
}
