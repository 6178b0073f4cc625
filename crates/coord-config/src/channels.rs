//! The channels through which people are told: one `[notice.channel.NAME]` table each (N-02).
//!
//! Without such a table, tmux is the one channel.

use coord_model::{ChannelClass, NoticeChannel, NoticeKind, NoticeSettings};
use coord_wire::notice::{Channel, Secret, Shape, Webhook};
use serde::Deserialize as _;
use toml::Spanned;
use toml::de::{DeValue, ValueDeserializer};

use crate::error::{Place, line_of};
use crate::kinds::{Kind as _, Text, Word, Words};
use crate::notice_kinds::{AbsolutePath, Program};
use crate::tables::{ChannelTable, Notice};
use crate::{ConfigError, Effective};

/// The name of the tables.
pub(crate) const CHANNELS: &str = "notice.channel";

/// The channel that is there if no table names one.
const TMUX: &str = "tmux";
const NAME_CHARS_MAX: usize = 32;
/// Notices of a channel within an hour.
const PER_HOUR: u32 = 60;

/// A channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelConfig {
    /// What it is called.
    pub name: String,
    /// How people are told.
    pub way: ChannelWay,
    /// The kinds that it tells; none for all.
    pub kinds: Option<Vec<NoticeKind>>,
    /// Notices within an hour.
    pub per_hour: u32,
    /// What it tells of a permission request.
    pub detail: Detail,
    /// What stands in the file, by line.
    pub written: Vec<Effective>,
}

/// How people are told through a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChannelWay {
    /// A message on the terminals.
    Tmux {
        /// Whether their bells ring too.
        bell: bool,
    },
    /// A notification of the desktop.
    Desktop {
        /// `notify-send`; none for the one that was found at installation.
        program: Option<String>,
    },
    /// A program of the user's.
    Command {
        /// An absolute path.
        program: String,
    },
    /// An HTTPS POST.
    Webhook(Webhook),
}

/// What a channel tells of a permission request (N-05).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Detail {
    /// The tool.
    #[default]
    Name,
    /// Also the tool's exact input.
    Input,
}

impl Words for Detail {
    const ALL: &'static [(&'static str, Self)] = &[("name", Self::Name), ("input", Self::Input)];
}

/// What kind of channel a table describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChannelType {
    /// [`ChannelWay::Tmux`]
    Tmux,
    /// [`ChannelWay::Desktop`]
    Desktop,
    /// [`ChannelWay::Command`]
    Command,
    /// [`ChannelWay::Webhook`]
    Webhook,
}

impl Words for ChannelType {
    const ALL: &'static [(&'static str, Self)] = &[
        ("tmux", Self::Tmux),
        ("desktop", Self::Desktop),
        ("command", Self::Command),
        ("webhook", Self::Webhook),
    ];
}

impl Words for Shape {
    const ALL: &'static [(&'static str, Self)] = &[
        ("generic", Self::Generic),
        ("ntfy", Self::Ntfy),
        ("slack", Self::Slack),
        ("discord", Self::Discord),
        ("telegram", Self::Telegram),
    ];
}

impl ChannelConfig {
    fn tmux() -> Self {
        let way = ChannelWay::Tmux { bell: false };
        let (detail, written) = (Detail::default(), Vec::new());
        Self { name: TMUX.into(), way, kinds: None, per_hour: PER_HOUR, detail, written }
    }

    /// The channel as the sender gets it; `sockets` are the tmux servers of the known sessions. Programs that the file
    /// does not name are empty.
    pub fn channel(&self, sockets: Vec<String>) -> Channel {
        match &self.way {
            ChannelWay::Tmux { bell } => {
                Channel::Tmux { program: String::new(), sockets, bell: *bell }
            }
            ChannelWay::Desktop { program } => {
                Channel::Desktop { program: program.clone().unwrap_or_default() }
            }
            ChannelWay::Command { program } => Channel::Command { program: program.clone() },
            ChannelWay::Webhook(webhook) => Channel::Webhook(webhook.clone()),
        }
    }

    /// What the core has to know of it.
    fn for_core(&self) -> NoticeChannel {
        let class = match &self.way {
            ChannelWay::Tmux { .. } => ChannelClass::Tmux,
            ChannelWay::Desktop { .. } => ChannelClass::Desktop,
            ChannelWay::Command { .. } | ChannelWay::Webhook(_) => ChannelClass::Push,
        };
        let can_withdraw = match &self.way {
            ChannelWay::Tmux { .. } => false,
            ChannelWay::Webhook(webhook) => webhook.shape != Shape::Slack,
            ChannelWay::Desktop { .. } | ChannelWay::Command { .. } => true,
        };
        let (name, kinds) = (self.name.clone(), self.kinds.clone());
        NoticeChannel { name, class, can_withdraw, kinds, per_hour: self.per_hour }
    }
}

