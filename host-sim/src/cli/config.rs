//! `writ config`: what the configuration is, and whether it is sound. Also the way of all commands to it.

use std::path::PathBuf;

use clap::Args;
use clap::Subcommand;
use serde_json::Value;
use serde_json::json;

use super::args::Global;
use super::exit;
use super::failure::Failure;
use super::out::Out;
use super::settings::Settings;
use super::table;
use super::table::Column;
use super::table::Kind;
use crate::config::Config;
use crate::config::ConfigError;
use crate::config::Flag;
use crate::config::Found;
use crate::config::Input;
use crate::config::Problem;
use crate::config::Row;
use crate::config::Source;
use crate::script::Script;

/// Check the configuration, or show where each value comes from.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  writ config check                        ./writ.toml, if there is one, and the environment
  writ config check deploy/writ.toml
  writ config show                         every option, its value and who gave it; secrets are masked
  WRIT_SERVE__SESSIONS=64 writ config show --json

Flags win over the environment, that over the file, that over the default. docs/config.md has every option.")]
pub struct ConfigArgs {
    /// What to do.
    #[command(subcommand)]
    pub what: What,
}

/// What to do with the configuration.
#[derive(Debug, Subcommand)]
pub enum What {
    /// Check it; all problems are told at once, each with its line and column.
    #[command(after_help = "\
Examples:
  writ config check
  writ config check deploy/writ.toml --json")]
    Check {
        /// The file, instead of that of --config, WRIT_CONFIG or ./writ.toml.
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Show every option with its value and its source.
    #[command(after_help = "\
Examples:
  writ config show
  writ config show --config deploy/writ.toml --json")]
    Show,
}

const COLUMNS: &[Column] = &[
    Column { title: "OPTION", pointer: "/option", kind: Kind::Plain },
    Column { title: "VALUE", pointer: "/value", kind: Kind::Plain },
    Column { title: "SOURCE", pointer: "/source", kind: Kind::Plain },
];

/// Checks or shows. Nothing else is opened.
pub fn run(args: ConfigArgs, global: &Global, out: Out) -> Result<u8, Failure> {
    match args.what {
        What::Check { file } => {
            let config = file.or_else(|| global.config.clone());
            check(&load(&Global { config, ..global.clone() }, Vec::new())?, out)
        }
        What::Show => show(&input(global), out),
    }
}

/// The whole configuration, with the secrets that it names, for a command that serves; `more` are its own flags.
pub fn load(global: &Global, more: Vec<Flag>) -> Result<Config, Failure> {
    let mut input = input(global);
    input.flags.extend(more);
    Config::load(&input).map_err(failure)
}

/// The options of every command, with what file and environment say where no flag was given. No file with a secret is
/// opened.
pub fn settle(global: &Global) -> Result<Global, Failure> {
    let found = Found::read(&input(global)).map_err(failure)?;
    Ok(Global {
        data: found.path("data").unwrap_or_else(|| global.data.clone()),
        component: found.path("component"),
        settings: found.path("settings"),
        script: found.path("script"),
        ..global.clone()
    })
}

fn input(global: &Global) -> Input {
    let flags = [
        ("data", "--data", &global.data_flag),
        ("component", "--component", &global.component),
        ("settings", "--settings", &global.settings),
        ("script", "--script", &global.script),
    ];
    let flag =
        |(option, name, path): (_, _, &Option<PathBuf>)| Some(Flag { option, name, value: path.clone()?.into() });
    Input { file: global.config.clone(), flags: flags.into_iter().filter_map(flag).collect(), ..Input::of_process() }
}

fn check(config: &Config, out: Out) -> Result<u8, Failure> {
    Settings::load(config.settings.as_deref())?;
    if let Some(path) = &config.script {
        Script::load(path).map_err(|e| Failure::refused(e.code(), e.to_string()))?;
    }
    if let Some(path) = &config.component {
        std::fs::File::open(path).map_err(|e| Failure::file(path, "read", &e))?;
    }
    let file = config.file.as_ref().map(|file| file.display().to_string());
    if out.json {
        out.value(&json!({"file": file, "problems": [], "warnings": config.warnings}))?;
        return Ok(exit::DONE);
    }
    for warning in &config.warnings {
        out.note(&format!("warning: {warning}"), &Value::Null);
    }
    let what = file.unwrap_or_else(|| "no file; the environment and the defaults".into());
    out.line(&format!("{what}: no problem; warnings: {}", config.warnings.len()))?;
    Ok(exit::DONE)
}

fn show(input: &Input, out: Out) -> Result<u8, Failure> {
    let found = Found::read(input).map_err(failure)?;
    let rows: Vec<Value> = found.rows().iter().map(|row| if out.json { row.json() } else { shown(row) }).collect();
    if out.json {
        out.value(&json!({"file": found.file().map(|f| f.display().to_string()), "options": rows}))?;
    } else {
        out.line(&table::render(COLUMNS, &rows, out))?;
    }
    Ok(exit::DONE)
}

fn shown(row: &Row) -> Value {
    let value = match &row.value {
        Value::Array(texts) => texts.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ").into(),
        Value::String(text) if text.is_empty() => Value::Null,
        other => other.clone(),
    };
    let value = if value == "" { Value::Null } else { value };
    json!({"option": row.option, "value": value, "source": row.source.to_string()})
}

fn failure(error: ConfigError) -> Failure {
    let lines: Vec<String> = error.0.iter().map(Problem::to_string).collect();
    let message = match lines.as_slice() {
        [one] => one.clone(),
        lines => format!("{} problems in the configuration:\n  {}", lines.len(), lines.join("\n  ")),
    };
    let problems: Vec<Value> = error.0.iter().map(problem).collect();
    Failure::refused("config", message).fact("problems", problems).advise("docs/config.md has every option.")
}

fn problem(problem: &Problem) -> Value {
    let mut told = json!({"source": problem.source.to_string(), "option": problem.option, "message": problem.text});
    if let Source::File(position) = &problem.source {
        told["file"] = position.file.display().to_string().into();
        told["line"] = position.line.into();
        told["column"] = position.column.into();
    }
    told
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::args::Cli;
    use super::*;

    fn global(words: &[&str]) -> Global {
        Cli::try_parse_from(words).unwrap().global
    }

    fn file(text: &str) -> (tempfile::TempDir, String) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w.toml");
        std::fs::write(&path, text).unwrap();
        let path = path.display().to_string();
        (folder, path)
    }

