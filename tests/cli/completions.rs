//! Shell completions: the shells themselves read what `nccl-stacks completions` writes, if they are installed.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use crate::support::program::{refused, run, stderr, stdout};
use tempfile::TempDir;

const SHELLS: [&str; 5] = ["bash", "zsh", "fish", "elvish", "powershell"];

fn script(shell: &str) -> String {
    let output = run(&["completions", shell]);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{shell}");
    stdout(&output)
}

/// Runs a shell; `None`, and a note, if it is not installed.
fn shell(name: &str, args: &[&str], folder: &Path) -> Option<String> {
    let output = match Command::new(name).args(args).current_dir(folder).env("HOME", folder).output() {
        Ok(output) => output,
        Err(_) => {
            // Straight to standard error: the other output of a passing test is not shown.
            let _ = writeln!(std::io::stderr(), "SKIPPED: {name} is not installed");
            return None;
        }
    };
    assert!(output.status.success(), "{name} {args:?}: {}", stderr(&output));
    assert_eq!(stderr(&output), "", "{name} {args:?}");
    Some(stdout(&output))
}

/// What elvish has only on a terminal, as far as the script needs it.
const ELVISH_EDITOR: &str = "\
var edit: = (ns [&completion:=(ns [&arg-completer=[&]]) &complex-candidate~={|stem &display=''| put $stem}])
";

/// A folder with the script of a shell, and two files that may be completed.
fn folder(shell: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let before = if shell == "elvish" { ELVISH_EDITOR } else { "" };
    std::fs::write(folder.path().join("script"), format!("{before}{}", script(shell))).unwrap();
    std::fs::write(folder.path().join("families.json"), "").unwrap();
    std::fs::create_dir(folder.path().join("folder")).unwrap();
    folder
}

