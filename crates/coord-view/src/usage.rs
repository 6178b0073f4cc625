//! Shows what sessions use and accounts have left.

use std::collections::BTreeMap;

use coord_core::{Account, SaidLimit, Session, State};
use coord_model::stamp::rfc3339;
use coord_model::{Decimal, Now};
use coord_wire::usage;

use crate::text::thousands;

/// The only source so far: the client's status line (N-08).
const STATUS_LINE: &str = "status line";

/// What a session uses; none if nothing is known.
pub fn of_session(state: &State, session: &Session, now: Now) -> Option<usage::Usage> {
    let account = state.header().accounts.get(&session.config_dir);
    let limits = account.map(|account| limits(account, now)).unwrap_or_default();
    let Some(said) = &*session.usage else {
        let usage = usage::Usage { limits, ..usage::Usage::default() };
        return (!usage.limits.is_empty()).then_some(usage);
    };
    let (source, at) = (STATUS_LINE.to_owned(), rfc3339(said.said.wall_ms));
    let numbers = &said.numbers;
    let has_model = numbers.model.is_some() || numbers.model_name.is_some();
    Some(usage::Usage {
        model: has_model.then(|| usage::Model {
            id: numbers.model.clone(),
            name: numbers.model_name.clone(),
            source: source.clone(),
            at: at.clone(),
        }),
        context: numbers.context_percent.map(|percent| usage::Context {
            percent,
            size: numbers.context_size,
            source: source.clone(),
            at: at.clone(),
        }),
        cost: numbers.cost_usd.map(|usd| usage::Cost { usd, source, at }),
        tokens: None,
        limits,
    })
}

/// A share in whole percent, rounded down: what is not used up does not look as if it were.
pub fn percent(share: Decimal) -> String {
    format!("{}%", share.whole())
}

/// A cost in dollars and cents.
pub fn dollars(usd: Decimal) -> String {
    let cents = usd.hundredths();
    if cents == 0 && 0 < usd.0 {
        return "under $0.01".to_owned();
    }
    format!("${}.{:02}", thousands(cents / 100), cents % 100)
}

/// The accounts that have living sessions, or limits that are known; by configuration directory.
pub fn accounts(state: &State, now: Now) -> Vec<usage::Account> {
    let mut living: BTreeMap<&str, u64> = BTreeMap::new();
    for session in state.sessions().filter(|session| session.may_live()) {
        if !session.config_dir.is_empty() {
            *living.entry(&session.config_dir).or_default() += 1;
        }
    }
    let known = &state.header().accounts;
    for config_dir in known.keys() {
        living.entry(config_dir).or_default();
    }
    let account = |(config_dir, sessions): (&str, u64)| usage::Account {
        config_dir: config_dir.to_owned(),
        sessions,
        limits: known.get(config_dir).map(|account| limits(account, now)).unwrap_or_default(),
    };
    let is_shown = |account: &usage::Account| 0 < account.sessions || !account.limits.is_empty();
    living.into_iter().map(account).filter(is_shown).collect()
}

fn limits(account: &Account, now: Now) -> Vec<usage::Limit> {
    let named = [("5-hour", account.five_hour), ("7-day", account.seven_day)];
    let shown = |(name, said): (&str, Option<SaidLimit>)| {
        let SaidLimit { limit, said } = said.filter(|said| !said.is_over(now.wall_ms))?;
        Some(usage::Limit {
            name: name.to_owned(),
            percent: limit.percent,
            resets_at: rfc3339(limit.resets_ms),
            source: STATUS_LINE.to_owned(),
            at: rfc3339(said.wall_ms),
        })
    };
    named.into_iter().filter_map(shown).collect()
}
