//! What a session uses, in words: each number with its source and its age.

use coord_model::Kind;
use coord_model::stamp::parse_rfc3339;
use coord_view::text::thousands;
use coord_view::usage::{dollars, percent};
use coord_wire::inspect::Session;
use coord_wire::usage::{Limit, RESULT, Tokens, Usage};

use super::{age_s, clock_time};
use crate::context::Context;
use crate::out::age;

/// What stands where no status line tells a number, and where it has not told it yet.
const NOT_KNOWN: &str = "not known (no status line)";
const NOT_YET: &str = "not known yet";
/// A reset that is at least so far away is shown with its day, in milliseconds.
const DAY_MS: u64 = 24 * 3_600_000;

/// The rows of a session, a name and its words.
pub(super) fn rows(session: &Session, context: &Context) -> Vec<(&'static str, String)> {
    // A headless run has no status line, and what was never known of a dead session never will be.
    let is_alive = session.owner.as_ref().is_some_and(|owner| owner.alive == Some(true));
    let may_have_one = is_alive && session.kind != Some(Kind::Headless);
    let no_usage = Usage::default();
    let usage = match &session.usage {
        None if !may_have_one => return Vec::new(),
        usage => usage.as_ref().unwrap_or(&no_usage),
    };
    let said = |source: &str, at: &str| format!(" · {source}, {} ago", age(age_s(at, context)));
    let model = usage.model.as_ref().and_then(|model| {
        let name = model.name.as_ref().or(model.id.as_ref())?;
        Some(format!("{name}{}", said(&model.source, &model.at)))
    });
    let context_words = usage.context.as_ref().map(|window| {
        let of = window.size.map(|size| format!(" of {} tokens", thousands(size.whole())));
        let of = of.unwrap_or_default();
        format!("{}{of}{}", percent(window.percent), said(&window.source, &window.at))
    });
    let cost = usage.cost.as_ref().map(|cost| {
        let words = dollars(cost.usd);
        format!("{words} since its start or /clear{}", said(&cost.source, &cost.at))
    });
    let limits: Vec<String> = usage.limits.iter().map(|limit| used(limit, context)).collect();
    let newest = usage.limits.iter().max_by_key(|limit| &limit.at);
    let newest = newest.map(|limit| said(&limit.source, &limit.at)).unwrap_or_default();
    let limits = limits.join(" · ");
    // Before the first answer, the client itself does not know it.
    let has_status_line = usage.model.is_some() || usage.cost.is_some();
    let unknown = match (has_status_line, may_have_one) {
        (true, _) => NOT_YET,
        (false, true) => NOT_KNOWN,
        (false, false) => "",
    };
    vec![
        ("model", model.unwrap_or_default()),
        ("context", context_words.unwrap_or_else(|| unknown.to_owned())),
        ("limits", if limits.is_empty() { limits } else { limits + &newest }),
        ("cost", cost.unwrap_or_default()),
        ("tokens", usage.tokens.as_ref().map(tokens).unwrap_or_default()),
    ]
}

/// How much of a limit is used, and when it resets.
fn used(limit: &Limit, context: &Context) -> String {
    format!("{} {}, resets {}", limit.name, percent(limit.percent), resets(limit, context))
}

/// When a limit resets, by this machine's clock.
pub(crate) fn resets(limit: &Limit, context: &Context) -> String {
    let at_ms = parse_rfc3339(&limit.resets_at).unwrap_or_default();
    if at_ms.saturating_sub(context.now.wall_ms) < DAY_MS {
        return clock_time(at_ms);
    }
    let at = i64::try_from(at_ms).ok().and_then(chrono::DateTime::from_timestamp_millis);
    at.map_or_else(String::new, |at| {
        at.with_timezone(&chrono::Local).format("%b %-d %H:%M").to_string()
    })
}

/// Tokens that were used. In a transcript, the client may note an answer before it is complete, so output is "at least".
pub(super) fn tokens(tokens: &Tokens) -> String {
    let counts = &tokens.counts;
    let cached = counts.cache_creation.saturating_add(counts.cache_read);
    let partial = if counts.is_partial { "at least " } else { "" };
    let output = if tokens.source == RESULT { "" } else { "at least " };
    format!(
        "{partial}{} in, {partial}{} cached, {output}{} out · {}",
        short(counts.input),
        short(cached),
        short(counts.output),
        tokens.source
    )
}

/// A number with its size as a letter.
fn short(number: u64) -> String {
    match number {
        0..=9_999 => thousands(number),
        10_000..=999_999 => format!("{}k", number / 1_000),
        _ => format!("{}.{}M", thousands(number / 1_000_000), number / 100_000 % 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coord_model::Decimal;

    #[test]
    fn numbers_read_as_people_write_them() {
        for (number, words) in [(0, "0"), (999, "999"), (1000, "1,000"), (12_345_678, "12,345,678")]
        {
            assert_eq!(thousands(number), words);
        }
        let usd = |millionths| dollars(Decimal(millionths));
        assert_eq!([usd(0), usd(2_400), usd(2_410_000)], ["$0.00", "under $0.01", "$2.41"]);
        assert_eq!(usd(1_234_567_890_000), "$1,234,567.89");
        let shorts = [9_999, 10_000, 999_999, 1_234_567, 12_000_000_000].map(short);
        assert_eq!(shorts, ["9,999", "10k", "999k", "1.2M", "12,000.0M"]);
        assert_eq!(percent(Decimal(99_999_999)), "99%");
    }
}
