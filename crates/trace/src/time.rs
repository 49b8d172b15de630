//! Nanoseconds ([`Ns`]): parsing them from traces and from user input, and the half-open [`Window`].
//!
//! Inside the program every time is a whole number of nanoseconds. Trace files write microseconds with decimals, and times since the epoch have
//! more digits than a double (which near 1.7e15 µs steps by 0.25 µs), so text is converted digit by digit. The one exception is
//! [`TimeRule::Perfetto`], which repeats Perfetto's arithmetic for comparison.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};

/// A time on the trace's clock, or a duration, in nanoseconds. Sums and differences saturate, because hostile traces have times near the
/// limits of 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Ns(pub i64);

impl Ns {
    /// The origin of the clock, or no time at all.
    pub const ZERO: Ns = Ns(0);

    pub const MIN: Ns = Ns(i64::MIN);

    pub const MAX: Ns = Ns(i64::MAX);

    /// The latest time that an event of a trace may have: in the year 2116, if times are since 1970.
    pub const LATEST: Ns = Ns(1 << 62);

    /// The whole number nearest to a mean or a median.
    pub fn rounded(nanos: f64) -> Self {
        Ns(nanos.round() as i64)
    }

    /// As a float, for means and shares; exact up to 104 days.
    #[inline]
    pub fn as_f64(self) -> f64 {
        self.0 as f64
    }

    /// As a share of a whole; `None` if the whole has no length.
    pub fn share_of(self, whole: Ns) -> Option<f64> {
        (whole > Ns::ZERO).then(|| self.as_f64() / whole.as_f64())
    }
}

impl Add for Ns {
    type Output = Ns;

    #[inline]
    fn add(self, other: Ns) -> Ns {
        Ns(self.0.saturating_add(other.0))
    }
}

impl Sub for Ns {
    type Output = Ns;

    #[inline]
    fn sub(self, other: Ns) -> Ns {
        Ns(self.0.saturating_sub(other.0))
    }
}

impl AddAssign for Ns {
    #[inline]
    fn add_assign(&mut self, other: Ns) {
        *self = *self + other;
    }
}

impl Sum for Ns {
    fn sum<I: Iterator<Item = Ns>>(times: I) -> Ns {
        times.fold(Ns::ZERO, Add::add)
    }
}

impl From<Ns> for i64 {
    #[inline]
    fn from(time: Ns) -> i64 {
        time.0
    }
}

/// The bare number, as flags and machine-readable tables use it.
impl fmt::Display for Ns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How the times of a JSON trace, usually microseconds, become integer nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TimeRule {
    /// Microseconds: the exact decimal value, rounded half away from zero below one nanosecond.
    #[default]
    Exact,
    /// Already nanoseconds, as XSigma's XPlane exporter writes them: rounded half away from zero.
    Nanoseconds,
    /// Perfetto's arithmetic for microseconds: a double, times 1000, `llround`. Off by up to 256 ns on epoch timestamps; useful only for
    /// bit-for-bit comparison with trace_processor.
    Perfetto,
}

impl TimeRule {
    /// Converts the file's time `digits / 10^decimals` to nanoseconds. `None` if it has to be parsed as text.
    #[inline]
    pub fn digits_to_nanos(self, digits: i64, decimals: u8) -> Option<Ns> {
        const POWERS: [i64; 4] = [1000, 100, 10, 1];
        match self {
            TimeRule::Exact => digits.checked_mul(*POWERS.get(usize::from(decimals))?).map(Ns),
            TimeRule::Nanoseconds => (decimals == 0).then_some(Ns(digits)),
            TimeRule::Perfetto => None,
        }
    }

    /// Converts a JSON number, a time of the file, to nanoseconds. `None` if it is not a JSON number or does not fit.
    pub fn text_to_nanos(self, text: &[u8]) -> Option<Ns> {
        let nanos = match self {
            TimeRule::Exact => scaled_decimal(text, 3),
            TimeRule::Nanoseconds => scaled_decimal(text, 0),
            TimeRule::Perfetto => perfetto_micros_to_nanos(text),
        };
        nanos.map(Ns)
    }
}

