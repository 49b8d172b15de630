//! `nccl-stacks what-if`: what a job would take if something were different.

use crate::answers::ranks::document::{WhatIfAnswer, too_large};
use crate::answers::ranks::what_if::Also;
use crate::document::Form;
use crate::run::inputs::Inputs;
use crate::run::{RanksOfFiles, inputs};

use super::args::WhatIf;
use super::failure::Failure;
use super::opening;
use super::ranks::compared;
use super::show::Show;
use super::stop::Stop;
use super::terminal::say;
use super::watcher::{RERUNNING, TERMINAL};

pub(super) fn run(args: &WhatIf) -> Result<(), Stop> {
    let show = Show::new::<WhatIfAnswer<'_>>(&args.answering, Form::Text, args.color, &args.of_ranks.reading)?;
    let files = Inputs::sort(&args.traces)?;
    files.left_out().iter().for_each(|line| say(line));
    let output = show.open(args.of_ranks.selection.family_file.iter().chain(files.all()))?;
    let run = opening::one_run(&args.of_ranks.reading, args.of_ranks.one_run);
    let (question, _) = opening::rank_question(&run, &args.of_ranks, &files)?;
    let RanksOfFiles { ranks, damage, is_damaged, left_out, completeness, .. } = run.ranks(&files, &question)?;
    left_out.iter().for_each(|line| say(line));
    let what = opening::what(&args.of_ranks.selection);
    let compared = compared(run, ranks, question.clock, (&damage, is_damaged, what))?;
    damage.iter().for_each(|line| say(line));
    let also = if show.form == Form::Perfetto { Also::Slices(None) } else { Also::Nothing };
    let found = TERMINAL.meanwhile(RERUNNING, || compared.what_if(&args.rules, also)).map_err(Failure::Rule)?;
    if let Some(large) = &compared.too_large {
        return Err(Failure::TooLarge(too_large(large)).into());
    }
    let Some(found) = found else {
        return Err(Stop::NotFound(
            "Nothing found: no launches or kernels are recorded here that could be different. Traces have them, NCCL's own records do not."
                .to_owned(),
        ));
    };
    let name = inputs::in_order(&args.traces);
    show.print(&WhatIfAnswer { found: &found, name: &name }, output)?;
    Stop::if_incomplete(Stop::unless(found.report.damage.is_unknown()), &completeness, None)
}
