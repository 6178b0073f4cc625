//! Every key of the configuration, once: what it is for, what it takes, and its default.
//!
//! `key: Kind => place;` is a key whose value coord-core takes at that place of [`CoreSettings`], and whose default
//! is the one that stands there. `key: Kind = default;` is a key with a default of its own. `, restart` marks
//! what a running coordinator takes in only when it starts again.

use coord_core::{Provider, RotationLimits, RunLimits};
use coord_model::{Mode, NoticeSettings, PassphraseFor, Settings};
use coord_wire::notice::Shape;
use serde::Deserialize;

use crate::agents::{AgentConfig, Command, Name};
use crate::channels::{ChannelConfig, ChannelType, Detail};
use crate::kinds::{Count, Kind, Maybe, Ms, Paths, Percent, PromptBy, Text, Texts, Wake, Word};
use crate::notice_kinds::{AbsolutePath, Delays, Flag, Hours, NoticeKinds, Program};
use crate::{Effective, Key, Table};

/// What coord-core takes of the configuration.
#[derive(Default)]
pub(crate) struct CoreSettings {
    pub(crate) settings: Settings,
    pub(crate) run: RunLimits,
    pub(crate) rotation: RotationLimits,
}

/// The keys of one table.
pub(crate) trait Keys {
    /// Each key, in the order of the table.
    const KEYS: &'static [Key];

    /// Their values as a file has them, in the same order.
    fn texts(&self) -> Vec<String>;

    /// Puts the values where coord-core takes them.
    fn put(&self, core: &mut CoreSettings);
}

macro_rules! needs_restart {
    () => {
        false
    };
    (restart) => {
        true
    };
}

macro_rules! table {
    ($(#[doc = $purpose:literal])+ $name:literal $vis:vis $Table:ident {$(
        $(#[doc = $about:literal])+
        $key:ident: $Kind:ident $(<$of:ty>)? $(=> $($place:ident).+)? $(= $default:expr)? $(, $restart:ident)?;
    )*}) => {
        $(#[doc = $purpose])+
        #[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        $vis struct $Table {$(
            $(#[doc = $about])+
            #[serde(deserialize_with = "crate::kinds::read")]
            $vis $key: $Kind $(<$of>)?,
        )*}

        impl Default for $Table {
            fn default() -> Self {
                Self {$(
                    $key: $($Kind(CoreSettings::default().$($place).+))? $($default)?,
                )*}
            }
        }

        impl Keys for $Table {
            const KEYS: &'static [Key] = &[$(Key {
                name: concat!($name, ".", stringify!($key)),
                about: concat!($($about),+).trim_ascii(),
                needs_restart: needs_restart!($($restart)?),
            }),*];

            fn texts(&self) -> Vec<String> {
                vec![$(self.$key.text()),*]
            }

            #[allow(unused_variables, reason = "a table may have no key that coord-core takes")]
            fn put(&self, core: &mut CoreSettings) {
                $($(core.$($place).+ = self.$key.0;)?)*
            }
        }
    };
}

