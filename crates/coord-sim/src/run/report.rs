//! What many seeds came to, for people and for programs. Decides nothing.

use std::io::Write;

use serde_json::{Value, json};

use crate::{Conditions, Meter, Sent, Shown, Stalls, Violation};

/// In nanoseconds.
pub(super) const HOUR: u64 = 3_600_000_000_000;

#[expect(clippy::cast_precision_loss, reason = "a share of hours for people")]
fn percent(part: u64, of: u64) -> String {
    if of == 0 { "-".to_owned() } else { format!("{:.3} %", 100.0 * part as f64 / of as f64) }
}

/// For people.
pub(super) fn text(out: &mut impl Write, seeds: u64, meter: &Meter) -> anyhow::Result<()> {
    let (hours, session_hours) = (meter.time / HOUR, meter.sessions / HOUR);
    writeln!(out, "{seeds} seeds, {hours} hours simulated, {session_hours} session-hours")?;
    writeln!(
        out,
        "hooks: {} ran, {} never ran; {} events acknowledged, {} spooled",
        meter.hooks, meter.hooks_lost, meter.acknowledged, meter.spooled
    )?;
    writeln!(out, "forged: {} events over the socket", meter.forged)?;
    writeln!(
        out,
        "coordinators: {} started, {} killed; {} power cuts; {} turns checked; {} stores compared",
        meter.starts, meter.kills, meter.power_cuts, meter.turns, meter.reopened
    )?;
    let ended: Vec<String> = meter.ended.iter().map(|(how, n)| format!("{how} {n}")).collect();
    writeln!(
        out,
        "recoveries: {} deaths, {} signals, {} lines put, {} acts refused by a change, {} orders; ended: {}",
        meter.deaths,
        meter.signals,
        meter.tried,
        meter.changed,
        meter.orders,
        ended.join(", ")
    )?;
    writeln!(
        out,
        "wakes: {}, {} of them to see whether a quota is back; {} sessions went on by that",
        meter.wakes, meter.probes, meter.went_on
    )?;
    messages(out, &meter.messages)?;
    writeln!(out, "notices: {} shown, withdrawals among them", meter.notices)?;
    let requests: Vec<String> =
        meter.requests.iter().map(|(situation, n)| format!("{situation} {n}")).collect();
    writeln!(out, "permission prompts: {}", requests.join(", "))?;
    let runs: Vec<String> = meter.runs.iter().map(|(how, n)| format!("{how} {n}")).collect();
    writeln!(out, "runs: {}", runs.join(", "))?;
    let faults: Vec<String> =
        meter.faults.iter().map(|(fault, n)| format!("{fault} {n}")).collect();
    writeln!(out, "faults: {}", faults.join(", "))?;
    states(out, meter)?;
    stalls(out, meter)
}

fn messages(out: &mut impl Write, sent: &Sent) -> anyhow::Result<()> {
    let deliveries: Vec<String> =
        sent.deliveries.iter().map(|(delivery, n)| format!("{delivery} {n}")).collect();
    let fates: Vec<String> = sent.fates.iter().map(|(fate, n)| format!("{fate} {n}")).collect();
    writeln!(
        out,
        "messages: {} accepted, {} folded, {} refused, {} of coord's own, {} too deep; left by {}; read {} times, {} of them again; in the end {}",
        sent.sent,
        sent.folded,
        sent.refused,
        sent.told,
        sent.deep,
        deliveries.join(", "),
        sent.read,
        sent.repeats,
        fates.join(", ")
    )?;
    Ok(())
}

const CONDITIONS: [Conditions; 4] = [
    Conditions { has_registry: true, has_faults: true },
    Conditions { has_registry: true, has_faults: false },
    Conditions { has_registry: false, has_faults: true },
    Conditions { has_registry: false, has_faults: false },
];

fn words(under: Conditions) -> String {
    let with = |has: bool| if has { "with" } else { "without" };
    let Conditions { has_registry, has_faults } = under;
    format!("{} registry, {} faults", with(has_registry), with(has_faults))
}

fn states(out: &mut impl Write, meter: &Meter) -> anyhow::Result<()> {
    for under in CONDITIONS {
        let shown = meter.shown.get(&under);
        let Shown { all, not_true, unknown, unlisted } = shown.copied().unwrap_or_default();
        writeln!(
            out,
            "{}: false {}, unknown {}, unlisted {} of {} session-hours",
            words(under),
            percent(not_true, all),
            percent(unknown, all),
            percent(unlisted, all),
            all / HOUR
        )?;
    }
    Ok(())
}

fn stalls(out: &mut impl Write, meter: &Meter) -> anyhow::Result<()> {
    for under in CONDITIONS {
        let stalls = meter.stalls.get(&under).copied().unwrap_or_default();
        let Stalls { unattended, said, not_true, due, missed } = stalls;
        writeln!(
            out,
            "stalls {}: {not_true} false of {said} said, {missed} missed of {due}, in {} unattended session-hours",
            words(under),
            unattended / HOUR
        )?;
    }
    Ok(())
}

/// For programs.
pub(super) fn json(seeds: u64, meter: &Meter, found: Option<(u64, &Violation)>) -> Value {
    let seconds = |ns: u64| ns / 1_000_000_000;
    let shown = CONDITIONS.into_iter().map(|under| {
        let Shown { all, not_true, unknown, unlisted } =
            meter.shown.get(&under).copied().unwrap_or_default();
        json!({
            "registry": under.has_registry,
            "faults": under.has_faults,
            "all_s": seconds(all),
            "false_s": seconds(not_true),
            "unknown_s": seconds(unknown),
            "unlisted_s": seconds(unlisted),
        })
    });
    let stalls = CONDITIONS.into_iter().map(|under| {
        let Stalls { unattended, said, not_true, due, missed } =
            meter.stalls.get(&under).copied().unwrap_or_default();
        json!({
            "registry": under.has_registry,
            "faults": under.has_faults,
            "unattended_s": seconds(unattended),
            "said": said,
            "false": not_true,
            "due": due,
            "missed": missed,
        })
    });
    let violation =
        found.map(|(seed, one)| json!({"seed": seed, "rule": one.rule, "what": one.what}));
    json!({
        "seeds": seeds,
        "session_s": seconds(meter.sessions),
        "violation": violation,
        "shown": shown.collect::<Vec<Value>>(),
        "stalls": stalls.collect::<Vec<Value>>(),
        "wakes": {"all": meter.wakes, "quota": meter.probes, "went_on": meter.went_on},
        "messages": {
            "accepted": meter.messages.sent,
            "deliveries": meter.messages.deliveries,
            "read": meter.messages.read,
            "repeats": meter.messages.repeats,
            "fates": meter.messages.fates,
        },
        "notices": meter.notices,
        "acts": meter.tried + meter.signals,
        "forged": meter.forged,
        "deaths": meter.deaths,
        "recoveries": meter.ended,
        "requests": meter.requests,
        "runs": meter.runs,
        "faults": meter.faults,
    })
}