/// The value of a JSON number (RFC 8259) times `10^scale`, rounded half away from zero. `None` for others, or beyond an `i64`.
pub fn scaled_decimal(text: &[u8], scale: i32) -> Option<i64> {
    short_decimal(text, scale).or_else(|| any_decimal(text, scale))
}

/// The common case: at most `scale` digits after the point and 18 in all. `None` for everything else, valid or not.
#[inline]
fn short_decimal(text: &[u8], scale: i32) -> Option<i64> {
    const POWERS: [i64; 10] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000];
    let (mut value, mut point) = (0i64, None);
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'0'..=b'9' => value = value.wrapping_mul(10).wrapping_add(i64::from(byte - b'0')),
            b'.' if point.is_none() => point = Some(at),
            _ => return None,
        }
    }
    let (whole, fraction) = match point {
        Some(at) if at + 1 < text.len() => (at, text.len() - at - 1),
        Some(_) => return None,
        None => (text.len(), 0),
    };
    let missing = usize::try_from(scale).ok()?.checked_sub(fraction)?;
    let valid = whole > 0 && (whole == 1 || text[0] != b'0') && whole + fraction <= 18;
    // Beyond 18 digits the sum above may have wrapped.
    if valid { value.checked_mul(*POWERS.get(missing)?) } else { None }
}

fn any_decimal(text: &[u8], scale: i32) -> Option<i64> {
    let number = Decimal::parse(text)?;
    let shift = number.exponent.checked_add(scale)?.checked_sub(i32::try_from(number.fraction.len()).ok()?)?;
    let mut digits = number.integer.iter().chain(number.fraction).skip_while(|digit| **digit == b'0');
    // This many digits count. Only the first of the following digits matters, for rounding.
    let counting = i64::try_from(digits.clone().count()).ok()? + i64::from(shift);
    let mut value: i128 = 0;
    for digit in digits.by_ref().take(usize::try_from(counting).unwrap_or(0)) {
        value = value.checked_mul(10)?.checked_add(i128::from(digit - b'0'))?;
    }
    if value != 0 {
        for _ in 0..shift.max(0) {
            value = value.checked_mul(10)?;
        }
    }
    let rounds_up = counting >= 0 && digits.next().is_some_and(|digit| *digit >= b'5');
    value += i128::from(rounds_up);
    i64::try_from(if number.negative { -value } else { value }).ok()
}

/// Whether a text is a number by JSON's grammar.
pub fn is_number(text: &[u8]) -> bool {
    Decimal::parse(text).is_some()
}

/// The parts of a JSON number, split but not yet valued.
struct Decimal<'a> {
    negative: bool,
    integer: &'a [u8],
    fraction: &'a [u8],
    exponent: i32,
    is_integer: bool,
}

impl<'a> Decimal<'a> {
    fn parse(text: &'a [u8]) -> Option<Self> {
        let (negative, rest) = match text.strip_prefix(b"-") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (integer, rest) = digits(rest);
        if integer.is_empty() || (integer.len() > 1 && integer[0] == b'0') {
            return None;
        }
        let (fraction, rest) = match rest.strip_prefix(b".").map(digits) {
            Some((b"", _)) => return None,
            Some(found) => found,
            None => (&rest[..0], rest),
        };
        let is_integer = fraction.is_empty() && rest.is_empty();
        let exponent = match rest {
            [] => 0,
            [b'e' | b'E', rest @ ..] => {
                let (minus, rest) = match rest {
                    [b'-', rest @ ..] => (true, rest),
                    [b'+', rest @ ..] => (false, rest),
                    _ => (false, rest),
                };
                let (digits, rest) = digits(rest);
                if digits.is_empty() || !rest.is_empty() {
                    return None;
                }
                // A longer exponent means zero or infinity; 100,000 is far beyond either end of an i64.
                let value = digits.iter().fold(0i32, |sum, d| (sum * 10 + i32::from(d - b'0')).min(100_000));
                if minus { -value } else { value }
            }
            _ => return None,
        };
        Some(Decimal { negative, integer, fraction, exponent, is_integer })
    }
}

