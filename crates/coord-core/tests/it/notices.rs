//! When people are told of a need, through which channel, and when a notice is taken back (N-01 to N-04).

mod elsewhere;
mod rates;

use coord_core::{NoticeStage, NoticeWait};
use coord_model::{
    Action, ChannelClass, Command, Effect, EndReason, Event, HookKind, Kind, LocalOffset, NeedId,
    NeedKind, NoticeChannel, NoticeKind, NoticeSettings, Proof, QuietHours, Registry,
    RegistryStatus, SendAnswer, SessionState, Settings, Tell, TellAct, ToolPhase, Work,
};

use crate::crashes::{PID, at_rest, dead, in_a_turn};
use crate::world::{PROMPT, STOP, World, settings, start_of};

const DESK: &str = "desk";

fn channel(name: &str, class: ChannelClass) -> NoticeChannel {
    NoticeChannel { name: name.into(), class, can_withdraw: true, kinds: None, per_hour: 60 }
}

fn with(notice: NoticeSettings) -> Event {
    settings(Settings { notice, ..Settings::default() })
}

/// These channels, and otherwise the defaults.
pub(crate) fn through(channels: &[(&str, ChannelClass)]) -> NoticeSettings {
    let channels = channels.iter().map(|(name, class)| channel(name, *class)).collect();
    NoticeSettings { channels, ..NoticeSettings::default() }
}

/// A session in a turn, with one channel on the terminal.
fn told() -> World {
    let mut world = in_a_turn();
    world.take(&with(through(&[("tmux", ChannelClass::Tmux)])));
    world.asked_of_channels();
    world
}

fn asks(world: &mut World, id: &str, pid: u32) -> NeedId {
    let mut event = world.event(id, pid, HookKind::PermissionRequest, 0.0);
    (event.tool, event.digest) = (Some("Bash".into()), Some(7));
    world.send(event);
    world.says(id, pid, RegistryStatus::WaitingPermission);
    world.session(id).needs.last().expect("a need").id
}

fn ran(world: &mut World, id: &str, pid: u32) {
    world.says(id, pid, RegistryStatus::Busy);
    let mut event = world.event(id, pid, HookKind::Tool(ToolPhase::After), 0.0);
    (event.tool, event.digest) = (Some("Bash".into()), Some(7));
    world.send(event);
}

fn sent() -> SendAnswer {
    SendAnswer {
        is_sent: true,
        handle: None,
        saying: "shown".into(),
        tries: 1,
        is_refused: false,
        is_nobody_there: false,
        retry_after_ms: None,
    }
}

fn failed(saying: &str) -> SendAnswer {
    SendAnswer { is_sent: false, saying: saying.into(), ..sent() }
}

impl World {
    /// What channels were asked since the last look.
    fn asked_of_channels(&mut self) -> Vec<Tell> {
        let effects = core::mem::take(&mut self.effects).into_iter();
        let told = effects
            .filter_map(|effect| if let Effect::Tell(tell) = effect { Some(*tell) } else { None });
        told.collect()
    }

    /// The only thing that a channel was asked since the last look.
    #[track_caller]
    fn asked_of_channel(&mut self) -> Tell {
        let mut tells = self.asked_of_channels();
        assert_eq!(tells.len(), 1, "{tells:?}");
        tells.remove(0)
    }

    fn answer(&mut self, tell: &Tell, answer: &SendAnswer) {
        self.take(&Event::NoticeSent {
            channel: tell.channel.clone(),
            number: tell.number,
            answer: answer.clone(),
            what: String::new(),
            needs: Vec::new(),
        });
    }

    /// Lets the time pass in which every request is answered at once. What was asked.
    fn pass_answering(&mut self, seconds: f64, answer: &SendAnswer) -> Vec<(f64, Tell)> {
        let end = self.seconds + seconds;
        let mut all = Vec::new();
        loop {
            for tell in self.asked_of_channels() {
                self.answer(&tell, answer);
                all.push((self.seconds, tell));
            }
            let now = self.seconds;
            if end <= now {
                return all;
            }
            self.pass((end - now).min(1.0));
        }
    }

    /// The coordinator is killed and started.
    fn restart_with(&mut self, notice: NoticeSettings) {
        let host = self.state.header().host.clone().expect("it ran before");
        self.take(&start_of(host, Settings { notice, ..Settings::default() }));
    }

