//! Options whose value is one of a few words, and the library's type for each.
//!
//! The variants have no docs: clap would show them in a long help for each option.

use nccl_stacks::analysis::cost::Order;
use nccl_stacks::attribution::launches::WindowOn;
use nccl_stacks::operations::clocks::ClockMode;
use nccl_stacks::operations::outliers::Outliers;
use nccl_stacks::report::describe::DescribeForm;
use nccl_stacks::report::diff::DiffForm;
use nccl_stacks::report::hang::HangForm;
use nccl_stacks::report::pairs::PairForm;
use nccl_stacks::report::ranks::RankForm;
use nccl_stacks::report::recorded::RecordsForm;
use nccl_stacks::report::{Form, Weight};
use nccl_stacks::time::TimeRule;

/// What has to start in the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum On {
    Launch,
    Kernel,
}

impl From<On> for WindowOn {
    fn from(on: On) -> Self {
        match on {
            On::Launch => WindowOn::Launch,
            On::Kernel => WindowOn::Kernel,
        }
    }
}

/// The unit of the times in JSON traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum TsUnit {
    Us,
    Ns,
}

impl From<TsUnit> for TimeRule {
    fn from(unit: TsUnit) -> Self {
        match unit {
            TsUnit::Us => TimeRule::Exact,
            TsUnit::Ns => TimeRule::Nanoseconds,
        }
    }
}

/// A form of the answer about a hang.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum HangFormat {
    Text,
    Json,
    Html,
}

impl From<HangFormat> for HangForm {
    fn from(format: HangFormat) -> Self {
        match format {
            HangFormat::Text => HangForm::Text,
            HangFormat::Json => HangForm::Json,
            HangFormat::Html => HangForm::Html,
        }
    }
}

/// A form of a file's description.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum DescribeFormat {
    Text,
    Json,
}

impl From<DescribeFormat> for DescribeForm {
    fn from(format: DescribeFormat) -> Self {
        match format {
            DescribeFormat::Text => DescribeForm::Text,
            DescribeFormat::Json => DescribeForm::Json,
        }
    }
}

/// Whether to do something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Switch {
    On,
    Off,
}

/// A form of the stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    Text,
    Table,
    Script,
    Json,
    Csv,
    Folded,
    Speedscope,
    #[cfg(feature = "flamegraph")]
    Svg,
    Html,
}

impl From<Format> for Form {
    fn from(format: Format) -> Self {
        match format {
            Format::Text => Form::Text,
            Format::Table => Form::Table,
            Format::Script => Form::Script,
            Format::Json => Form::Json,
            Format::Csv => Form::Csv,
            Format::Folded => Form::Folded,
            Format::Speedscope => Form::Speedscope,
            #[cfg(feature = "flamegraph")]
            Format::Svg => Form::Svg,
            Format::Html => Form::Html,
        }
    }
}

/// Whether to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Colour {
    Auto,
    Always,
    Never,
}

/// A form of pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PairFormat {
    Text,
    Csv,
    Json,
}

impl From<PairFormat> for PairForm {
    fn from(format: PairFormat) -> Self {
        match format {
            PairFormat::Text => PairForm::Text,
            PairFormat::Csv => PairForm::Csv,
            PairFormat::Json => PairForm::Json,
        }
    }
}

/// A form of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum TableFormat {
    Table,
    Csv,
    Json,
}

/// A form of a diff.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum DiffFormat {
    Table,
    Text,
    Csv,
    Json,
    Html,
}

impl From<DiffFormat> for DiffForm {
    fn from(format: DiffFormat) -> Self {
        match format {
            DiffFormat::Table => DiffForm::Table,
            DiffFormat::Text => DiffForm::Text,
            DiffFormat::Csv => DiffForm::Csv,
            DiffFormat::Json => DiffForm::Json,
            DiffFormat::Html => DiffForm::Html,
        }
    }
}

/// How clocks are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum WhichClock {
    Align,
    Trust,
    None,
}

impl WhichClock {
    /// The word for the command line; `None` for the default.
    pub(crate) fn word(self) -> Option<&'static str> {
        match self {
            WhichClock::Align => None,
            WhichClock::Trust => Some("trust"),
            WhichClock::None => Some("none"),
        }
    }
}

impl From<WhichClock> for ClockMode {
    fn from(which: WhichClock) -> Self {
        match which {
            WhichClock::Align => ClockMode::Align,
            WhichClock::Trust => ClockMode::Trust,
            WhichClock::None => ClockMode::None,
        }
    }
}

/// A form of the comparison of ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum RankFormat {
    Text,
    Table,
    Json,
    Csv,
    Perfetto,
    Html,
}

impl From<RankFormat> for RankForm {
    fn from(format: RankFormat) -> Self {
        match format {
            RankFormat::Text => RankForm::Text,
            RankFormat::Table => RankForm::Table,
            RankFormat::Json => RankForm::Json,
            RankFormat::Csv => RankForm::Csv,
            RankFormat::Perfetto => RankForm::Perfetto,
            RankFormat::Html => RankForm::Html,
        }
    }
}

/// A form of the answer about records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum RecordsFormat {
    Text,
    Table,
    Json,
    Csv,
    Html,
}

impl From<RecordsFormat> for RecordsForm {
    fn from(format: RecordsFormat) -> Self {
        match format {
            RecordsFormat::Text => RecordsForm::Text,
            RecordsFormat::Table => RecordsForm::Table,
            RecordsFormat::Json => RecordsForm::Json,
            RecordsFormat::Csv => RecordsForm::Csv,
            RecordsFormat::Html => RecordsForm::Html,
        }
    }
}

/// An order of the stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Sort {
    Count,
    Gpu,
    Exposed,
    Mean,
}

impl From<Sort> for Order {
    fn from(sort: Sort) -> Self {
        match sort {
            Sort::Count => Order::Count,
            Sort::Gpu => Order::GpuTime,
            Sort::Exposed => Order::Exposed,
            Sort::Mean => Order::Mean,
        }
    }
}

/// What the widths of a flame graph mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Weigh {
    Count,
    Gpu,
    Exposed,
}

impl From<Weigh> for Weight {
    fn from(weigh: Weigh) -> Self {
        match weigh {
            Weigh::Count => Weight::Count,
            Weigh::Gpu => Weight::Gpu,
            Weigh::Exposed => Weight::Exposed,
        }
    }
}

/// How late ranks are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum WhichOutliers {
    Mad,
    Iqr,
    Grubbs,
}

impl From<WhichOutliers> for Outliers {
    fn from(outliers: WhichOutliers) -> Self {
        match outliers {
            WhichOutliers::Mad => Outliers::Mad,
            WhichOutliers::Iqr => Outliers::Iqr,
            WhichOutliers::Grubbs => Outliers::Grubbs,
        }
    }
}
