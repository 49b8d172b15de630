//! Runs the job: passes its exit code and signals through.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::Cause;

use crate::cli::failure::Failure;
use crate::cli::stop::Stop;

/// Runs a command with these variables to its end. Returns its exit code, or 128 plus the number of the signal that ended it, as shells
/// do; and why it could not be started.
pub(super) fn run(command: &[OsString], variables: &[(&'static str, OsString)]) -> Result<(u8, Option<Failure>), Stop> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(Stop::Usage("record: no command to run".to_owned()));
    };
    let failed = |source| Failure::Job { command: program.display().to_string(), source };
    // Before the job starts, so that no signal is lost.
    let signals =
        SignalsInfo::<WithOrigin>::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2]).map_err(failed)?;
    let mut job = Command::new(program);
    job.args(arguments).envs(variables.iter().map(|(name, value)| (name, value)));
    let mut child = match job.spawn() {
        Ok(child) => child,
        // As shells do, whose users tell these from the codes of the job.
        Err(source) if source.kind() == ErrorKind::NotFound => return Ok((127, Some(failed(source)))),
        Err(source) if source.kind() == ErrorKind::PermissionDenied => return Ok((126, Some(failed(source)))),
        Err(source) => return Err(failed(source).into()),
    };
    let ended = wait(&mut child, signals).map_err(failed)?;
    Ok((code(ended), None))
}

/// Waits for the job while another thread forwards signals.
fn wait(child: &mut Child, mut signals: SignalsInfo<WithOrigin>) -> std::io::Result<ExitStatus> {
    let handle = signals.handle();
    let pid = i32::try_from(child.id()).unwrap_or(0);
    let forwarding = thread::spawn(move || {
        for origin in &mut signals {
            // A terminal sends signals to the whole process group, so the job already has them.
            if origin.cause != Cause::Kernel && pid > 0 {
                // SAFETY: `kill` has no preconditions; the job is not reaped before this thread has ended.
                unsafe { libc::kill(pid, origin.signal) };
            }
        }
    });
    let ended = child.wait();
    handle.close();
    // The thread holds nothing that could fail.
    let _ = forwarding.join();
    ended
}

fn code(ended: ExitStatus) -> u8 {
    let code = ended.code().unwrap_or_else(|| 128 + ended.signal().unwrap_or(0));
    u8::try_from(code).unwrap_or(1)
}