    /// The look that the crash waits for; other effects stay.
    fn asked_keeping(&mut self) -> (coord_model::Intent, coord_model::Subject) {
        let effects = self.effects.clone();
        let asked = self.asked();
        self.effects = effects;
        asked
    }

    fn stage(&self, channel: &str, id: NeedId) -> Option<NoticeStage> {
        Some(self.state.header().notices.channels[channel].notices.get(&id)?.stage)
    }
}

#[track_caller]
fn one(tell: &Tell) -> (NeedId, u32, bool) {
    let TellAct::One { id, repeat, may_be_repeated, .. } = tell.act else { panic!("{tell:?}") };
    (id, repeat, may_be_repeated)
}

// N-01: after 20 s, then after 10 minutes, 20, 40, …, and at most 2 hours.
#[test]
fn n_01_an_open_prompt_is_told_and_told_again() {
    let mut world = told();
    let id = asks(&mut world, "s1", PID);
    world.pass(19.9);
    assert_eq!(world.asked_of_channels(), []);
    let begun = world.seconds - 19.9;
    let all = world.pass_answering(6.0 * 3_600.0, &sent());
    let at: Vec<f64> = all.iter().map(|(at, _)| ((at - begun) / 60.0).round()).collect();
    assert_eq!(at, [0.0, 10.0, 30.0, 70.0, 150.0, 270.0]);
    let repeats: Vec<_> = all.iter().map(|(_, tell)| one(tell)).collect();
    assert_eq!(repeats[0], (id, 0, false));
    assert_eq!(repeats[5], (id, 5, false));
}

#[test]
fn n_01_what_is_answered_in_time_is_not_told() {
    let mut world = told();
    asks(&mut world, "s1", PID);
    world.pass(19.0);
    ran(&mut world, "s1", PID);
    world.pass(3_600.0);
    assert_eq!(world.asked_of_channels(), []);
}

// N-03: it is taken back at once, by the name that the channel gave it, and not told again.
#[test]
fn n_03_what_was_told_is_taken_back_when_it_is_over() {
    let mut world = told();
    let id = asks(&mut world, "s1", PID);
    world.pass(20.0);
    let tell = world.asked_of_channel();
    world.answer(&tell, &SendAnswer { handle: Some("h7".into()), ..sent() });
    ran(&mut world, "s1", PID);
    let back = world.asked_of_channel();
    let TellAct::Withdraw { id: of, how, handle, kind } = &back.act else { panic!("{back:?}") };
    assert_eq!((of, handle.as_deref()), (&id, Some("h7")));
    assert_eq!(*kind, NoticeKind::Need(NeedKind::Permission));
    assert!(!how.is_empty());
    world.answer(&back, &sent());
    world.pass(7_200.0);
    assert_eq!(world.asked_of_channels(), []);
    assert_eq!(world.stage("tmux", id), None);
}

// N-03: over while its sender works: it is taken back once it is known to have been told.
#[test]
fn n_03_what_ends_while_it_is_sent_is_taken_back() {
    for is_told in [true, false] {
        let mut world = told();
        asks(&mut world, "s1", PID);
        world.pass(20.0);
        let tell = world.asked_of_channel();
        ran(&mut world, "s1", PID);
        assert_eq!(world.asked_of_channels(), [], "the channel does one thing at a time");
        world.answer(&tell, &if is_told { sent() } else { failed("no") });
        let acts: Vec<TellAct> = world.asked_of_channels().into_iter().map(|one| one.act).collect();
        let is_back = matches!(acts[..], [TellAct::Withdraw { .. }]);
        assert_eq!((is_back, acts.len()), (is_told, usize::from(is_told)), "{acts:?}");
        world.pass(3_600.0);
        assert_eq!(world.asked_of_channels(), []);
    }
}

// N-03: killed between decision and result: once more, marked, and no more.
#[test]
fn n_03_after_a_restart_it_may_be_a_repeat() {
    let mut world = told();
    let notice = world.state.header().settings.notice.clone();
    let id = asks(&mut world, "s1", PID);
    world.pass(20.0);
    let lost = world.asked_of_channel();
    assert_eq!(one(&lost), (id, 0, false));
    world.restart_with(notice);
    world.pass(11.9);
    assert_eq!(world.asked_of_channels(), [], "its sender may still be at work");
    world.pass(0.2);
    let again = world.asked_of_channel();
    assert_eq!(one(&again), (id, 0, true));
    // The answer of the sender that the former coordinator started changes nothing.
    world.answer(&lost, &sent());
    assert_eq!(world.stage("tmux", id), Some(NoticeStage::Sending));
    world.answer(&again, &sent());
    world.pass(599.0);
    assert_eq!(world.asked_of_channels(), []);
    world.pass(2.0);
    assert_eq!(one(&world.asked_of_channel()), (id, 1, false));
}