/// The channels of a file, or the one that is there without any.
pub(crate) fn or_default(channels: Vec<ChannelConfig>) -> Vec<ChannelConfig> {
    if channels.is_empty() { vec![ChannelConfig::tmux()] } else { channels }
}

/// What the core takes of the table and the channels.
pub(crate) fn settings(notice: &Notice, channels: &[ChannelConfig]) -> NoticeSettings {
    NoticeSettings {
        kinds: notice.kinds.0.clone(),
        delays_ms: notice.delays.0.clone(),
        again_ms: notice.repeat_after.0,
        again_max_ms: notice.repeat_after_max.0,
        quiet: notice.quiet_hours.0,
        quiet_except: notice.quiet_except.0.clone(),
        present_ms: notice.present_wait.0,
        channels: channels.iter().map(ChannelConfig::for_core).collect(),
    }
}

/// Reads the table of channels, whose key stands in `line`.
pub(crate) fn parse(
    channels: Spanned<DeValue<'_>>,
    text: &str,
    line: usize,
) -> Result<Vec<ChannelConfig>, ConfigError> {
    let wrong = |line, wanted: &str| ConfigError::BadValue {
        line,
        key: CHANNELS,
        wanted: wanted.to_owned(),
    };
    let of_tables = "tables of its own, each headed [notice.channel.NAME]";
    let DeValue::Table(tables) = channels.into_inner() else {
        return Err(wrong(line, of_tables));
    };
    let mut all = Vec::new();
    for (name, table) in tables {
        let line = line_of(text, name.span().start);
        let DeValue::Table(keys) = table.get_ref() else { return Err(wrong(line, of_tables)) };
        let name = name.get_ref().to_string();
        if !is_name(&name) {
            let names = format!(
                "names of letters, digits, '.', '_' and '-', {NAME_CHARS_MAX} characters at most"
            );
            return Err(wrong(line, &names));
        }
        let places = Place::all("notice.channel.", keys, text);
        let line = places.iter().map(|place| place.line).min().unwrap_or(line);
        all.push(Source { places, text, line }.channel(name, table)?);
    }
    all.sort_by_key(|one| one.written.first().and_then(|one| one.line));
    Ok(all)
}

fn is_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    (1..=NAME_CHARS_MAX).contains(&name.len()) && name.chars().all(is_plain)
}

/// Where one channel's table stands.
struct Source<'a> {
    places: Vec<Place>,
    text: &'a str,
    line: usize,
}

