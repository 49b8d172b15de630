//! Traces with every key of the profiler's metadata: the same two training steps in PyTorch's and in XSigma's notation, a file of XSigma's other
//! exporter, and a file with values that do not match their keys. The `README.md` beside them has the expected answers.

mod backward;
mod forward;
mod hostile;
mod writer;
mod xplane;

use forward::{FIRST_STEP, STEPS};
use writer::{Habit, MAIN, Trace};

/// The steps as PyTorch writes them.
pub(super) fn pytorch() -> Vec<u8> {
    training(Habit::PyTorch)
}

/// The steps as XSigma writes them, and the operator in its guide.
pub(super) fn xsigma() -> Vec<u8> {
    training(Habit::XSigma)
}

pub(super) use hostile::trace as hostile;
pub(super) use xplane::trace as xplane;

/// Two steps of 9 ms each, which begin at 1 and 11 ms.
fn training(habit: Habit) -> Vec<u8> {
    let mut trace = Trace::new(habit);
    let main = trace.python("train.py(10): main", (0, 21_000), 0, None);
    for number in 0..STEPS {
        trace.start = 1_000 + 10_000 * number;
        trace.annotation(&format!("ProfilerStep#{}", FIRST_STEP + number), MAIN, (0, 9_000));
        let step = trace.python("train.py(20): train_step", (10, 8_980), main, None);
        forward::run(&mut trace, number, step);
        trace.python("torch/_tensor.py(520): backward", (2_720, 3_280), step, None);
        backward::run(&mut trace, number);
        backward::update(&mut trace, number);
    }
    trace.finish()
}