fn digits(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|b| !b.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

/// Perfetto's number parser followed by its conversion: integers exactly, anything else through a double (the integer part plus the
/// fraction's digits over a power of ten), times 1000, rounded half away from zero.
fn perfetto_micros_to_nanos(text: &[u8]) -> Option<i64> {
    let number = Decimal::parse(text)?;
    let wrapped =
        |digits: &[u8]| digits.iter().fold(0i64, |sum, d| sum.wrapping_mul(10).wrapping_add(i64::from(d - b'0')));
    if number.is_integer && number.integer.len() <= 18 {
        let value = wrapped(number.integer);
        return if number.negative { -value } else { value }.checked_mul(1000);
    }
    let mut value = wrapped(number.integer) as f64;
    if !number.fraction.is_empty() {
        value += wrapped(number.fraction) as f64 / 10f64.powi(number.fraction.len() as i32);
    }
    if number.exponent < 0 {
        value /= 10f64.powi(-number.exponent);
    } else {
        value *= 10f64.powi(number.exponent);
    }
    if number.negative {
        value = -value;
    }
    if value.abs() > 9.2e15 {
        return None;
    }
    if value.fract() == 0.0 {
        return (value as i64).checked_mul(1000);
    }
    Some((value * 1000.0).round() as i64)
}

/// A half-open span of trace time `[start, end)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Window {
    /// First nanosecond inside.
    #[serde(rename = "start_ns")]
    pub start: Ns,
    /// First nanosecond after the window.
    #[serde(rename = "end_ns")]
    pub end: Ns,
}

impl Window {
    /// The window that holds every possible time.
    pub const ALL: Window = Window { start: Ns::MIN, end: Ns::MAX };

    /// A window from a start and a duration; saturates at the ends of time.
    pub fn new(start: Ns, duration: Ns) -> Self {
        Window { start, end: start + duration.max(Ns::ZERO) }
    }

    pub fn duration(self) -> Ns {
        self.end - self.start
    }