impl Source<'_> {
    fn channel(
        &self,
        name: String,
        table: Spanned<DeValue<'_>>,
    ) -> Result<ChannelConfig, ConfigError> {
        let table = ChannelTable::deserialize(ValueDeserializer::from(table))
            .map_err(|error| ConfigError::at(&error, &self.places, self.text))?;
        let Some(Word(of)) = table.via else {
            let wanted = format!("{}; it is missing", Word::<ChannelType>::takes());
            return Err(self.wrong("notice.channel.via", &wanted));
        };
        self.check_keys(of)?;
        let way = match of {
            ChannelType::Tmux => ChannelWay::Tmux { bell: table.bell.is_some_and(|one| one.0) },
            ChannelType::Desktop => ChannelWay::Desktop { program: table.program.map(|one| one.0) },
            ChannelType::Command => {
                let program = table.program.map(|one| one.0);
                let missing =
                    || self.wrong("notice.channel.program", "an absolute path; it is missing");
                ChannelWay::Command { program: program.ok_or_else(missing)? }
            }
            ChannelType::Webhook => ChannelWay::Webhook(self.webhook(&table)?),
        };
        let detail = table.detail.map_or(Detail::default(), |Word(detail)| detail);
        self.check_detail(detail, &way, table.i_know.is_some_and(|one| one.0))?;
        let mut written: Vec<_> =
            self.places.iter().filter_map(|place| place.written(self.text)).collect();
        written.sort_by_key(|one| one.line);
        let kinds = table.kinds.map(|kinds| kinds.0);
        let per_hour = table.per_hour.map_or(PER_HOUR, |one| one.0);
        Ok(ChannelConfig { name, way, kinds, per_hour, detail, written })
    }

    fn webhook(&self, table: &ChannelTable) -> Result<Webhook, ConfigError> {
        let shape = table.service.map_or(Shape::Generic, |Word(shape)| shape);
        let plain = table.url.as_ref().map(|one| Secret::Plain(one.0.clone()));
        let url = self.one_of(
            "notice.channel.url",
            plain,
            table.url_file.as_ref(),
            table.url_command.as_ref(),
        )?;
        let token = self.one_of(
            "notice.channel.token_file",
            None,
            table.token_file.as_ref(),
            table.token_command.as_ref(),
        )?;
        if let Some(Secret::Plain(url)) = &url
            && !is_url(url)
        {
            let wanted = "an address such as \"https://ntfy.example.org/topic\"; http:// only for this machine";
            return Err(self.wrong("notice.channel.url", wanted));
        }
        let missing = |key, wanted| self.wrong(key, wanted);
        let url = url.ok_or_else(|| {
            missing("notice.channel.url", "an address; it, url_file or url_command is missing")
        })?;
        if shape == Shape::Telegram && token.is_none() {
            let wanted = "the file of the bot's token, which Telegram needs; it is missing";
            return Err(missing("notice.channel.token_file", wanted));
        }
        if shape == Shape::Telegram && table.chat.is_none() {
            return Err(missing(
                "notice.channel.chat",
                "the chat's id, which Telegram needs; it is missing",
            ));
        }
        let text = |one: &Option<Text>| one.as_ref().map(|text| text.0.clone());
        Ok(Webhook {
            shape,
            url,
            token,
            chat: text(&table.chat),
            proxy: text(&table.proxy),
            ca_file: table.ca_file.as_ref().map(|one| one.0.clone()),
        })
    }

    /// A value that stands in the file, in another file, or is printed by a program; at most one of them.
    fn one_of(
        &self,
        key: &'static str,
        plain: Option<Secret>,
        file: Option<&AbsolutePath>,
        command: Option<&Program>,
    ) -> Result<Option<Secret>, ConfigError> {
        let file = file.map(|one| Secret::File(one.0.clone()));
        let command = command.map(|one| Secret::Command(one.0.clone()));
        let mut all = [plain, file, command].into_iter().flatten();
        let first = all.next();
        if all.next().is_some() {
            return Err(
                self.wrong(key, "one value: in the file, in a file of its own, or from a command")
            );
        }
        Ok(first)
    }

    /// An input leaves this machine only if its owner says so.
    fn check_detail(
        &self,
        detail: Detail,
        way: &ChannelWay,
        is_known: bool,
    ) -> Result<(), ConfigError> {
        let leaves = matches!(way, ChannelWay::Webhook(webhook) if !is_of_this_machine(webhook));
        if detail == Detail::Input && leaves && !is_known {
            let wanted = "\"name\" for an address on another machine, unless i_know = true";
            return Err(self.wrong("notice.channel.detail", wanted));
        }
        Ok(())
    }

    /// A key of another type of channel is a mistake that would go unnoticed.
    fn check_keys(&self, of: ChannelType) -> Result<(), ConfigError> {
        let own: &[&str] = match of {
            ChannelType::Tmux => &["bell"],
            ChannelType::Desktop | ChannelType::Command => &["program"],
            ChannelType::Webhook => &[
                "service",
                "url",
                "url_file",
                "url_command",
                "token_file",
                "token_command",
                "chat",
                "proxy",
                "ca_file",
                "i_know",
            ],
        };
        let common = ["via", "kinds", "per_hour", "detail"];
        for place in &self.places {
            let key = place.name.rsplit_once('.').map_or("", |(_, key)| key);
            let known = crate::CHANNEL_KEYS.iter().find(|one| one.name == place.name);
            if let Some(known) = known.filter(|_| !own.contains(&key) && !common.contains(&key)) {
                let types = ChannelType::ALL.iter().find(|(_, one)| *one == of);
                let word = types.map_or("", |(word, _)| *word);
                let wanted = format!("no value in a channel via \"{word}\"");
                return Err(self.wrong(known.name, &wanted));
            }
        }
        Ok(())
    }

    fn wrong(&self, key: &'static str, wanted: &str) -> ConfigError {
        let place = self.places.iter().find(|place| place.name == key);
        let line = place.map_or(self.line, |place| place.line);
        ConfigError::BadValue { line, key, wanted: wanted.to_owned() }
    }
}