// N-03: over while nobody knew whether it was told: it is taken back all the same.
#[test]
fn n_03_after_a_restart_what_is_over_is_taken_back() {
    let mut world = told();
    let notice = world.state.header().settings.notice.clone();
    asks(&mut world, "s1", PID);
    world.pass(20.0);
    world.asked_of_channel();
    ran(&mut world, "s1", PID);
    world.restart_with(notice);
    world.pass(12.1);
    assert!(matches!(world.asked_of_channel().act, TellAct::Withdraw { .. }));
}

// N-03: it ends after the restart, before it is told again.
#[test]
fn n_03_what_may_have_been_told_is_taken_back() {
    let mut world = told();
    let notice = world.state.header().settings.notice.clone();
    asks(&mut world, "s1", PID);
    world.pass(20.0);
    world.asked_of_channel();
    world.restart_with(notice);
    world.pass(3.0);
    ran(&mut world, "s1", PID);
    assert_eq!(world.asked_of_channels(), []);
    world.pass(10.0);
    let back = world.asked_of_channel();
    assert!(matches!(back.act, TellAct::Withdraw { .. }));
    world.answer(&back, &sent());
    world.pass(3_600.0);
    assert_eq!(world.asked_of_channels(), []);
}

// N-03: a channel that fails is tried again, less and less often; the others are on time.
#[test]
fn n_03_a_failing_channel_delays_no_other_one() {
    let mut world = in_a_turn();
    world.take(&with(through(&[("bad", ChannelClass::Tmux), ("good", ChannelClass::Tmux)])));
    world.asked_of_channels();
    let id = asks(&mut world, "s1", PID);
    world.pass(20.0);
    let tells = world.asked_of_channels();
    assert_eq!(tells.len(), 2);
    world.answer(&tells[1], &sent());
    let mut tell = tells[0].clone();
    for delay in [30.0, 60.0, 120.0, 240.0] {
        world.answer(&tell, &failed("no answer from example.org"));
        let failing = world.state.header().notices.channels["bad"].failing.clone();
        assert_eq!(failing.expect("it fails").reason, "no answer from example.org");
        world.pass(delay - 0.5);
        assert_eq!(world.asked_of_channels(), []);
        world.pass(1.0);
        tell = world.asked_of_channel();
        assert_eq!((tell.channel.as_str(), one(&tell)), ("bad", (id, 0, false)));
    }
    world.answer(&tell, &sent());
    assert_eq!(world.state.header().notices.channels["bad"].failing, None);
}

// N-03: without a terminal nothing is wrong; who attaches one is told within a minute.
#[test]
fn n_03_it_waits_until_somebody_is_there() {
    let mut world = told();
    let id = asks(&mut world, "s1", PID);
    world.pass(20.0);
    for _ in 0..5 {
        let tell = world.asked_of_channel();
        world.answer(&tell, &SendAnswer { is_nobody_there: true, ..failed("no terminal") });
        assert_eq!(world.state.header().notices.channels["tmux"].failing, None);
        world.pass(59.0);
        assert_eq!(world.asked_of_channels(), []);
        world.pass(2.0);
    }
    assert_eq!(one(&world.asked_of_channel()), (id, 0, false));
}

// N-01: turned off, it is told no more; turned on again, as if it were new.
#[test]
fn n_01_kinds_can_be_turned_off() {
    let mut world = told();
    asks(&mut world, "s1", PID);
    world.pass(20.0);
    let tell = world.asked_of_channel();
    world.answer(&tell, &sent());
    let on = world.state.header().settings.notice.clone();
    world.take(&with(NoticeSettings { kinds: Vec::new(), ..on.clone() }));
    world.pass(7_200.0);
    assert_eq!(world.asked_of_channels(), []);
    world.take(&with(on));
    assert_eq!(one(&world.asked_of_channel()).1, 0);
}