    /// The shortest window that has both.
    #[must_use]
    pub fn around(self, other: Window) -> Self {
        Window { start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    /// Whether both have a time in common.
    pub fn overlaps(self, other: Window) -> bool {
        self.start < other.end && other.start < self.end
    }

    /// The part of it in another, since the start of that one.
    #[must_use]
    pub fn within(self, whole: Window) -> Self {
        Window { start: self.start.max(whole.start) - whole.start, end: self.end.min(whole.end) - whole.start }
    }

    /// Whether a time is inside: the start is, the end is not.
    pub fn contains(self, ts: Ns) -> bool {
        self.start <= ts && ts < self.end
    }
}

/// Parses a time or length as a user types it: `77500000`, `77_500_000`, `77.5ms`, `1.5s`, `250us`, `10ns`. A bare
/// number is nanoseconds. The error says what is wrong with it.
pub fn parse_nanos(text: &str) -> Result<Ns, String> {
    let text = text.trim();
    let split = text.find(|c: char| c.is_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let scale = match unit {
        "" | "ns" => 0,
        "us" | "µs" | "μs" => 3,
        "ms" => 6,
        "s" => 9,
        _ => return Err(format!("`{unit}` is no unit of time; use ns, us, ms or s")),
    };
    if unit.is_empty() && number.contains('.') {
        return Err(format!("`{text}` has a fraction and no unit; a trace's own `ts` are microseconds: {text}us"));
    }
    let number: Vec<u8> = number.trim().bytes().filter(|b| *b != b'_' && *b != b',').collect();
    scaled_decimal(&number, scale)
        .map(Ns)
        .ok_or_else(|| format!("`{text}` is not a time; write nanoseconds (77500000) or a number with a unit (77.5ms)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_decimals_become_nanoseconds() {
        for (text, want) in [
            ("0", Some(0)),
            ("-0", Some(0)),
            ("41.407", Some(41_407)),
            ("4458676416431.397", Some(4_458_676_416_431_397)),
            ("1712195495501688.500", Some(1_712_195_495_501_688_500)),
            ("0.0005", Some(1)),
            ("0.00049999", Some(0)),
            ("-0.0005", Some(-1)),
            ("1.5e3", Some(1_500_000)),
            ("15E-1", Some(1_500)),
            ("1e-400", Some(0)),
            ("0e99999999999", Some(0)),
            ("9223372036854775.807", Some(i64::MAX)),
            ("9223372036854775.808", None),
            ("0.00170141183460469231731687303715884105727", Some(2)),
            ("1e400", None),
            ("", None),
            ("-", None),
            ("01", None),
            ("1.", None),
            (".5", None),
            ("+1", None),
            ("1e", None),
            ("1x", None),
            (" 5", None),
            ("NaN", None),
        ] {
            assert_eq!(TimeRule::Exact.text_to_nanos(text.as_bytes()), want.map(Ns), "{text}");
        }
    }

    #[test]
    fn nanoseconds_stay_what_they_are() {
        for (text, want) in [
            ("0", Some(0)),
            ("1712195495501688500", Some(1_712_195_495_501_688_500)),
            ("1.7e+18", Some(1_700_000_000_000_000_000)),
            ("41.4", Some(41)),
            ("41.5", Some(42)),
            ("-41.5", Some(-42)),
            ("9223372036854775807", Some(i64::MAX)),
            ("9223372036854775808", None),
            ("1e", None),
        ] {
            assert_eq!(TimeRule::Nanoseconds.text_to_nanos(text.as_bytes()), want.map(Ns), "{text}");
        }
        assert_eq!(TimeRule::Nanoseconds.digits_to_nanos(i64::MAX, 0), Some(Ns::MAX));
        assert_eq!(TimeRule::Nanoseconds.digits_to_nanos(415, 1), None);
    }

    proptest::proptest! {
        #[test]
        fn the_short_way_is_the_long_way(text in "-?[0-9]{0,20}\\.?[0-9]{0,6}(e[0-9])?", scale in 0i32..10) {
            let text = text.as_bytes();
            if let Some(short) = short_decimal(text, scale) {
                proptest::prop_assert_eq!(Some(short), any_decimal(text, scale));
            }
        }
    }

    /// The figures of a real trace_processor for the same texts.
    #[test]
    fn perfetto_rounds_through_doubles() {
        for (text, want) in [
            ("4458676416431.397", 4_458_676_416_431_398),
            ("1712195495501688.500", 1_712_195_495_501_688_576),
            ("41.407", 41_407),
            ("0.0005", 1),
            ("5", 5_000),
            ("500.1", 500_100),
            ("1606910596297023", 1_606_910_596_297_023_000),
        ] {
            assert_eq!(TimeRule::Perfetto.text_to_nanos(text.as_bytes()), Some(Ns(want)), "{text}");
        }
    }

    #[test]
    fn typed_times_take_units() {
        for text in ["77500000", "77_500_000", "77.5ms", "77.5 ms", "0.0775s", "77500us"] {
            assert_eq!(parse_nanos(text), Ok(Ns(77_500_000)), "{text}");
        }
        for (text, error) in
            [("5 hours", "no unit of time"), ("20.5", "20.5us"), ("ms", "not a time"), ("1.2.3ms", "not a time")]
        {
            assert!(parse_nanos(text).unwrap_err().contains(error), "{text}");
        }
    }

    #[test]
    fn sums_of_times_saturate() {
        assert_eq!((Ns::MAX + Ns(1), Ns::MIN - Ns(1), Ns(2) - Ns(5)), (Ns::MAX, Ns::MIN, Ns(-3)));
        assert_eq!([Ns::MAX, Ns(1), Ns(-2)].into_iter().sum::<Ns>(), Ns::MAX - Ns(2));
        assert_eq!((Ns(1).share_of(Ns(4)), Ns(1).share_of(Ns::ZERO)), (Some(0.25), None));
    }

    #[test]
    fn a_window_holds_its_start_and_not_its_end() {
        let window = Window::new(Ns(10), Ns(5));
        assert!(window.contains(Ns(10)) && window.contains(Ns(14)));
        assert!(!window.contains(Ns(9)) && !window.contains(Ns(15)));
        assert!(!Window::new(Ns(10), Ns::ZERO).contains(Ns(10)));
        assert_eq!(Window::new(Ns::MAX - Ns(1), Ns(5)).end, Ns::MAX);
    }
}