macro_rules! config {
    ($($(#[doc = $purpose:literal])+ $name:literal $field:ident: $Table:ident {$($keys:tt)*})+) => {
        /// The configuration: each table of `config.toml` with its values.
        #[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct Config {
            $(
                $(#[doc = $purpose])+
                #[serde(rename = $name)]
                pub $field: $Table,
            )+
            #[serde(skip)]
            pub(crate) agents: Vec<AgentConfig>,
            #[serde(skip)]
            pub(crate) channels: Vec<ChannelConfig>,
            #[serde(skip)]
            pub(crate) written: Vec<Effective>,
        }

        /// All tables with their keys, but for those of agents.
        pub const TABLES: &[Table] = &[$(Table {
            name: $name,
            about: concat!($($purpose),+).trim_ascii(),
            keys: <$Table as Keys>::KEYS,
        }),+];

        impl Config {
            /// The values of all keys as a file has them, in the order of [`TABLES`].
            pub(crate) fn texts(&self) -> Vec<String> {
                [$(self.$field.texts()),+].concat()
            }

            pub(crate) fn core(&self) -> CoreSettings {
                let mut core = CoreSettings::default();
                $(self.$field.put(&mut core);)+
                core
            }
        }

        $(table! { $(#[doc = $purpose])+ $name pub $Table {$($keys)*} })+
    };
}

config! {
    /// Answering the client's prompts from elsewhere than its terminal (`coordctl requests`).
    "approvals" approvals: Approvals {
        /// Whether prompts can also be answered with `coordctl approve`, `deny` and `answer`. It needs a passphrase, which `coordctl passphrase` sets. The terminal can always answer too; the first answer counts.
        remote: Flag => settings.remote_answers;
        /// How long a prompt can be answered from elsewhere; after that only its terminal answers it.
        wait: Ms => settings.reply_wait_ms;
        // H-50
        /// What the passphrase is needed for. `requests`: to answer prompts. `all`: for every order of `coordctl`, so that an agent cannot give one from a window that it opened in your own tmux server.
        passphrase_for: Word<PassphraseFor> => settings.passphrase_for;
        // H-38
        /// Whether permission prompts of headless runs wait for an answer instead of being denied at once. It needs a notice channel that reports them.
        headless: Flag => settings.headless_answers;
        /// How long the prompts of a headless run wait in all, and those of the subagents of one turn (`coordctl attend --ask-for-agents`).
        headless_bound: Ms => settings.hidden_wait_ms;
        /// Whether prompts of background sessions (`claude --bg`) can be answered like those of sessions in a terminal. coord does nothing else to them.
        background: Flag => settings.background_answers;
    }

    /// The fleet of machines that this one belongs to (`coord fleet join` writes it). Without `url`, nothing connects.
    "fleet" fleet: Fleet {
        /// A file with the certificate authorities that may vouch for the server, as PEM; an absolute path. If empty, those that the system trusts.
        ca: Maybe<AbsolutePath> = Maybe(None);
        /// A file with this machine's certificate, as PEM, if the server asks for one; an absolute path.
        cert: Maybe<AbsolutePath> = Maybe(None);
        /// The file with the certificate's key, as PEM; an absolute path.
        key: Maybe<AbsolutePath> = Maybe(None);
        /// The name under which other machines show this one; the host name if empty.
        name: Maybe<Text> = Maybe(None);
        /// Whether this machine tells people of the needs of other machines too: of those that are on its list with `notify`, and have this one on theirs.
        notify: Flag = Flag(false);
        /// The address of the NATS server: `tls://HOST:PORT`, or `nats://` on this machine itself; several of one cluster are separated by commas.
        url: Maybe<Text> = Maybe(None);
    }

    /// Reserved: no key yet.
    "hooks" hooks: Hooks {}

    /// The log file of the coordinator.
    "log" log: Log {
        /// Least severe level that is logged: `error`, `warn`, `info`, `debug` or `trace`. `COORD_LOG` overrides it.
        level: Word<&'static str> = Word("info"), restart;
    }

    /// Loops over a pool of agents (`coord loop`).
    "loop" task_loop: Loop {
        /// Wait before the next agent starts after a crash; doubled after each further crash in a row.
        crash_delay: Ms => rotation.crashes.delay.first_ms;
        /// Longest wait after a crash.
        crash_delay_max: Ms => rotation.crashes.delay.max_ms;
        /// Crashes in a row after which a loop still continues; the next one ends it.
        crashes_in_a_row: Count<u32> => rotation.crashes.per_turn;
        /// Crashes in all after which a loop still continues, until `coord loop --fresh`.
        crashes_total: Count<u32> => rotation.crashes.total;
        /// Wait before an agent at its usage limit is tried again if its reset is unknown; doubled after each try.
        exhausted_retry: Ms => rotation.exhausted.first_ms;
        /// Longest wait before an agent at its usage limit is tried again if its reset is unknown.
        exhausted_retry_max: Ms => rotation.exhausted.max_ms;
        /// Iterations after which a loop ends.
        max_iterations: Count<u32> => rotation.max_iterations;
        // H-11
        /// Available memory, in MB, below which no agent is started.
        min_free_memory_mb: Count<u64> = Count(512);
    }

    /// When people are told that a session needs them. Each `[notice.channel.NAME]` says how.
    "notice" notice: Notice {
        /// Time for which a need is open before it is told, by kind; kinds that are not listed are told at once.
        delays: Delays = Delays(NoticeSettings::default().delays_ms);
        /// Kinds of needs that are told, and `replied` (a prompt was answered with `coordctl`), `recovered` and `finished`; with `[]`, nothing is told.
        kinds: NoticeKinds = NoticeKinds(NoticeSettings::default().kinds);
        /// Time for which a push waits while you are looking at the session's pane; a desktop shows nothing then.
        present_wait: Ms = Ms(NoticeSettings::default().present_ms);
        /// Kinds that are told in quiet hours too.
        quiet_except: NoticeKinds = NoticeKinds(Vec::new());
        /// Hours of the day, by the local clock, in which nothing is told; afterwards it is told in one notice.
        quiet_hours: Hours = Hours(None);
        /// Time after which an open need is told again; doubled each time.
        repeat_after: Ms = Ms(NoticeSettings::default().again_ms);
        /// Longest time until an open need is told again.
        repeat_after_max: Ms = Ms(NoticeSettings::default().again_max_ms);
    }

    /// Messages and queues.
    "queue" queue: Queue {
        /// Time for which a failed message is kept, so that it can be retried or dropped.
        failed_kept: Ms => settings.queue.failed_kept_ms;
        /// Time for which a consumer holds a message unless it asks for another time; then the message goes back.
        lease: Ms => settings.queue.lease_ms;
        /// Messages that may wait for one receiver; more are refused.
        per_receiver: Count<u32> => settings.queue.per_receiver;
        /// Time for which a message that is done is kept.
        processed_kept: Ms => settings.queue.processed_kept_ms;
        /// Attempts after the first one; then a message has failed.
        retries: Count<u32> => settings.queue.retries;
        /// Wait before the second attempt; doubled before each further one.
        retry_delay: Ms => settings.queue.delay.first_ms;
        /// Longest wait between attempts.
        retry_delay_max: Ms => settings.queue.delay.max_ms;
        /// Time after which a message that a consumer works on is shown as slow.
        slow_after: Ms => settings.queue.slow_ms;
        // H-29
        /// Size of the texts of all messages together, in MiB; a message that would exceed it is refused.
        texts_mib: Count<u64> = Count(256);
        // H-02
        /// Idle sessions that a message may wake. `always`: every interactive one. `auto`: unattended ones, and those with
        /// a name, a parent, a child or an earlier message. `never`: none.
        wake: Word<Wake> = Word(Wake::Always);
        /// Turns that coord may start in a session within 10 minutes.
        wakes_per_10min: Count<u32> => settings.wakes.per_10min;
        /// Turns that coord may start in a session within 24 hours.
        wakes_per_day: Count<u32> => settings.wakes.per_day;
    }

    /// Unattended sessions at a usage limit.
    "quota" quota: Quota {
        /// Share of a usage limit, in percent, from which a session that uses it needs you; 0: never.
        need_at: Percent => settings.quota.need_at_percent;
        /// Wait before a session is woken if the end of its limit is unknown; doubled after each wake.
        probe_after: Ms => settings.quota.probe_after_ms;
        /// Longest wait before a session is woken if the end of its limit is unknown.
        probe_delay_max: Ms => settings.quota.probe_delay_max_ms;
        /// Wakes that met the limit again after which a person is asked.
        probes: Count<u32> => settings.quota.probes;
        /// Wait after the known end of a limit before coord wakes the session; the client continues by itself first.
        reset_margin: Ms => settings.quota.reset_margin_ms;
        /// Wait before a session is woken after an API error that outlasted the client's retries.
        service_after: Ms => settings.quota.service_after_ms;
    }

    /// Crashed sessions, and what is done to bring them back.
    "recovery" recovery: Recovery {
        /// Crashes within `recovery.breaker_within` that stop all recoveries.
        breaker_deaths: Count<u32> => settings.breaker_deaths;
        /// Recoveries in a row that fail in the same way and stop all recoveries.
        breaker_failures: Count<u32> => settings.breaker_failures;
        /// Time within which `recovery.breaker_deaths` crashes are counted.
        breaker_within: Ms => settings.breaker_within_ms;
        /// Wait after a failed attempt; doubled after each further one.
        cooldown_failure: Ms => settings.cooldown_failure_ms;
        /// Time after a recovery in which coord ignores further detections in that session.
        cooldown_success: Ms => settings.cooldown_success_ms;
        /// Longest wait between failed attempts.
        delay_max: Ms => settings.recovery_delay_max_ms;
        /// A session that dies again this soon after a recovery is brought back only if its screen shows a known crash.
        dies_again_within: Ms => settings.dies_again_within_ms;
        /// Time within which a client that was sent SIGTERM must end.
        end_within: Ms => settings.end_within_ms;
        /// Time for which the user of an attended session can cancel a recovery.
        grace: Ms => settings.grace_ms;
        /// Time for which a living client must be idle before coord ends it.
        idle_quiet: Ms => settings.idle_quiet_ms;
        /// Time without a key press before coord ends a living client.
        keys_quiet: Ms => settings.keys_quiet_ms;
        /// What coord does to sessions by itself. `observe`: nothing. `signature`: brings back crashed sessions that are
        /// unattended, or whose screen shows a known crash. `act`: brings back attended ones too.
        mode: Word<Mode> => settings.mode;
        /// Recoveries in progress at once on the machine.
        recoveries_at_once: Count<u32> => settings.recoveries_at_once;
        /// Recoveries of a session in one turn.
        recoveries_per_turn: Count<u32> => settings.recoveries_per_turn;
        /// Recoveries that start within `recovery.window` on the machine.
        recoveries_per_window: Count<u32> => settings.recoveries_per_window;
        /// Recoveries of a session in all.
        recoveries_total: Count<u32> => settings.recoveries_total;
        /// Time within which a resumed client must report; then a person is asked.
        resume_proof: Ms => settings.resume_proof_ms;
        // S0-01
        /// Texts on the screen of a crashed client, in addition to the known ones; 8 characters or more each.
        signatures: Texts = Texts(Vec::new()), restart;
        /// Time for which a resumed client must live to count as brought back.
        verified_after: Ms => settings.verified_after_ms;
        /// Time within which `recovery.recoveries_per_window` recoveries are counted.
        window: Ms => settings.recovery_window_ms;
    }

    /// Headless runs (`coord run`, `coord loop`, `coord queue work`).
    "run" run: Run {
        /// Longest wait for background work of a run that should have ended, while its processes are busy.
        busy_after: Ms => run.busy_ms;
        /// CPU use of a run's processes other than its client, in percent of a core, from which they are busy.
        busy_percent: Count<u64> => run.busy_percent;
        /// Silence that confirms a hang after a known error text, once a result came.
        confirm: Ms => run.confirm_ms;
        /// Silence that confirms a hang after a known error text, before a result; the client itself retries for minutes.
        confirm_before_result: Ms => run.confirm_before_result_ms;
        /// Longest silence of a run that gave no result, unless something is pending.
        first_result: Ms => run.first_result_ms;
        /// Time between SIGTERM and SIGKILL.
        kill_grace: Ms => run.kill_grace_ms;
        /// Time after which a run whose result came is ended if nothing is pending.
        limbo: Ms => run.limbo_ms;
        /// Time after the end of a run's output after which coord warns that its process lives on.
        limbo_warning: Ms => run.limbo_warning_ms;
        /// Time after the end of a run's output after which its process is ended.
        post_result: Ms => run.post_result_ms;
        /// Longest wait for background work whose processes are quiet.
        quiet_after: Ms => run.quiet_ms;
        /// Time between two looks at a run.
        tick: Ms => run.tick_ms;
        /// Longest run, without its waits for a usage limit.
        timeout: Ms => run.timeout_ms;
        /// Longest wait for background work of a run that should have ended, where its processes cannot be read.
        unknown_after: Ms => run.unknown_ms;
        /// Longest wait for a wake-up that a run scheduled.
        wakeup_after: Ms => run.wakeup_ms;
    }

    /// Stalls, questions and a full context.
    "stall" stall: Stall {
        /// Whether an agent that asks whether to continue is answered: `never`, or in `unattended` sessions.
        answers: Word<bool> => settings.rest.answers;
        /// Answers in one iteration of a task after which a person is asked.
        answers_per_iteration: Count<u32> => settings.rest.per_iteration;
        /// Answers in all after which a person is asked.
        answers_total: Count<u32> => settings.rest.total;
        /// Unchanged captures in a row from which a stall is suspected.
        captures: Count<u32> => settings.stall.captures;
        /// Tokens that fill the context of a conversation.
        context_tokens: Count<u64> => settings.rest.context_tokens;
        /// Time between two comparisons of an unattended session's screen.
        heartbeat: Ms => settings.stall.heartbeat_ms;
        /// Time without change after which an unattended session is `stalled` while an MCP server is called.
        mcp_after: Ms => settings.stall.mcp_after_ms;
        /// Time without change after which an unattended session is `stalled` while a request is retried.
        retry_after: Ms => settings.stall.retry_after_ms;
        /// Time without change after which an unattended session is `stalled` while a subagent works.
        subagent_after: Ms => settings.stall.subagent_after_ms;
        /// Context use, in percent, at which an unattended session is asked once for a summary; values over 100 disable it.
        summary_percent: Count<u32> => settings.rest.summary_percent;
        /// Time without change after which an unattended session is `stalled` while the model answers.
        thinking_after: Ms => settings.stall.thinking_after_ms;
        /// Time without change after which an unattended session is `stalled` while a tool runs.
        tool_after: Ms => settings.stall.tool_after_ms;
    }

    /// What the coordinator keeps.
    "store" store: Store {
        /// Time for which history is kept.
        journal_kept: Ms = Ms(30 * 24 * 3_600_000);
        // H-29
        /// Tool events of a session within a minute that are kept; more are only counted.
        tool_events_per_minute: Count<u64> = Count(1_200);
    }

    /// How coord follows sessions.
    "tracking" tracking: Tracking {
        // H-44
        /// Executables and scripts that are Claude Code under another name; absolute paths.
        clients: Paths = Paths(Vec::new()), restart;
        // H-14
        /// Claude Code's configuration directories to read although `COORD_HOME` is set; absolute paths.
        config_dirs: Paths = Paths(Vec::new()), restart;
        /// Longest wait for evidence before coord judges a death.
        death_judged_within: Ms => settings.death_judged_within_ms;
        /// A session that ended this shortly before a boot was interrupted by it.
        interrupted_before_boot: Ms => settings.interrupted_before_boot_ms;
        /// A session that ended this close to a shutdown or to the end of its tmux server was interrupted by it.
        interrupted_within: Ms => settings.interrupted_within_ms;
        /// Time between two looks at panes and transcripts where there is no registry.
        look_every: Ms => settings.look_every_ms;
        /// Time after a start, a suspend, a clock step or a gap in which coord concludes nothing from silence.
        settle: Ms => settings.settle_ms;
        /// Time for which the records of ended sessions are kept.
        stopped_kept: Ms => settings.stopped_kept_ms;
        /// Time between two looks at the panes of living sessions.
        sweep: Ms => settings.sweep_ms;
        // H-24
        /// Where tmux may be, before the one found at installation and the usual places; absolute paths.
        tmux: Paths = Paths(Vec::new()), restart;
        // H-14
        /// tmux sockets to use although `COORD_HOME` is set; absolute paths.
        tmux_sockets: Paths = Paths(Vec::new()), restart;
        /// Time without any sign after which an open turn, or an idle session without a known process, is `unknown`.
        unknown_after: Ms => settings.unknown_after_ms;
    }
}

table! {
    /// The table of one channel, as the file has it.
    "notice.channel" pub(crate) ChannelTable {
        /// How people are told: `tmux`, `desktop`, `command` or `webhook`. Required.
        via: Option<Word<ChannelType>> = None;
        /// Kinds that this channel tells; those of `notice.kinds` if left out.
        kinds: Option<NoticeKinds> = None;
        /// Notices within an hour, 60 if left out; beyond that they are gathered in one.
        per_hour: Option<Count<u32>> = None;
        /// What is told of a permission request: `name`, the tool alone, or `input`, also its exact input, as far as a hook
        /// waits with it (`approvals.remote`). `name` if left out.
        detail: Option<Word<Detail>> = None;
        /// Of `webhook`: whether `detail = "input"` may send inputs to another machine.
        i_know: Option<Flag> = None;
        /// Of `tmux`: whether the terminal's bell rings too.
        bell: Option<Flag> = None;
        /// Of `command`: the absolute path of a program that gets each notice as JSON on its standard input. Of
        /// `desktop`: that of `notify-send`, if it is not the one found at installation.
        program: Option<AbsolutePath> = None;
        /// Of `webhook`: the shape of the message, `generic` (JSON), `ntfy`, `slack`, `discord` or `telegram`.
        service: Option<Word<Shape>> = None;
        /// Of `webhook`: the address; `https://`, or `http://` on this machine.
        url: Option<Text> = None;
        /// Of `webhook`: a file whose first line is the address; only its owner may read it.
        url_file: Option<AbsolutePath> = None;
        /// Of `webhook`: a program, by its absolute path, and arguments; the first line that it prints is the address.
        url_command: Option<Program> = None;
        /// Of `webhook`: a file whose first line is the token; only its owner may read it.
        token_file: Option<AbsolutePath> = None;
        /// Of `webhook`: a program, by its absolute path, and arguments; the first line that it prints is the token.
        token_command: Option<Program> = None;
        /// Of `telegram`: the chat's id.
        chat: Option<Text> = None;
        /// Of `webhook`: the address of a proxy; those in the environment are not used.
        proxy: Option<Text> = None;
        /// Of `webhook`: a file of certificates in PEM that are trusted instead of the public ones.
        ca_file: Option<AbsolutePath> = None;
    }
}

table! {
    /// The table of one agent, as the file has it.
    "loop.agent" pub(crate) AgentTable {
        /// Name of the agent: letters, digits, `.`, `_` and `-`, 32 at most. Required.
        name: Option<Name> = None;
        /// Program and arguments that run it. `{prompt}`, `{dir}`, `{status}` and `{handoff}` are replaced. Required.
        command: Option<Command<false>> = None;
        /// Program and arguments that continue a conversation after a crash; `{session}` is replaced too.
        resume: Option<Command<true>> = None;
        /// How the prompt is given: `argument` in the place of `{prompt}`, which is the default, or `stdin`.
        input: Option<Word<PromptBy>> = None;
        /// Whose client it is: `claude` or `other`; by the program's name if left out.
        provider: Option<Word<Provider>> = None;
        /// Texts on standard error that mean a used-up limit; 8 characters or more each.
        limit_texts: Option<Texts> = None;
        /// Silence that confirms a hang after a known error text, `"20s"` or more for `claude`; `run.confirm` if left
        /// out.
        confirm: Option<Ms> = None;
        /// Longest run; `run.timeout` if left out.
        timeout: Option<Ms> = None;
    }
}
