//! The channel `webhook`: an HTTPS POST in the shape of a service.
//!
//! A notice is tried three times at most, and only while the time allows. If an answer is lost, the notice may have
//! arrived, and the next try may double it. A later copy says that it is a repeat. ntfy is told a sequence id, by
//! which its clients replace the earlier copy, and a generic webhook gets an `Idempotency-Key`. Slack, Discord and
//! Telegram have nothing like that: there one more copy at most is sent after a lost answer.

mod address;
mod client;
mod service;

use std::time::Duration;

use coord_wire::notice::{Notice, NoticeEvent, SendAnswer, Webhook};

use crate::answer::{Failure, NOTHING_TO_WITHDRAW, sent};
use crate::budget::Budget;
use crate::secret;
use address::Address;
use client::{Client, Miss, Reply};
use service::{Request, Service};

/// Most tries.
const TRIES_MAX: u32 = 3;
/// How long one try may take.
const TRY_LIMIT: Duration = Duration::from_secs(3);
/// The pause before the second try; it doubles.
const PAUSE: Duration = Duration::from_millis(250);
/// What has to be left after a pause for a try to be worth it.
const TRY_MIN: Duration = Duration::from_millis(100);

/// Sends a notice, or takes the earlier one of the same need away.
pub(crate) fn tell(
    webhook: &Webhook,
    notice: &Notice,
    handle: Option<&str>,
    budget: Budget,
) -> SendAnswer {
    let (client, service) = match prepare(webhook, budget) {
        Ok(ready) => ready,
        Err(failure) => return failure.answer(0),
    };
    let is_withdrawn = notice.event == NoticeEvent::Withdrawn;
    let mut tries = 0;
    if is_withdrawn && !service.tells_withdrawals() {
        let Some(request) = service.withdrawal(notice, handle) else {
            return sent(NOTHING_TO_WITHDRAW, None, 0);
        };
        return match repeat(&client, |_| request.clone(), true, &mut tries, budget) {
            Ok(_) => sent("withdrawn", None, tries),
            // It is gone, too old, or the server does not know how.
            Err((_, Some(400 | 404 | 405))) => sent(NOTHING_TO_WITHDRAW, None, tries),
            Err((failure, _)) => failure.answer(tries),
        };
    }
    let request = |is_repeat| service.notice(notice, is_repeat);
    match repeat(&client, request, service.is_idempotent(notice), &mut tries, budget) {
        Ok(reply) => {
            let handle_now = match service.handle(&reply, notice) {
                Ok(handle_now) => handle_now,
                Err(failure) => return client.named(&failure).answer(tries),
            };
            // A service that cannot replace a message gets the new one first, so that there always is one.
            if let Some(old) = handle.filter(|_| service.posts_anew())
                && let Some(request) = service.withdrawal(notice, Some(old))
            {
                let _ = client.exchange(&request, budget.part(TRY_LIMIT));
            }
            sent(format!("HTTP {} from {}", reply.status, client.host()), handle_now, tries)
        }
        Err((failure, _)) => failure.answer(tries),
    }
}

fn prepare(webhook: &Webhook, budget: Budget) -> Result<(Client, Service), Failure> {
    let address = Address::parse(&secret::read(&webhook.url, budget)?)?;
    let token = webhook.token.as_ref().map(|token| secret::read(token, budget)).transpose()?;
    let client = Client::new(&address, webhook.proxy.as_deref(), webhook.ca_file.as_deref())?;
    let service = Service::new(webhook.shape, address, token, webhook.chat.clone())?;
    Ok((client, service))
}

/// Tries a request until it is answered. The failure comes with the status that the server answered.
fn repeat(
    client: &Client,
    request: impl Fn(bool) -> Request,
    is_idempotent: bool,
    tries: &mut u32,
    budget: Budget,
) -> Result<Reply, (Failure, Option<u16>)> {
    let mut pause = PAUSE;
    let mut tries_max = TRIES_MAX;
    let mut is_repeat = false;
    loop {
        *tries += 1;
        let (failure, status) = match client.exchange(&request(is_repeat), budget.part(TRY_LIMIT)) {
            Ok(reply) => match judge(client, &reply) {
                Verdict::Taken => return Ok(reply),
                Verdict::Refused(failure) => return Err((failure, Some(reply.status))),
                Verdict::Later(failure) => (failure, Some(reply.status)),
            },
            Err(Miss { failure, may_have_arrived, may_pass }) => {
                if !may_pass {
                    return Err((failure, None));
                }
                if may_have_arrived {
                    is_repeat = true;
                    if !is_idempotent {
                        tries_max = tries_max.min(*tries + 1);
                    }
                }
                (failure, None)
            }
        };
        let wait = failure.retry_after.unwrap_or(pause);
        let fits = wait + TRY_MIN < budget.left();
        if tries_max <= *tries || !fits || !budget.pause(wait) {
            return Err((failure, status));
        }
        pause *= 2;
    }
}

/// What a reply means.
enum Verdict {
    Taken,
    Refused(Failure),
    Later(Failure),
}

fn judge(client: &Client, reply: &Reply) -> Verdict {
    let host = client.host();
    let said = format!("HTTP {} from {host}", reply.status);
    match reply.status {
        200..300 => Verdict::Taken,
        300..400 => {
            Verdict::Refused(Failure::refused(format!("{host} redirects to another address")))
        }
        408 | 429 | 500.. => Verdict::Later(Failure {
            retry_after: service::retry_after(reply),
            ..Failure::new(said)
        }),
        _ => Verdict::Refused(Failure::refused(said)),
    }
}