#[test]
fn every_shell_has_a_script_with_all_commands() {
    for shell in SHELLS {
        let script = script(shell);
        for word in ["ranks", "sql", "export", "completions", "man", "kernel-name", "custom-allreduce", "speedscope"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    refused(&["completions", "tcsh"], 2, "bash, elvish, fish, powershell, zsh");
}

#[test]
fn shells_understand_their_scripts() {
    for (name, args) in [
        ("bash", &["-n", "script"][..]),
        ("zsh", &["-n", "script"]),
        ("fish", &["-n", "script"]),
        ("elvish", &["-norc", "script"]),
        ("pwsh", &["-NoProfile", "-Command", "$null = [scriptblock]::Create((Get-Content -Raw script))"]),
    ] {
        let of = if name == "pwsh" { "powershell" } else { name };
        shell(name, args, folder(of).path());
    }
}

/// What bash offers for the last of some words: it calls the function that the script registered.
fn in_bash(words: &[&str]) -> Option<Vec<String>> {
    let text = r#"
        compopt() { :; }  # Which works in a real completion only.
        source ./script
        [[ $(complete -p nccl-stacks) =~ -F\ ([^ ]+) ]]
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        "${BASH_REMATCH[1]}" nccl-stacks "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    let args = ["--norc", "-c", text, "bash"];
    let offered = shell("bash", &[&args[..], words].concat(), folder("bash").path())?;
    Some(offered.lines().map(str::to_owned).collect())
}

#[test]
fn bash_completes() {
    let Some(first) = in_bash(&["nccl-stacks", ""]) else { return };
    for word in ["--kernel-name", "--family", "ranks", "sql", "export", "completions", "man"] {
        assert!(first.iter().any(|offered| offered == word), "{word}: {first:?}");
    }
    let offered = |words: &[&str]| in_bash(words).unwrap();
    assert_eq!(offered(&["nccl-stacks", "--ker"]), ["--kernel-name"]);
    assert_eq!(offered(&["nccl-stacks", "t.json", "--ker"]), ["--kernel-name"]);
    assert_eq!(offered(&["nccl-stacks", "t.json", "--sort", "ex"]), ["exposed"]);
    assert_eq!(offered(&["nccl-stacks", "t.json", "--family", "custom"]), ["custom-allreduce"]);
    assert_eq!(offered(&["nccl-stacks", "t.json", "--family-file", "fam"]), ["families.json"]);
    assert_eq!(offered(&["nccl-stacks", "sql", "--format", ""]), ["table", "csv", "json"]);
    assert_eq!(offered(&["nccl-stacks", "export", "--sq"]), ["--sqlite"]);
    // Patterns are no files.
    assert_eq!(offered(&["nccl-stacks", "t.json", "--kernel-name", "fam"]), ["fam"]);
}

/// Fish itself prints what it would offer.
#[test]
fn fish_completes() {
    let offered = |line: &str| {
        let ask = format!("source ./script; complete --do-complete '{line}'");
        let answer = shell("fish", &["--no-config", "-c", &ask], folder("fish").path())?;
        // Each word is followed by its meaning.
        Some(answer.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect::<Vec<_>>())
    };
    let Some(flags) = offered("nccl-stacks --ker") else { return };
    assert_eq!(flags, ["--kernel-name"]);
    assert_eq!(offered("nccl-stacks sql t.json --ker").unwrap(), [""; 0]);
    assert_eq!(offered("nccl-stacks --family mscc").unwrap(), ["mscclpp"]);
    assert_eq!(offered("nccl-stacks ranks t.json --family-file fam").unwrap(), ["families.json"]);
    assert_eq!(offered("nccl-stacks export t.json --parquet fo").unwrap(), ["folder/"]);
    assert_eq!(offered("nccl-stacks expo").unwrap(), ["export"]);
}

#[test]
fn elvish_completes() {
    let folder = folder("elvish");
    let script = std::fs::read_to_string(folder.path().join("script")).unwrap();
    let offered = |words: &str| {
        let ask = format!("{script}\n$edit:completion:arg-completer[nccl-stacks] nccl-stacks {words} ''\n");
        std::fs::write(folder.path().join("script"), ask).unwrap();
        let answer = shell("elvish", &["-norc", "script"], folder.path())?;
        Some(answer.lines().map(|line| line.trim_start_matches("▶ ").to_owned()).collect::<Vec<_>>())
    };
    let Some(first) = offered("") else { return };
    let has = |offered: &[String], word: &str| offered.iter().any(|other| other == word);
    assert!(has(&first, "--kernel-name") && has(&first, "ranks"), "{first:?}");
    let export = offered("export").unwrap();
    assert!(has(&export, "--sqlite") && !has(&export, "--sort"), "{export:?}");
}

/// Zsh completes on a terminal only: this opens one, types a line and a tab, and returns what is shown after that.
const ASK_ZSH: &str = r#"
    zmodload zsh/zpty
    zpty asked zsh -f -i
    zpty -w asked "PS1='>'; cd $PWD; fpath=($PWD \$fpath); autoload -Uz compinit; compinit -u -D; setopt no_beep; print rea'dy'"
    zpty -r asked seen '*ready*'
    zpty -n -w asked "$1"$'\t'
    shown=''
    for i in {1..100}; do
        sleep 0.1
        while zpty -r -t asked part; do shown+=$part; done
        [[ $shown == *$2* ]] && break
    done
    print -r -- "$shown"
    zpty -d asked"#;

#[test]
fn zsh_completes() {
    let folder = folder("zsh");
    std::fs::rename(folder.path().join("script"), folder.path().join("_nccl-stacks")).unwrap();
    for (line, completed) in [
        ("nccl-stacks expo", "nccl-stacks export"),
        ("nccl-stacks --ker", "nccl-stacks --kernel-name"),
        ("nccl-stacks fam", "nccl-stacks families.json"),
        ("nccl-stacks --sort exp", "nccl-stacks --sort exposed"),
        ("nccl-stacks --family-file fam", "--family-file families.json"),
        ("nccl-stacks export --sq", "nccl-stacks export --sqlite"),
        ("nccl-stacks sql fam", "nccl-stacks sql families.json"),
    ] {
        let Some(shown) = shell("zsh", &["-f", "-c", ASK_ZSH, "zsh", line, completed], folder.path()) else { return };
        assert!(shown.contains(completed), "{line}: {shown:?}");
    }
}