// N-03: what could not be taken back is tried again, for about an hour.
#[test]
fn n_03_a_withdrawal_that_fails_is_tried_again() {
    let mut world = told();
    let id = asks(&mut world, "s1", PID);
    world.pass(20.0);
    let tell = world.asked_of_channel();
    world.answer(&tell, &sent());
    ran(&mut world, "s1", PID);
    let begun = world.seconds;
    let all = world.pass_answering(6.0 * 3_600.0, &failed("no answer"));
    assert!(all.iter().all(|(_, tell)| matches!(tell.act, TellAct::Withdraw { .. })));
    let last = all.last().expect("several").0 - begun;
    assert_eq!(all.len(), 12);
    assert!((3_600.0..7_200.0).contains(&last), "the last one after {last} s");
    assert_eq!(world.stage("tmux", id), None);
}

// N-03: a changed configuration may have mended the channel.
#[test]
fn n_03_after_a_change_a_failing_channel_is_tried_at_once() {
    let mut world = told();
    asks(&mut world, "s1", PID);
    world.pass(20.0);
    let tell = world.asked_of_channel();
    world.answer(&tell, &failed("no answer"));
    assert_eq!(world.asked_of_channels(), []);
    let notice = world.state.header().settings.notice.clone();
    world.take(&with(notice));
    world.asked_of_channel();
}

// N-01: what needs nobody is off by default, and told once.
#[test]
fn n_01_news_are_told_once() {
    for is_on in [false, true] {
        let mut world = World::new();
        let mut notice = through(&[("tmux", ChannelClass::Tmux)]);
        if is_on {
            notice.kinds = vec![NoticeKind::Finished];
        }
        world.take(&with(notice));
        world.open("s1", PID, Kind::Headless);
        world.hook("s1", PID, PROMPT);
        world.hook("s1", PID, STOP);
        world.hook("s1", PID, HookKind::SessionEnd(EndReason::Other));
        world.exit(PID);
        world.registry(PID, Registry::Absent, true);
        assert_eq!(world.state_of("s1"), SessionState::Stopped);
        let all = world.pass_answering(7_200.0, &sent());
        let kinds: Vec<NoticeKind> = all
            .iter()
            .map(|(_, tell)| match tell.act {
                TellAct::One { kind, .. } => kind,
                TellAct::Digest { .. } | TellAct::Withdraw { .. } => panic!("{tell:?}"),
            })
            .collect();
        assert_eq!(kinds, if is_on { vec![NoticeKind::Finished] } else { vec![] });
    }
}

// N-03: what is refused is a finding, and not tried again before the next repeat.
#[test]
fn n_03_a_refusal_is_not_tried_again() {
    let mut world = told();
    asks(&mut world, "s1", PID);
    world.pass(20.0);
    let tell = world.asked_of_channel();
    world.answer(&tell, &SendAnswer { is_refused: true, ..failed("HTTP 403 from example.org") });
    world.pass(599.0);
    assert_eq!(world.asked_of_channels(), []);
    let failing = world.state.header().notices.channels["tmux"].failing.clone();
    assert!(failing.expect("it fails").is_refused);
    world.pass(2.0);
    assert_eq!(one(&world.asked_of_channel()).1, 0, "it has not been told");
}

#[test]
fn n_03_a_channel_that_wants_a_pause_gets_it() {
    let mut world = told();
    asks(&mut world, "s1", PID);
    world.pass(20.0);
    let tell = world.asked_of_channel();
    world.answer(&tell, &SendAnswer { retry_after_ms: Some(100_000), ..failed("HTTP 429") });
    world.pass(99.0);
    assert_eq!(world.asked_of_channels(), []);
    world.pass(2.0);
    world.asked_of_channel();
}

// N-04: the desktop shows nothing to who is looking at the pane; a push waits two minutes, once.
#[test]
fn n_04_presence_postpones_and_never_drops() {
    let channels = [(DESK, ChannelClass::Desktop), ("phone", ChannelClass::Push)];
    for is_present in [true, false] {
        let mut world = in_a_turn();
        world.take(&with(through(&channels)));
        world.effects.clear();
        let id = asks(&mut world, "s1", PID);
        world.pass(20.0);
        let looks = world.effects.iter().filter(|one| is_look(one, id)).count();
        assert_eq!((looks, world.asked_of_channels()), (1, vec![]), "one look for both");
        world.take(&Event::PresenceSeen { need: id, is_present });
        if !is_present {
            assert_eq!(world.asked_of_channels().len(), 2);
            continue;
        }
        assert_eq!(world.asked_of_channels(), []);
        world.pass(119.0);
        assert_eq!(world.asked_of_channels(), []);
        world.pass(2.0);
        let tell = world.asked_of_channel();
        assert_eq!(tell.channel, "phone");
        world.answer(&tell, &sent());
        world.pass(480.0);
        assert!(world.effects.iter().any(|one| is_look(one, id)), "the desktop looks again");
        world.take(&Event::PresenceSeen { need: id, is_present: false });
        assert_eq!(world.asked_of_channel().channel, DESK);
    }
}