/// TLS protects what leaves this machine.
fn is_url(url: &str) -> bool {
    match host(url) {
        Some(("https://", host)) => !host.is_empty(),
        Some((_, host)) => is_loopback(host),
        None => false,
    }
}

/// Whether nothing that is sent there leaves this machine. An address that only a file or a program knows may lead
/// anywhere.
fn is_of_this_machine(webhook: &Webhook) -> bool {
    let Secret::Plain(url) = &webhook.url else { return false };
    webhook.proxy.is_none() && host(url).is_some_and(|(_, host)| is_loopback(host))
}

/// The scheme and the host of an address. An address with a user's name has another host than it seems to have, and no
/// service needs one.
fn host(url: &str) -> Option<(&str, &str)> {
    let scheme = ["https://", "http://"].into_iter().find(|scheme| url.starts_with(scheme))?;
    let authority = url.get(scheme.len()..)?.split(['/', '?', '#']).next()?;
    if authority.contains('@') {
        return None;
    }
    let end = match authority.find(']') {
        Some(end) => end.saturating_add(1),
        None => authority.find(':').unwrap_or(authority.len()),
    };
    Some((scheme, authority.get(..end)?))
}

fn is_loopback(host: &str) -> bool {
    let is_address = host.parse::<std::net::Ipv4Addr>().is_ok_and(|address| address.is_loopback());
    host == "localhost" || host == "[::1]" || is_address
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;
    use coord_model::{NeedKind, QuietHours};

    fn error(text: &str) -> String {
        Config::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn without_a_table_tmux_is_the_channel() {
        let config = Config::parse("").unwrap();
        let [channel] = &config.settings().notice.channels[..] else { panic!() };
        assert_eq!((channel.name.as_str(), channel.class), ("tmux", ChannelClass::Tmux));
        assert!(!channel.can_withdraw);
    }

    // N-05
    #[test]
    fn an_input_leaves_this_machine_only_if_its_owner_says_so() {
        let of = |url: &str, rest: &str| {
            let head = "[notice.channel.one]\nvia = \"webhook\"\ndetail = \"input\"\n";
            Config::parse(&format!("{head}url = \"{url}\"\n{rest}"))
        };
        for url in ["http://localhost:8080/x", "https://127.0.0.1/x", "http://[::1]:80/"] {
            let config = of(url, "").unwrap();
            assert_eq!(config.channels()[0].detail, Detail::Input, "{url}");
        }
        for (url, rest) in [
            ("https://ntfy.example.org/x", ""),
            ("https://localhost.example.org/x", ""),
            ("http://localhost/x", "proxy = \"http://proxy.example.org\"\n"),
        ] {
            let error = of(url, rest).unwrap_err().to_string();
            assert!(error.contains("detail") && error.contains("i_know = true"), "{error}");
            of(url, &format!("{rest}i_know = true\n")).unwrap();
        }
        assert!(error("[notice.channel.one]\nvia = \"tmux\"\ni_know = true\n").contains("i_know"));
        let own = Config::parse("[notice.channel.one]\nvia = \"tmux\"\ndetail = \"input\"\n");
        assert_eq!(own.unwrap().channels()[0].detail, Detail::Input);
        assert_eq!(Config::default().channels()[0].detail, Detail::Name);
    }

    #[test]
    fn a_user_s_name_in_an_address_hides_no_host() {
        for url in ["http://localhost:80@example.org/", "https://localhost@example.org/"] {
            assert!(!is_url(url), "{url}");
        }
    }

    #[test]
    fn a_channel_has_its_keys_and_their_defaults() {
        let text = r#"
[notice]
kinds = ["permission", "finished"]
delays = { permission = "0s" }
quiet_hours = "22:30-07:00"
[notice.channel.phone]
via = "webhook"
service = "ntfy"
url = "https://ntfy.example.org/mine"
token_file = "/home/dev/.config/coord/ntfy"
kinds = ["crashed"]
[notice.channel.desk]
via = "desktop"
[notice.channel.mine]
via = "command"
program = "/home/dev/bin/tell"
per_hour = 7
"#;
        let config = Config::parse(text).unwrap();
        let notice = config.settings().notice;
        assert_eq!(notice.kinds, [NoticeKind::Need(NeedKind::Permission), NoticeKind::Finished]);
        assert_eq!(notice.delays_ms, [(NoticeKind::Need(NeedKind::Permission), 0)]);
        assert_eq!(notice.quiet, Some(QuietHours { from: 22 * 60 + 30, to: 7 * 60 }));
        let names: Vec<&str> = notice.channels.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["phone", "desk", "mine"]);
        let [phone, desk, mine] = &config.channels()[..] else { panic!() };
        let ChannelWay::Webhook(webhook) = &phone.way else { panic!("{phone:?}") };
        assert_eq!(webhook.shape, Shape::Ntfy);
        assert_eq!(webhook.token, Some(Secret::File("/home/dev/.config/coord/ntfy".to_owned())));
        assert_eq!(phone.kinds, Some(vec![NoticeKind::Need(NeedKind::Crashed)]));
        assert_eq!(desk.way, ChannelWay::Desktop { program: None });
        assert_eq!((mine.per_hour, desk.per_hour), (7, PER_HOUR));
    }

    #[test]
    fn a_change_of_a_channel_is_a_change_that_names_no_value() {
        let with = |url: &str| {
            let text = format!("[notice.channel.a]\nvia = \"webhook\"\nurl = \"{url}\"\n");
            Config::parse(&text).unwrap()
        };
        let changes =
            with("https://a.example/s3cret").changes_to(&with("https://b.example/s3cret"));
        assert_eq!(changes.len(), 1);
        assert_eq!(changes[0].key, "notice.channel");
        assert!(!format!("{changes:?}").contains("s3cret"));
    }

    #[test]
    fn errors_name_line_key_and_remedy() {
        let webhook = "[notice.channel.a]\nvia = \"webhook\"\n";
        for (text, message) in [
            (
                "[notice]\nchannel = 7",
                "line 2: notice.channel takes tables of its own, each headed [notice.channel.NAME]",
            ),
            (
                "[notice.channel.\"a b\"]\nvia = \"tmux\"",
                "line 1: notice.channel takes names of letters, digits, '.', '_' and '-', 32 characters at most",
            ),
            (
                "[notice.channel.a]\nurl = \"https://x\"",
                "line 2: notice.channel.via takes one of \"tmux\", \"desktop\", \"command\", \"webhook\"; it is missing",
            ),
            (
                "[notice.channel.a]\nvia = \"tmux\"\nurl = \"https://x\"",
                "line 3: notice.channel.url takes no value in a channel via \"tmux\"",
            ),
            (
                "[notice.channel.a]\nvia = \"command\"\nprogram = \"tell\"",
                "line 3: notice.channel.program takes an absolute path",
            ),
            (
                "[notice.channel.a]\nvia = \"command\"",
                "line 2: notice.channel.program takes an absolute path; it is missing",
            ),
            (
                &format!("{webhook}url = \"http://example.org/x\""),
                "line 3: notice.channel.url takes an address such as \"https://ntfy.example.org/topic\"; http:// only for this machine",
            ),
            (
                &format!("{webhook}url = \"https://x/y\"\nurl_file = \"/f\""),
                "line 3: notice.channel.url takes one value: in the file, in a file of its own, or from a command",
            ),
            (
                webhook,
                "line 2: notice.channel.url takes an address; it, url_file or url_command is missing",
            ),
            (
                &format!("{webhook}url = \"https://x/y\"\nservice = \"telegram\""),
                "line 2: notice.channel.token_file takes the file of the bot's token, which Telegram needs; it is missing",
            ),
            (
                "[notice.channel.a]\nvia = \"tmux\"\nbel = true",
                "line 3: unknown key \"notice.channel.bel\"; the nearest known one is \"notice.channel.bell\"",
            ),
            (
                "[notice]\nquiet_hours = \"22-7\"",
                "line 2: notice.quiet_hours takes hours of the day such as \"22:00-07:00\", or \"\" for none",
            ),
            (
                "[notice]\ndelays = { crash = \"1s\" }",
                "line 2: notice.delays takes durations by kind, such as { permission = \"20s\", crashed = \"0s\" }",
            ),
        ] {
            assert_eq!(error(text), message, "{text}");
        }
        let kinds = error("[notice]\nkinds = [\"crash\"]");
        assert!(kinds.starts_with("line 2: notice.kinds takes a list of some of: permission, "));
        for url in ["http://127.0.0.1:80/x", "http://[::1]:8/x", "http://localhost", "https://h"] {
            assert!(Config::parse(&format!("{webhook}url = \"{url}\"")).is_ok(), "{url}");
        }
    }
}
