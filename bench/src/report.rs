//! Everything, written to files.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::{algorithms, chart, fleet, flood, floors, footprint, instructions, shapes, speed};

pub(crate) fn everything() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    eprintln!("speed …");
    let speed = speed::tables();
    eprintln!("the rest …");
    let report = HEAD
        .replace("{machine}", &machine())
        .replace("{date}", &said(Command::new("date").args(["-u", "+%Y-%m-%d"])))
        .replace("{rustc}", &said(Command::new("rustc").arg("--version")))
        .replace("{commit}", &commit(folder))
        .replace("{floors}", &floors::of_the_machine())
        .replace("{speed}", &speed.text)
        .replace("{shapes}", &shapes::table())
        .replace("{algorithms}", &algorithms::table())
        .replace("{footprint}", &footprint::tables())
        .replace("{instructions}", &instructions::table())
        .replace("{flood}", &flood::report())
        .replace("{redis}", &fleet::table());
    fs::write(folder.join("RESULTS.md"), &report).expect("bench/RESULTS.md can be written");
    fs::write(folder.join("speed.svg"), chart::svg(&speed.bars)).expect("bench/speed.svg can be written");
    print!("{report}");
}

const HEAD: &str = include_str!("report.md");

fn machine() -> String {
    let model = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = model
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .unwrap_or("unknown");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{}, {cores} cores", model.trim_matches([' ', '\t', ':']))
}

fn commit(folder: &Path) -> String {
    let git = |args: &[&str]| said(Command::new("git").arg("-C").arg(folder).args(args));
    let changed = git(&["status", "--porcelain", "--", "../src", "src"]);
    let hash = git(&["rev-parse", "--short", "HEAD"]);
    if changed.is_empty() {
        hash
    } else {
        format!("{hash}, changed since")
    }
}

fn said(command: &mut Command) -> String {
    let output = command.output().map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&output).trim().to_owned()
}