fn is_look(effect: &Effect, of: NeedId) -> bool {
    matches!(effect, Effect::LookForPresence { need, .. } if *need == of)
}

// N-04: a look that is not answered, since tmux hangs, keeps nobody uninformed.
#[test]
fn n_04_a_look_without_an_answer_found_nobody() {
    let mut world = in_a_turn();
    world.take(&with(through(&[("phone", ChannelClass::Push)])));
    world.effects.clear();
    let id = asks(&mut world, "s1", PID);
    world.pass(22.0);
    assert_eq!(world.asked_of_channels(), []);
    world.pass(2.0);
    assert_eq!(one(&world.asked_of_channel()), (id, 0, false));
}

#[test]
fn n_01_a_dismissed_need_is_taken_back() {
    let mut world = at_rest();
    world.take(&with(through(&[("tmux", ChannelClass::Tmux)])));
    world.crash(PID);
    let proof = dead(&world);
    let (intent, _) = world.asked_keeping();
    world.take(&Event::Proved { session_id: String::new(), intent, proof: Box::new(proof) });
    let need = world.session("s1").open_needs().next().expect("a crash").id;
    let (session, work) = (world.session("s1").key, Box::new(Work::NoRepository));
    world.take(&Event::WorkSeen { session_id: "s1".into(), session, work });
    let tell = world.asked_of_channel();
    assert_eq!(one(&tell), (need, 0, false), "at once");
    world.answer(&tell, &sent());
    world.command(Command::Dismiss { session: world.session("s1").key, need });
    assert!(matches!(world.asked_of_channel().act, TellAct::Withdraw { .. }));
}

// N-01: a channel that is added learns of what is open, and one that is removed is asked nothing.
#[test]
fn n_01_channels_follow_the_configuration() {
    let mut world = told();
    let id = asks(&mut world, "s1", PID);
    world.pass(20.0);
    let tell = world.asked_of_channel();
    world.answer(&tell, &sent());
    world.take(&with(through(&[("new", ChannelClass::Tmux)])));
    let tell = world.asked_of_channel();
    assert_eq!((tell.channel.as_str(), one(&tell)), ("new", (id, 0, false)));
    world.take(&with(NoticeSettings::default()));
    world.pass(7_200.0);
    assert_eq!(world.asked_of_channels(), []);
}

#[test]
fn n_01_kinds_are_chosen_for_all_and_for_a_channel() {
    let mut world = in_a_turn();
    let mut notice = through(&[("all", ChannelClass::Tmux), ("crashes", ChannelClass::Tmux)]);
    notice.channels[1].kinds = Some(vec![NoticeKind::Need(NeedKind::Crashed)]);
    world.take(&with(notice));
    asks(&mut world, "s1", PID);
    world.pass(20.0);
    assert_eq!(world.asked_of_channel().channel, "all");
}

// N-04: what was told, where and when, and why something was not, can be explained.
#[test]
fn n_04_each_step_is_a_decision_about_the_need() {
    let mut world = told();
    let id = asks(&mut world, "s1", PID);
    world.pass(20.0);
    let tell = world.asked_of_channel();
    world.answer(&tell, &sent());
    ran(&mut world, "s1", PID);
    let of_it = world.decisions.iter().filter(|one| one.notice == Some(id));
    let did: Vec<&str> = of_it.map(|one| one.did.as_str()).collect();
    assert_eq!(did, ["send a notice through tmux", "withdraw the notice from tmux"]);
}

// H-35: what a recovery waits for stays the same however it is worded: its age is that of the wait.
#[test]
fn h_35_a_wait_whose_words_change_is_told_of() {
    let mut world = in_a_turn();
    world.crash(PID);
    let began = world.seconds;
    while world.seconds < began + 1_840.0 {
        let want = Some(format!("{} MB of memory are free", world.seconds));
        let proof = Proof { want, ..dead(&world) };
        assert_eq!(world.prove(proof), Vec::<Action>::new());
        world.pass(20.0);
    }
    let told: Vec<&str> = world
        .decisions
        .iter()
        .filter(|one| one.rule == "H-35")
        .map(|one| one.did.as_str())
        .collect();
    assert_eq!(told, ["notice shown once"]);
}
