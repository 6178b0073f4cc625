//! `coord quota`: what each account has left of its usage limits, and when they reset.

use std::io::Write;

use coord_model::Decimal;
use coord_view::usage::percent;
use coord_wire::inspect::SCHEMA;
use coord_wire::usage::Account;
use serde::Serialize;

use crate::context::Context;
use crate::out::{Failure, age, escape, print_columns, print_json};
use crate::verb::inspect::usage::resets;
use crate::verb::inspect::{age_s, look, tilde};

/// Show what is left of usage limits, and when they reset
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coord quota\n  coord quota --json\n\nAn account is a configuration directory of Claude Code. Its limits come from the status lines\nof its sessions: `coord install --statusline`. Claude Code reports limits for subscriptions only."
)]
pub(crate) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What is printed for programs.
#[derive(Debug, Serialize)]
struct Quota<'a> {
    schema: u32,
    accounts: &'a [Account],
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let accounts = look(None, context)?.answer.accounts;
    let out = &mut std::io::stdout().lock();
    if args.json {
        return print_json(out, &Quota { schema: SCHEMA, accounts: &accounts });
    }
    if accounts.is_empty() {
        return Ok(writeln!(out, "No account is known yet. Start claude; it appears here.")?);
    }
    let mut lines = vec![["ACCOUNT", "LIMIT", "LEFT", "RESETS", "SOURCE"].map(str::to_owned)];
    lines.extend(accounts.iter().flat_map(|account| rows(account, context)));
    print_columns(out, &lines)?;
    if accounts.iter().all(|account| account.limits.is_empty()) {
        writeln!(out, "Limits are known from status lines. → coord install --statusline")?;
    }
    Ok(())
}

/// The rows of an account: one for each limit.
fn rows(account: &Account, context: &Context) -> Vec<[String; 5]> {
    let name = escape(&tilde(&account.config_dir));
    if account.limits.is_empty() {
        return vec![[name, "not known".to_owned(), String::new(), String::new(), String::new()]];
    }
    let row = |(at, limit): (usize, &coord_wire::usage::Limit)| {
        let left = Decimal((100 * Decimal::ONE).saturating_sub(limit.percent.0));
        let said = format!("{}, {} ago", limit.source, age(age_s(&limit.at, context)));
        let name = if at == 0 { name.clone() } else { String::new() };
        [name, limit.name.clone(), percent(left), resets(limit, context), said]
    };
    account.limits.iter().enumerate().map(row).collect()
}