    #[test]
    fn commands_take_from_the_file_what_no_flag_says() {
        let (folder, path) = file("data = 'd'\nsettings = 's.json'\nscript = 'x.toml'\n");
        let given = global(&["writ", "agents", "--config", &path, "--script", "mine.toml"]);
        let settled = settle(&given).unwrap();
        assert_eq!(settled.settings, Some(folder.path().join("s.json")));
        assert_eq!(settled.script, Some("mine.toml".into()));
        assert_eq!(settled.component, None);
        // The variable may be set where the tests run; it would win.
        if std::env::var_os("WRIT_DATA").is_none() {
            assert_eq!(settled.data, folder.path().join("d"));
        }
        let given = global(&["writ", "--data", "other", "agents", "--config", &path]);
        assert_eq!(settle(&given).unwrap().data, PathBuf::from("other"));
    }

    #[test]
    fn a_bad_file_is_refused_with_every_problem() {
        let (_folder, path) = file("store = 1\nstrore = 2\n");
        let refused = settle(&global(&["writ", "agents", "--config", &path])).unwrap_err();
        assert_eq!((refused.exit, refused.code.as_str()), (exit::REFUSED, "config"));
        let problems = &refused.json()["problems"];
        assert_eq!((&problems[0]["line"], &problems[0]["column"]), (&json!(1), &json!(9)));
        assert_eq!((&problems[1]["line"], &problems[1]["option"]), (&json!(2), &Value::Null));
        let text = refused.text();
        assert!(text.starts_with("writ: 2 problems in the configuration:\n  ") && text.lines().count() == 4, "{text}");
        assert!(!text.contains("{\""), "{text}");
    }
}
